"""One policy of a finished run with its evaluation: what the exports of scores and paths are made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipeline_lib.evaluation.comparison import Comparison
from pipeline_lib.evaluation.summary import EvalSummary
from pipeline_lib.records import Group
from pipeline_lib.reporting.report import ReportInput


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedPolicy:
    """A policy, its judged paths and its figures."""

    name: str
    """``base`` or ``trained``."""
    dataset: str
    summary: EvalSummary
    groups: Sequence[Group]
    comparison: Comparison
    """Of trained with base, whichever of the two this is."""
    lineage: Mapping[str, str]
    evaluated_at: datetime
    """With its time zone."""

    @property
    def weights(self) -> str:
        """Digest of the weights that drew the paths, or the server's model id."""
        return self.groups[0].members[0].path.provenance.model


def evaluated_policies(
    source: ReportInput, *, dataset: str, evaluated_at: datetime
) -> list[EvaluatedPolicy]:
    """Base and trained policy of a finished run."""
    result = source.result
    both = {
        "base": (result.base, source.base_groups),
        "trained": (result.trained, source.trained_groups),
    }
    return [
        EvaluatedPolicy(
            name=name,
            dataset=dataset,
            summary=summary,
            groups=groups,
            comparison=result.comparison,
            lineage=source.lineage,
            evaluated_at=evaluated_at,
        )
        for name, (summary, groups) in both.items()
    ]
