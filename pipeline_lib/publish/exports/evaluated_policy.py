"""An evaluated policy of a finished run, the input of the exports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pipeline_lib.publish.reporting.report import ReportInput
from pipeline_lib.records import Group
from pipeline_lib.study.policies import PathCounts
from pipeline_lib.study.study import Difference, Study, ValueKey


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedPolicy:
    """A policy with its judged paths and scores."""

    name: str
    """``base``, ``control`` or ``trained``."""
    arm: str
    """Its name in the study."""
    dataset: str
    study: Study
    values: Mapping[ValueKey, Mapping[str, float]]
    counts: PathCounts
    groups: Sequence[Group]
    differences: Sequence[Difference]
    """The trained policy minus the base, for every policy."""
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
    arms = {"base": source.base, "control": source.control_arm, "trained": source.policy}
    pair = (source.policy, source.base)
    return [
        EvaluatedPolicy(
            name=name,
            arm=arm,
            dataset=dataset,
            study=source.study,
            values=source.values,
            counts=source.counts[name],
            groups=list(groups),
            differences=[
                one for one in source.study.differences if (one.arm, one.reference) == pair
            ],
            lineage=source.lineage,
            evaluated_at=evaluated_at,
        )
        for name, groups in source.groups.items()
        if (arm := arms[name]) is not None
    ]
