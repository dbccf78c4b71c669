"""An interrupted and resumed training gives the weights of an unbroken one, bit for bit."""

import json
import pathlib
import signal
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.train import ONLINE, Method
from pipeline_lib.problems.trained import trained_on
from pipeline_lib.records import Problem
from pipeline_lib.seeding import child_random
from pipeline_lib.store import manifests
from pipeline_lib.store.checkpoints import work_folder
from pipeline_lib.train.methods import TrainingRequest, TrainingSummary, train_policy

RESUMED = [
    *((method, False) for method in (Method.SFT, Method.DPO, Method.GRPO, Method.PPO)),
    *((method, True) for method in (Method.SFT, Method.GRPO)),
    # Made of parts of the others.
    *(pytest.param(method, True, marks=pytest.mark.slow) for method in (Method.DPO, Method.PPO)),
]


class Broken(Exception):  # noqa: N818 - in place of a kill
    """Raised by the progress callback, in place of a kill."""


def break_at(step: int):
    """A progress callback that ends the run at ``step`` of the last phase."""

    def progress(now: int, total: int, metrics: object) -> None:
        if total == 6 and now == step:
            raise Broken

    return progress


def recorder():
    """A list, and a progress callback that appends each step to it."""
    steps = []

    def progress(step: int, total: int, metrics: object) -> None:
        steps.append(step)

    return steps, progress


def weights_digest(folder: pathlib.Path) -> str:
    """Sha256 of the weights file."""
    return manifests.read_manifest(folder).files["model.safetensors"].sha256


@pytest.mark.parametrize(("method", "lora"), RESUMED)
def test_a_resumed_run_gives_the_same_weights(method, lora, half_solved, request_for, tmp_path):
    """Six steps, checkpoints after 2 and 4, broken at 5: steps 5 and 6 are repeated identically.

    The manifests are equal: weights, tokenizer, and every value of the log.
    """
    # A low rate, so that the last steps still change the weights.
    train = {"lora": {"enabled": lora}, "entropy_coef": 0, "lr": 2e-4}
    if lora:  # a warm start before it costs as much again; full trainings have one
        train |= {"warm_start_steps": 0}

    def run(output: str, **changes: Any) -> TrainingSummary:
        request = request_for(method, tmp_path / output, train=train, **half_solved, **changes)
        return train_policy(request)

    unbroken = run("unbroken")
    with pytest.raises(Broken):
        run("broken", progress=break_at(5))
    steps, record = recorder()
    resumed = run("broken", progress=record)
    assert steps == [5, 6]
    assert resumed.digest == unbroken.digest
    assert resumed.last == unbroken.last
    if method in ONLINE:
        assert 0 < resumed.last["reward"] < 1


def test_an_interrupted_draw_is_drawn_again(half_solved, request_for, tmp_path):
    """Three steps per draw and checkpoint_every=2: checkpoints are made every 3, where a draw ends.

    Broken at 5, in the middle of the second draw, it resumes at step 4 with the same paths.
    """
    train = {"updates_per_rollout": 3, "entropy_coef": 0, "warm_start_steps": 0}

    def run(output: str, **changes: Any) -> TrainingSummary:
        request = request_for(Method.GRPO, tmp_path / output, train=train, **half_solved, **changes)
        return train_policy(request)

    unbroken = run("unbroken")
    with pytest.raises(Broken):
        run("broken", progress=break_at(5))
    steps, record = recorder()
    assert run("broken", progress=record).digest == unbroken.digest
    assert steps == [4, 5, 6]


@pytest.mark.fault("damaged checkpoint", "resumes")
def test_a_damaged_newest_checkpoint_costs_two_steps_and_changes_nothing(request_for, tmp_path):
    """Broken at 5 with a truncated checkpoint of step 4: it resumes from step 2."""
    unbroken = train_policy(request_for(Method.SFT, tmp_path / "unbroken"))
    with pytest.raises(Broken):
        train_policy(request_for(Method.SFT, tmp_path / "broken", progress=break_at(5)))
    weights = work_folder(tmp_path / "broken", "key") / "sft" / "checkpoint-4" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    steps, record = recorder()
    resumed = train_policy(request_for(Method.SFT, tmp_path / "broken", progress=record))
    assert steps == [3, 4, 5, 6]
    assert resumed.digest == unbroken.digest


def test_another_key_starts_from_the_beginning(request_for, tmp_path):
    """A changed param changes the key: checkpoints of the old run are ignored."""
    with pytest.raises(Broken):
        train_policy(request_for(Method.SFT, tmp_path / "out", progress=break_at(5)))
    steps, record = recorder()
    train_policy(request_for(Method.SFT, tmp_path / "out", key="changed", progress=record))
    assert steps == [1, 2, 3, 4, 5, 6]


