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
    """``base``, ``control`` or ``trained``."""
    dataset: str
    summary: EvalSummary
    groups: Sequence[Group]
    comparison: Comparison
    """Of trained with base, whichever policy this is."""
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
    """The policies of a finished run for which paths were drawn: a control that is the base has none."""
    result = source.result
    drawn = {
        "base": source.base_groups,
        "control": source.control_groups,
        "trained": source.trained_groups,
    }
    return [
        EvaluatedPolicy(
            name=name,
            dataset=dataset,
            summary=result.summaries[name],
            groups=groups,
            comparison=result.comparison,
            lineage=source.lineage,
            evaluated_at=evaluated_at,
        )
        for name, groups in drawn.items()
        if groups is not None
    ]
