"""Common to all phases: learning rate, gradient clipping, order of rows, one GPU per process."""

import math
import pathlib
from functools import cached_property

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, TrainingArguments

from pipeline_lib.params.train import ONLINE, LoraParams, Method
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.train.bootstrap import make_base_policy
from pipeline_lib.train.methods import train_policy
from pipeline_lib.train.offline import sft
from pipeline_lib.train.phases import Phase, Schedule, TrainContext, order_rows, run_phase
from pipeline_lib.train.trainer_settings import TrainerSettings
from pipeline_lib.train.weights.policies import LOG_NAME

LR, WARM_START_LR = 2e-3, 5e-3
TRAIN = {"lr": LR, "steps": 10, "warm_start_lr": WARM_START_LR, "warm_start_steps": 10}


def rates(folder: pathlib.Path, phase: str) -> list[float]:
    """The learning rate of each step of a phase, from the log of the training."""
    log = list(read_json_lines(folder / LOG_NAME))
    return [line["lr"] for line in log if line["phase"] == phase]


def cosine(lr: float, share: float) -> float:
    """The rate after ``share`` of the steps that follow the warm-up."""
    return lr * 0.5 * (1 + math.cos(math.pi * share))


def is_cosine(found: list[float], lr: float) -> None:
    """Of 10 steps with a warm-up of 25 %, which is 3 steps: 0, 1/3 and 2/3 of the rate, then the whole
    at step 4, and the seven steps from there on along half a cosine: step 6 after 2/7, step 10 after
    6/7 of it.
    """
    assert len(found) == 10
    assert found[:4] == pytest.approx([0, lr / 3, lr * 2 / 3, lr])
    assert found[5] == pytest.approx(cosine(lr, 2 / 7))
    assert found[9] == pytest.approx(cosine(lr, 6 / 7))


def test_rates_of_the_base_policy(tiny, problems, tmp_path):
    """The phase `bootstrap` of 10 steps."""
    params = tiny.model_copy(update={"steps": 10, "lr": LR, "warmup_fraction": 0.25})
    make_base_policy(
        solution_rows(problems, None), tmp_path / "base", params=params, seed=1, key="key"
    )
    is_cosine(rates(tmp_path / "base", "bootstrap"), LR)


@pytest.mark.parametrize("method", list(Method))
def test_rates_of_every_phase(method, request_for, tmp_path):
    """Methods on stored rows follow a cosine. Online ones begin with a warm start, with a cosine and
    its own rate, then hold their rate: 0, 1/3 and 2/3 of it, and the full rate from step 4 to 10.
    """
    train = TRAIN | {"warmup_fraction": 0.25, "entropy_coef": 0}
    train_policy(request_for(method, tmp_path / "out", train=train))
    found = rates(tmp_path / "out", method.value)
    if method in ONLINE:
        is_cosine(rates(tmp_path / "out", "warm-start"), WARM_START_LR)
        assert found == pytest.approx([0, LR / 3, LR * 2 / 3, *[LR] * 7])
    else:
        is_cosine(found, LR)


@pytest.mark.parametrize(
    ("steps", "fraction", "expected"),
    [
        (1, 0.05, [1]),
        (1, 0, [1]),
        (1, 1, [1]),
        (2, 0.05, [0, 1]),
        (3, 1, [0, 0.5, 1]),
        (3, 0, [1, 0.75, 0.25]),
    ],
)
def test_the_last_step_is_never_part_of_the_warm_up(
    steps, fraction, expected, request_for, tmp_path
):
    """A single step trains at the full rate, whatever the warm-up; a warm-up of all of 3 steps takes 2.
    Without one, 3 steps are at 0, 1/3 and 2/3 of the cosine: 1, 3/4 and 1/4.
    """
    train = {"lr": LR, "steps": steps, "warmup_fraction": fraction}
    train_policy(request_for(Method.SFT, tmp_path / "out", train=train))
    assert rates(tmp_path / "out", "sft") == pytest.approx([LR * share for share in expected])


def test_gradients_are_clipped_to_a_norm_of_one(base: pathlib.Path, rows, tmp_path):
    """By plain descent at rate 0.1, one step along a gradient of a norm above 1, as the log has it
    before the clip, moves the weights by 0.1 x 1 in all.
    """

    def make(policy, settings):
        make_trainer = sft.trainer_factory(rows, lora=LoraParams(enabled=False))
        return make_trainer(policy, settings | {"optim": "sgd"})

    schedule = Schedule(
        steps=1, lr=0.1, batch_size=4, micro_batch_size=2, shape="cosine", warmup_fraction=0,
        checkpoint_every=1,
    )  # fmt: skip
    context = TrainContext(work=tmp_path, key="key", seed=5, threads=1)
    after = run_phase(Phase(name="p", schedule=schedule, make_trainer=make), str(base), context)
    [line] = read_json_lines(after / LOG_NAME)
    assert line["grad_norm"] > 1.1
    weights = [
        dict(AutoModelForCausalLM.from_pretrained(folder).named_parameters())
        for folder in (base, after)
    ]
    moved = sum((weights[1][name] - old).square().sum() for name, old in weights[0].items())
    assert moved.sqrt().item() == pytest.approx(0.1, rel=1e-3)


def test_each_pass_over_the_rows_has_its_own_order():
    """Nine rows, four per step, seven steps: three passes and one row of a fourth. Each pass has every
    row once; passes, seeds and the given order all differ.
    """
    rows = Dataset.from_list([{"n": n} for n in range(9)])
    settings = TrainerSettings({
        "max_steps": 7, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "seed": 3,
    })  # fmt: skip
    taken = order_rows(rows, settings)["n"]
    assert len(taken) == 28
    passes = [tuple(taken[start : start + 9]) for start in (0, 9, 18)]
    assert all(sorted(one) == list(range(9)) for one in passes)
    other = tuple(order_rows(rows, settings | {"seed": 4})["n"][:9])
    assert len({*passes, other, tuple(range(9))}) == 5
    assert order_rows(rows, settings)["n"] == taken


def test_a_row_of_a_group_counts_once():
    """Seven steps of 4 paths, two per row, take 14 rows."""
    settings = TrainerSettings({
        "max_steps": 7, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 1, "seed": 3,
    })  # fmt: skip
    assert len(order_rows(Dataset.from_list([{"n": 0}]), settings, sequences_per_row=2)) == 14


class FourGpus(TrainingArguments):
    """Arguments on a machine with four GPUs, all visible."""

    @cached_property
    def _setup_devices(self):
        self._n_gpu = 4
        return torch.device("cpu")


def test_a_batch_is_not_multiplied_by_the_visible_gpus(tmp_path):
    """Two rows on four GPUs: 8 by transformers, 2 here, and one GPU, without which TRL refuses."""
    values = {"output_dir": str(tmp_path), "per_device_train_batch_size": 4}
    assert FourGpus(**values | {"per_device_train_batch_size": 2}).train_batch_size == 8
    args = TrainerSettings(values).make(FourGpus, per_device_train_batch_size=2)
    assert (args.train_batch_size, args.n_gpu) == (2, 1)


def test_no_trainer_makes_its_config_elsewhere(tmp_path):
    """The settings cannot be unpacked into the arguments of a config."""
    settings = TrainerSettings({"output_dir": str(tmp_path)})
    with pytest.raises(TypeError, match="must be a mapping"):
        TrainingArguments(**settings)
