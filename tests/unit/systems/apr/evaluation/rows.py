"""Rows of rollouts for hand-worked figures."""

from typing import Any

from pipeline_lib.systems.apr.evaluation.drawn import DrawnRows, ModelSetting


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
    return named | {"any_child_right": right, "tokens": tokens, "events": {}, "seqs": []} | more


def failed(problem: str, sample: int = 0) -> dict[str, Any]:
    """A rollout whose parent failed."""
    found = row(problem, sample, drawn=999) | {"error": "it broke"}
    del found["claim"]
    return found


def drawn(rows: list[dict[str, Any]], **changes: Any) -> DrawnRows:
    """The rows of a parallel model ``m`` without condition, at temperature 0."""
    plain = {"name": "m", "kind": "parallel", "condition": "", "temperature": 0.0}
    return DrawnRows(setting=ModelSetting(**(plain | changes)), rows=rows)
