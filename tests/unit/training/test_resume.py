"""A training that was broken off ends with the very weights of one that was not."""

import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

from pipeline_lib.params import Method
from pipeline_lib.storage import manifests
from pipeline_lib.training.methods import train_policy
from pipeline_lib.training.sequence import work_folder


class Broken(Exception):  # noqa: N818 - it stands for a kill, not for an error
    """Raised out of the progress callback, as a kill would end the process."""


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


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
@pytest.mark.parametrize("method", list(Method))
def test_a_broken_run_continues_to_the_same_weights(method, lora, request_for, tmp_path):
    """Six steps, checkpoints after 2 and 4, broken at 5: steps 5 and 6 are done again, alike.

    The manifests are equal as a whole: weights, tokenizer, and every figure of the log.
    """
    train = {"lora": {"enabled": lora}}
    unbroken = train_policy(request_for(method, tmp_path / "unbroken", train=train))
    broken = request_for(method, tmp_path / "broken", train=train, progress=break_at(5))
    with pytest.raises(Broken):
        train_policy(broken)
    steps, record = recorder()
    resumed = train_policy(request_for(method, tmp_path / "broken", train=train, progress=record))
    assert steps == [5, 6]
    assert resumed.digest == unbroken.digest
    assert resumed.last == unbroken.last


def test_a_damaged_newest_checkpoint_costs_two_steps_and_changes_nothing(request_for, tmp_path):
    """Broken at 5 with the checkpoint of step 4 cut in half: it goes on from step 2."""
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
    """A changed parameter changes the key: the old run's checkpoints are not its business."""
    with pytest.raises(Broken):
        train_policy(request_for(Method.SFT, tmp_path / "out", progress=break_at(5)))
    steps, record = recorder()
    train_policy(request_for(Method.SFT, tmp_path / "out", key="changed", progress=record))
    assert steps == [1, 2, 3, 4, 5, 6]


def test_what_is_finished_is_not_done_again(request_for, tmp_path):
    """The second call makes no step, and leaves nothing but the policy behind."""
    first = train_policy(request_for(Method.GRPO, tmp_path / "out"))
    steps, record = recorder()
    again = train_policy(request_for(Method.GRPO, tmp_path / "out", progress=record))
    assert steps == []
    assert again.digest == first.digest
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


SCRIPT = """
    import os, pathlib, signal, sys
    from pipeline_lib.params import Method, TrainParams, VerifyParams
    from pipeline_lib.problems.countdown import generate
    from pipeline_lib.params import CountdownParams
    from pipeline_lib.sampling.prompts import render
    from pipeline_lib.training.methods import TrainingRequest, train_policy

    base, output, last = sys.argv[1:]
    params = CountdownParams(num_numbers=2, high=9, target_high=60)
    problems = generate(params, seed=4, count=24)
    rows = [{"prompt": render(p, None), "problem_id": p.id} for p in problems]

    def progress(step, total, metrics):
        if step == int(last):
            os.kill(os.getpid(), signal.SIGKILL)

    train_policy(TrainingRequest(
        base=base, output=pathlib.Path(output), rows=rows, problems=problems,
        params=TrainParams(steps=6, batch_size=4, group_size=4, lr=1e-3, checkpoint_every=2,
                           entropy_coef=0.1, threads=1),
        verify=VerifyParams(), max_new_tokens=8, seed=5, key="key", progress=progress,
    ))
"""


@pytest.mark.slow
def test_sigkill_at_any_step_changes_nothing(base: pathlib.Path, tmp_path: pathlib.Path):
    """GRPO killed at steps 3 and 6, then run to its end, in three processes, against one process.

    Entropy is rewarded, so that every step moves the weights although no path is right.
    """

    def run(output: str, *, killed_at: int) -> int:
        command = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
        command += [str(base), str(tmp_path / output), str(killed_at)]
        return subprocess.run(command, check=False).returncode

    assert run("unbroken", killed_at=0) == 0
    assert run("broken", killed_at=3) == -signal.SIGKILL
    assert run("broken", killed_at=6) == -signal.SIGKILL
    assert run("broken", killed_at=0) == 0
    assert weights_digest(tmp_path / "broken") == weights_digest(tmp_path / "unbroken")
    assert weights_digest(tmp_path / "broken") != weights_digest(base)
