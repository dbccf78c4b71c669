"""The control: the loop's number of tokens, and the best checkpoint by held-out worked problems."""

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Callable

import pytest

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import CountdownParams
from pipeline_lib.params.train import LoraParams
from pipeline_lib.problems.countdown import generate
from pipeline_lib.problems.trained import trained_on
from pipeline_lib.problems.worked import WorkedProblems, divide_worked
from pipeline_lib.records import Problem
from pipeline_lib.store import manifests
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.train.control import ControlRequest, train_control
from pipeline_lib.train.control_report import read_control_report
from pipeline_lib.train.phases import Schedule, TrainContext
from pipeline_lib.train.weights.policies import LOG_NAME, tokens_of

SCHEDULE = Schedule(
    steps=0,
    lr=5e-3,
    batch_size=8,
    micro_batch_size=8,
    shape="cosine",
    warmup_fraction=0.05,
    checkpoint_every=4,
)


@pytest.fixture(scope="module")
def worked() -> WorkedProblems:
    """Sixty worked problems, a fourth of them held out."""
    params = CountdownParams(num_numbers=2, high=15)
    problems = generate(params, seed=9, count=60)
    return divide_worked(problems, validation_fraction=0.25, seed=1)


@pytest.fixture(scope="module")
def request_of(
    base: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., ControlRequest]:
    """Makes the request of a control of the tiny base, in a folder of its own unless named."""
    root = tmp_path_factory.mktemp("controls")
    numbers = itertools.count()

    def make(worked: WorkedProblems, **changes: object) -> ControlRequest:
        name = str(changes.pop("name", f"control-{next(numbers)}"))
        progress = changes.pop("progress", None)
        context = TrainContext(
            work=root / f".{name}.work", key="k", seed=3, threads=1, progress=progress
        )
        request = ControlRequest(
            base=base,
            base_is_given=False,
            output=root / name,
            worked=worked,
            budget_tokens=4000,
            schedule=SCHEDULE,
            lora=LoraParams(),
            context=context,
        )
        return dataclasses.replace(request, **changes)

    return make


@pytest.fixture(scope="module")
def whole(request_of, worked) -> ControlRequest:
    """The request of a finished control of 4,000 tokens."""
    request = request_of(worked)
    train_control(request)
    return request


def test_the_problems_of_control_and_base_are_recorded(worked, whole, problems):
    """60 of the control, those of its validation included, and 24 of the base."""
    known = [*worked.train, *worked.validation, *problems]
    [sentence] = trained_on({"it": str(whole.output)}, known)
    assert sentence.startswith("NOT HELD OUT: 84 of 84 ")


def test_the_control_uses_the_budget_and_keeps_the_lowest_loss(request_of, worked, whole):
    """Its tokens are the budget within one checkpoint interval per schedule; the kept loss is the log's lowest,
    and further training from the saved weights begins at this loss."""
    manifest = manifests.read_manifest(whole.output)
    report = read_control_report(whole.output)
    num_schedules, max_row_tokens = 3, 20
    interval = SCHEDULE.checkpoint_every * SCHEDULE.batch_size * max_row_tokens
    rounding = num_schedules * interval
    assert 4000 - rounding < tokens_of(manifest).trained < 4000 + rounding
    log = list(read_json_lines(whole.output / LOG_NAME))
    losses = [row["validation_loss"] for row in log if "validation_loss" in row]
    assert {row["phase"] for row in log} == {"control-1", "control-2", "control-3"}
    assert report.validation_loss == min(losses) < report.base_validation_loss
    assert (report.train_problems, report.validation_problems) == (45, 15)
    again = request_of(worked, base=whole.output, budget_tokens=1)
    train_control(again)
    first = next(iter(read_json_lines(again.output / LOG_NAME)))
    assert (first["step"], first["validation_loss"]) == (0, pytest.approx(min(losses), abs=1e-5))


def test_twice_the_budget_is_twice_the_tokens(request_of, worked, whole):
    """4,000 and 8,000 tokens, up to the rounding of steps."""
    small = tokens_of(manifests.read_manifest(whole.output)).trained
    large = tokens_of(train_control(request_of(worked, budget_tokens=8000))).trained
    assert large / small == pytest.approx(2, rel=0.2)


def test_the_base_is_kept_if_no_step_improves_it(request_of, worked, base):
    """At a rate of 3 every step raises the loss: the base's weights are saved, with ``kept_step`` 0."""
    request = request_of(worked, schedule=dataclasses.replace(SCHEDULE, lr=3.0))
    manifest = train_control(request)
    report = read_control_report(request.output)
    assert (report.kept_phase, report.kept_step, report.is_base) == (None, 0, False)
    assert report.validation_loss == report.base_validation_loss
    weights = "model.safetensors"
    assert manifest.files[weights] == manifests.read_manifest(base).files[weights]
    assert tokens_of(manifest).trained > 0


@pytest.mark.parametrize("solved", [False, True], ids=["no solution", "none held out"])
def test_without_worked_solutions_the_control_is_the_base(request_of, solved):
    """No rows for training, or none for validation: a report and no weights."""
    gold = MathGold(answer="1")
    problem = Problem(id="p", question="?", gold=gold, source="t", solution="1" if solved else None)
    request = request_of(divide_worked([problem], validation_fraction=0.1, seed=1))
    manifest = train_control(request)
    assert set(manifest.files) == {"control.json"}
    assert json.loads((request.output / "control.json").read_text("utf-8"))["is_base"] is True


def test_a_resumed_control_equals_an_unbroken_one(request_of, worked, whole):
    """Stopped in the second schedule and run again, every file equals that of an unbroken run."""

    def stop(step: int, _total: int, _metrics: object) -> None:
        steps.append(step)
        # The first schedule has fewer steps than 12, the first two together have more.
        if len(steps) == 12:
            raise KeyboardInterrupt

    steps: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        train_control(request_of(worked, name="broken", progress=stop))
    resumed = train_control(request_of(worked, name="broken"))
    assert resumed.files == manifests.read_manifest(whole.output).files
