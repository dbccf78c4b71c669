"""The control of a synthesizer has the schedule of the synthesizer's SFT."""

import pytest

from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.systems.pacore.synthesizer import supervised_training
from pipeline_lib.train.schedules import schedule_stored_rows, schedule_warm_start

COLD_START = {"warm_start_steps": 300, "warm_start_lr": 2e-3, "warm_start_batch_size": 32}
ONLINE = {"lr": 5e-5, "steps": 60, "batch_size": 16, "group_size": 2}


@pytest.mark.parametrize("method", [Method.GRPO, Method.RLOO, Method.PPO])
def test_before_an_online_method_it_is_the_cold_start(method):
    """300 steps of 32 rows at 2e-3, not 60 of 16 at 5e-5: 9,600 rows in place of 960."""
    train = TrainParams(method=method, **ONLINE, **COLD_START)
    schedule = schedule_stored_rows(supervised_training(train))
    assert schedule == schedule_warm_start(train)
    assert (schedule.steps, schedule.lr, schedule.batch_size) == (300, 2e-3, 32)


@pytest.mark.parametrize("settings", [{"method": Method.SFT}, {"warm_start_steps": 0}])
def test_without_a_cold_start_it_is_the_training_itself(settings):
    """SFT ignores the settings of a warm start: 60 steps of 16; so does GRPO with a warm start of 0 steps."""
    train = TrainParams(**({"method": Method.GRPO} | ONLINE | COLD_START | settings))
    own = supervised_training(train)
    assert own.method is Method.SFT
    assert (own.steps, own.lr, own.batch_size) == (60, 5e-5, 16)
