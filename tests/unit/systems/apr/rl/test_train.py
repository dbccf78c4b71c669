"""Reinforcement learning of a tiny model of threads: resume, limits, the saved folder, refusals."""

import shutil
from dataclasses import replace

import pytest

from pipeline_lib.errors import BadInputError, BudgetReachedError
from pipeline_lib.params.apr import AprRlParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.problems.trained import trained_on
from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.systems.apr.data_folder import check_data, generate_data, problem_file
from pipeline_lib.systems.apr.model_record import read_record
from pipeline_lib.systems.apr.problem_lines import countdown_problem, read_problems
from pipeline_lib.systems.apr.rl import train_by_rl
from tests.unit.systems.apr.learned_model import (
    SMALL_DATA,
    outputs_of,
    save_model,
    save_record,
    trace,
)

PARAMS = AprRlParams(steps=4, prompts=2, group_size=3, lr=1e-3, pass_tokens=512, checkpoint_every=1)


def train(model, data, output, *, rl=PARAMS, **options):
    return train_by_rl(model, data, output, rl, seed=5, verify=VerifyParams(), **options)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three problems to train on."""
    return make_data(tmp_path_factory.mktemp("rl-data"))


def make_data(parent):
    folder = parent / "data"
    generate_data(SMALL_DATA.model_copy(update={"train_problems": 3}), folder, seed=3, workers=1)
    return folder


@pytest.fixture(scope="module")
def model(data, tmp_path_factory):
    """A model that has learned their traces, and solves a part of them at temperature 1."""
    return make_model(data, tmp_path_factory.mktemp("rl-model"))


def make_model(data, parent):
    problems = read_problems(problem_file(data, "train"))
    traces = [trace(list(one.gold.numbers), one.gold.target) for one in problems]
    folder = save_model(parent, outputs_of(*traces))
    save_record(folder, data=check_data(data).digest)
    return folder


@pytest.fixture(scope="module")
def trained(model, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rl") / "model"
    train(model, data, folder)
    return folder


@pytest.fixture
def other_model(model, tmp_path):
    return shutil.copytree(model, tmp_path / "other")


def test_a_step_logs_what_was_drawn(trained):
    """Four steps of 2 x 3 rollouts: shares of them, children and tokens, and divergences after the first.

    Some rollouts are right and some are wrong, so that the weights move.
    """
    rows = list(read_json_lines(trained / "training_log.jsonl"))
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    for row in rows:
        assert row["accuracy"] == row["reward"]
        assert 6 * row["reward"] == pytest.approx(round(6 * row["reward"]))
        assert 0 < row["critical_tokens"] <= row["drawn_tokens"]
        assert row["children"] >= 0
    assert 0 < sum(row["reward"] for row in rows) < 4
    assert rows[3]["kl"] > 0
    counts = manifests.read_manifest(trained).counts
    assert counts["trained_tokens"] == 2 * counts["drawn_tokens"] > 0


def test_the_record_is_carried_over(trained, model):
    """The result is a model of threads as the one it began with, with other weights."""
    assert read_record(trained) == read_record(model)
    name = "model.safetensors"
    assert (trained / name).read_bytes() != (model / name).read_bytes()


def test_the_problems_of_both_trainings_are_recorded(trained, data):
    """Those of the data's training; of its test problems none, in whatever order their numbers are."""
    by_split = {split: read_problems(problem_file(data, split)) for split in ("train", "test")}
    [first, *_] = by_split["train"]
    numbers = first.gold.numbers[::-1]
    turned = countdown_problem("other", replace(first.gold, numbers=numbers))
    models = {"m": str(trained)}
    assert trained_on(models, by_split["test"]) == []
    [sentence] = trained_on(models, [*by_split["train"], turned, *by_split["test"]])
    assert f" {len(by_split['train']) + 1} of " in sentence


class Broken(Exception):  # noqa: N818 - in place of a kill
    """Raised by the progress callback."""


def break_at_three(step: int, *_: object) -> None:
    if step == 3:
        raise Broken


def test_a_time_limit_ends_behind_a_checkpoint(trained, model, data, tmp_path):
    """A limit that is over at once: one step, and the next call ends with the digests of one training.

    In it another break, within the step behind the second checkpoint.
    """
    output = tmp_path / "model"
    with pytest.raises(BudgetReachedError, match="step 1 of 4"):
        train(model, data, output, max_seconds=1e-6)
    assert not output.exists()
    with pytest.raises(Broken):
        train(model, data, output, progress=break_at_three)
    steps: list[int] = []
    train(model, data, output, progress=lambda step, _total, _metrics: steps.append(step))
    assert steps[0] == 3
    assert manifests.read_manifest(output) == manifests.read_manifest(trained)


def test_a_finished_training_is_reused(trained, model, data):
    """The same call writes nothing."""
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    train(model, data, trained)
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


def test_the_model_of_another_training_is_kept(trained, model, data):
    """Another rate: an error in one line, and the model stays."""
    digest = manifests.read_manifest(trained).digest
    changed = PARAMS.model_copy(update={"lr": 1e-4})
    with pytest.raises(BadInputError, match="model of another training"):
        train(model, data, trained, rl=changed)
    assert manifests.read_manifest(trained).digest == digest


@pytest.mark.parametrize(
    ("record", "changed", "message"),
    [
        ({"style": "published"}, {}, "of style published, the data is compact"),
        ({"num_numbers": 4}, {}, "is for 4 numbers"),
        ({}, {"children": 5}, "never trained on 'Sub Call Budget: 5'"),
        ({"window": 10}, {}, "window=10: the prompt of problem"),
        ({}, {"prompts": 4}, "prompts=4: there are 3 training problems"),
        ({}, {"steps": 0}, "steps=0: nothing to train"),
    ],
)
def test_what_does_not_fit_is_refused(other_model, data, tmp_path, record, changed, message):
    """In one line, before anything is written."""
    save_record(other_model, **{"data": check_data(data).digest} | record)
    output = tmp_path / "out"
    with pytest.raises(BadInputError, match=message):
        train(other_model, data, output, rl=PARAMS.model_copy(update=changed))
    assert not list(tmp_path.glob("*out*"))


def test_serial_models_have_a_weight_of_their_own(other_model, data, tmp_path):
    """The model's kind alone differs: equal first draws, and other weights after four updates."""
    digest = check_data(data).digest
    save_record(other_model, kind="serial", data=digest)
    rl = PARAMS.model_copy(update={"steps": 2, "kl_coef": 0.0, "serial_kl_coef": 5.0})
    serial = train(other_model, data, tmp_path / "serial", rl=rl)
    save_record(other_model, data=digest)
    parallel = train(other_model, data, tmp_path / "parallel", rl=rl)
    logs = [
        next(iter(read_json_lines(tmp_path / kind / "training_log.jsonl")))
        for kind in ("serial", "parallel")
    ]
    assert logs[0]["reward"] == logs[1]["reward"]
    assert serial.files["model.safetensors"] != parallel.files["model.safetensors"]
