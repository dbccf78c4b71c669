"""What an evaluation of two policies found, as one value that can be stored and read back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from pydantic import TypeAdapter

from pipeline_lib.evaluation.comparison import Comparison, compare
from pipeline_lib.evaluation.summary import EvalSummary, evaluate_groups
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Group

RESULT_NAME = "result.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """Base, trained, and the difference between them."""

    base: EvalSummary
    trained: EvalSummary
    comparison: Comparison

    def to_json(self) -> str:
        """All of it, as JSON."""
        return TypeAdapter(type(self)).dump_json(self, indent=1).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Inverse of :meth:`to_json`."""
        return TypeAdapter(cls).validate_json(text)


def evaluate_policies(
    base: Sequence[Group], trained: Sequence[Group], params: EvaluateParams, *, seed: int
) -> EvaluationResult:
    """Summarise both policies on the same problems, and compare them problem by problem."""
    before = evaluate_groups(base, params, seed=seed)
    after = evaluate_groups(trained, params, seed=seed)
    return EvaluationResult(
        base=before, trained=after, comparison=compare(before, after, params, seed=seed)
    )
