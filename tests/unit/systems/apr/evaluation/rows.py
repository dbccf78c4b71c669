"""Rows of rollouts for hand-worked figures."""

from collections import Counter
from typing import Any

from pipeline_lib.sampling.compute_cost import Cost
from pipeline_lib.systems.apr.countdown.grammar import answer_of
from pipeline_lib.systems.apr.evaluation.study import DrawnRows, ModelSetting
from pipeline_lib.systems.apr.task import evaluated_row
from pipeline_lib.systems.apr.threads import End, Event, Rollout, Root


def row(
    problem: str, sample: int = 0, *, right: bool = False, claim: str | None = None, **more: Any
) -> dict[str, Any]:
    """A rollout of 10 drawn and 5 critical tokens; ``drawn`` and ``critical`` change them."""
    tokens = {
        "drawn": more.pop("drawn", 10),
        "critical": more.pop("critical", 5),
        "total": 20,
        "longest": 8,
    }
    named = {"problem_id": problem, "sample": sample, "is_correct": right, "claim": claim}
    judged = {"answer": answer_of(claim), "measures": {"spawned": float(right)}}
    return named | judged | {"tokens": tokens, "events": {}, "seqs": []} | more


def failed(problem: str, sample: int = 0) -> dict[str, Any]:
    """A rollout whose parent failed, behind 999 drawn tokens."""
    rollout = Rollout(
        root=Root(problem_id=problem, sample=sample, prompt=""),
        sequences=(),
        end=End.FAILED,
        error="it broke",
        child_error=None,
        cost=Cost(completion_tokens=999, critical_tokens=999),
        total_tokens=1010,
        longest_tokens=1010,
        events=Counter({Event.CHILDREN: 7}),
    )
    return evaluated_row(rollout, "it broke")


def drawn(rows: list[dict[str, Any]], **changes: Any) -> DrawnRows:
    """The rows of a parallel model ``m`` without condition, at temperature 0."""
    plain = {"name": "m", "kind": "parallel", "condition": "", "temperature": 0.0}
    return DrawnRows(setting=ModelSetting(**(plain | changes)), rows=rows)
