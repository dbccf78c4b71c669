"""Result of an evaluation of base, control and trained policy, serializable as JSON."""

import pathlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Group
from pipeline_lib.store.files import read_checked
from pipeline_lib.study.comparison import Comparison, compare
from pipeline_lib.study.summary import EvalSummary, evaluate_groups

RESULT_NAME = "result.json"
FURTHER_NAME = "further.json"
"""Exists if there are further temperatures or baselines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """Summaries of the policies and the comparisons between them."""

    base: EvalSummary
    trained: EvalSummary
    comparison: Comparison
    """Trained minus base."""
    control: EvalSummary | None = None
    """None if the run had no control."""
    over_control: Comparison | None = None
    """Trained minus control: the gain of the loop over equal-compute training without it."""

    @property
    def summaries(self) -> dict[str, EvalSummary]:
        """Summary of every evaluated policy, by name."""
        found = {"base": self.base, "control": self.control, "trained": self.trained}
        return {name: summary for name, summary in found.items() if summary is not None}


def read_result(folder: pathlib.Path) -> EvaluationResult:
    """The result of an evaluation's folder.

    Raises:
        BadInputError: there is none, or it is damaged.
    """
    return read_checked(folder / RESULT_NAME, EvaluationResult, remedy="evaluate again")


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The given model before any training, at one temperature."""

    name: str
    temperature: float
    summary: EvalSummary
    comparison: Comparison
    """Trained minus this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherResults:
    """The same policies at further temperatures, and baselines at all temperatures."""

    temperatures: dict[float, EvaluationResult] = field(default_factory=dict)
    baselines: tuple[Baseline, ...] = ()


def evaluate_policies(
    base: Iterable[Group],
    trained: Iterable[Group],
    params: EvaluateParams,
    *,
    seed: int,
    control: Iterable[Group] | None = None,
) -> EvaluationResult:
    """Summarise the policies on the same problems and compare them problem by problem.

    Of groups that are read from tables, those of one policy are in memory at a time.
    """
    before = evaluate_groups(list(base), params, seed=seed)
    after = evaluate_groups(list(trained), params, seed=seed)
    beside = evaluate_groups(list(control), params, seed=seed) if control is not None else None
    return EvaluationResult(
        base=before,
        trained=after,
        comparison=compare(before, after, params, seed=seed),
        control=beside,
        over_control=compare(beside, after, params, seed=seed) if beside is not None else None,
    )