def test_a_broken_run_can_resume_after_another_has_ended(request_for, tmp_path):
    """Broken at 5; then the same output is trained with another key; the first resumes from 4."""
    with pytest.raises(Broken):
        train_policy(request_for(Method.SFT, tmp_path / "out", progress=break_at(5)))
    train_policy(request_for(Method.SFT, tmp_path / "out", key="changed"))
    steps, record = recorder()
    train_policy(request_for(Method.SFT, tmp_path / "out", progress=record))
    assert steps == [5, 6]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_finished_training_is_not_repeated(request_for, tmp_path):
    """The second call makes no step, and no work folder is left."""
    first = train_policy(request_for(Method.GRPO, tmp_path / "out"))
    steps, record = recorder()
    again = train_policy(request_for(Method.GRPO, tmp_path / "out", progress=record))
    assert steps == []
    assert again.digest == first.digest
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_problems_of_a_training_are_recorded_with_those_of_its_base(request_for, tmp_path):
    """24 of the base; of SFT another one. The digest is of the content without the record."""
    other = Problem(id="other", question="?", gold=MathGold(answer="4"), source="test")
    plain = train_policy(request_for(Method.SFT, tmp_path / "plain", problems=[]))
    request = request_for(Method.SFT, tmp_path / "out", problems=[other])
    base = request_for(Method.SFT, tmp_path).problems
    assert train_policy(request).digest == plain.digest
    found = trained_on({name: str(tmp_path / name) for name in ("plain", "out")}, [*base, other])
    assert [sentence.split(" evaluated")[0] for sentence in found] == [
        "NOT HELD OUT: 24 of 25",
        "NOT HELD OUT: 25 of 25",
    ]


SCRIPT = """
    import json, pathlib, sys
    from pipeline_lib.params.paths import VerifyParams
    from pipeline_lib.params.train import Method, TrainParams
    from pipeline_lib.records import Problem
    from pipeline_lib.train.methods import TrainingRequest, train_policy

    given = json.loads(sys.argv[1])
    train_policy(TrainingRequest(
        base=given["base"], output=pathlib.Path(given["output"]), rows=given["rows"],
        warm_start_rows=given["warm_start_rows"],
        problems=[Problem.from_row(row) for row in given["problems"]],
        params=TrainParams.model_validate(given["params"]), verify=VerifyParams(),
        max_new_tokens=8, seed=5, key="key",
        progress=lambda step, total, metrics: print(step, total, flush=True),
    ))
"""


def run_and_kill(request: TrainingRequest, *, after: int) -> int:
    """Run ``request`` in its own process, and kill it after it has printed step ``after`` of 6.

    The process continues meanwhile, so the kill falls anywhere in the next step, or in the writing
    of a checkpoint.
    """
    given = {
        "base": request.base,
        "output": str(request.output),
        "rows": request.rows,
        "warm_start_rows": request.warm_start_rows,
        "problems": [problem.row() for problem in request.problems],
        "params": request.params.model_dump(mode="json"),
    }
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), json.dumps(given)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.split() == [str(after), "6"]:
                process.kill()
    return process.returncode


@pytest.mark.slow
@pytest.mark.parametrize("method", Method)
@pytest.mark.fault("SIGKILL at a random step of a training", "resumes")
def test_sigkill_at_a_random_step_changes_nothing(method, half_solved, request_for, tmp_path):
    """Killed after one of steps 1 to 5, then resumed, against an unbroken run: all files are equal,
    and the weights differ from those of the base.
    """
    step = child_random(7, "kill", method).randint(1, 5)
    train = {"entropy_coef": 0}
    unbroken = train_policy(request_for(method, tmp_path / "a", train=train, **half_solved))
    request = request_for(method, tmp_path / "b", train=train, **half_solved)
    assert run_and_kill(request, after=step) == -signal.SIGKILL
    assert not (tmp_path / "b").exists()
    assert train_policy(request).digest == unbroken.digest
    assert weights_digest(tmp_path / "b") != weights_digest(pathlib.Path(half_solved["base"]))


@pytest.mark.slow
@pytest.mark.parametrize("method", Method)
@pytest.mark.fault("SIGKILL twice in a training", "resumes")
def test_two_kills_change_nothing(method, half_solved, request_for, tmp_path):
    """With LoRA: killed after steps 3 and 5, against an unbroken run."""
    train = {"entropy_coef": 0, "lora": {"enabled": True}}
    unbroken = train_policy(request_for(method, tmp_path / "a", train=train, **half_solved))
    request = request_for(method, tmp_path / "b", train=train, **half_solved)
    for step in (3, 5):
        assert run_and_kill(request, after=step) == -signal.SIGKILL
    assert train_policy(request).digest == unbroken.digest
