"""An invented run of two policies, as exports take it."""

from typing import Any

from pipeline_lib.systems.loop.finished_run import FinishedRun
from tests.unit.study.judged_groups import judged_group
from tests.unit.systems.loop.invented_study import finished_run, params_of


def finished(
    base: list[str], trained: list[str], *, ks: tuple[int, ...], **changed: Any
) -> FinishedRun:
    """A run whose problems p0, p1, ... have these letters, before and after training, and these params."""
    groups = {
        name: [judged_group(f"p{index}", letters) for index, letters in enumerate(policy)]
        for name, policy in (("base", base), ("trained", trained))
    }
    return finished_run(
        groups,
        params_of(ks=ks, control=False).model_copy(update=changed),
        training_log=[
            {"phase": "warm-start", "step": 1, "lr": 0.002},
            {"phase": "grpo", "step": 1, "lr": 5e-5},
        ],
    )
