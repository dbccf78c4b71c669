"""An evaluated policy of a finished run, the input of the exports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipeline_lib.publish.reporting.report import ReportInput
from pipeline_lib.records import Group
from pipeline_lib.study.comparison import Comparison
from pipeline_lib.study.summary import EvalSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedPolicy:
    """A policy with its judged paths and scores."""

    name: str
    """``base``, ``control`` or ``trained``."""
    dataset: str
    summary: EvalSummary
    groups: Sequence[Group]
    comparison: Comparison
    """Trained against base, for every policy."""
    lineage: Mapping[str, str]
    evaluated_at: datetime
    """Timezone-aware."""

    @property
    def weights(self) -> str:
        """Digest of the weights that drew the paths, or the server's model id."""
        return self.groups[0].members[0].path.provenance.model


def evaluated_policies(
    source: ReportInput, *, dataset: str, evaluated_at: datetime
) -> list[EvaluatedPolicy]:
    """The policies with sampled paths; a control that is the base has none."""
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
            groups=list(groups),
            comparison=result.comparison,
            lineage=source.lineage,
            evaluated_at=evaluated_at,
        )
        for name, groups in drawn.items()
        if groups is not None
    ]
