"""The rounds of a solution before any is drawn."""

from dataclasses import dataclass

from pipeline_lib.params.pacore import PacoreParams


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """Paths of a round, and the references that each of them sees."""

    width: int
    subset: int | None = None
    """References per path, drawn at random for each; None: all, in one order for all paths."""


def make_plan(params: PacoreParams, *, answers: int = 1) -> list[RoundPlan]:
    """The rounds of ``params``; the last one has ``answers`` paths."""
    if params.rsa is not None:
        step = RoundPlan(width=params.rsa.population, subset=params.rsa.subset)
        return [step] * params.rsa.steps + [RoundPlan(width=answers, subset=params.rsa.subset)]
    return [RoundPlan(width=width) for width in (*params.widths, answers)]
