"""The candidate of a workspace compared with the released policy, problem by problem.

The first release is compared with the base of its run.
"""

from dataclasses import dataclass, replace

from pipeline_lib.publish.promotion.candidate import CANDIDATE, Candidate, read_base, read_candidate
from pipeline_lib.publish.promotion.conditions import require_same_conditions, same_templates
from pipeline_lib.publish.promotion.evaluated import Evaluated
from pipeline_lib.publish.promotion.releases import Facts, Release, Releases
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.policies import Compared as Scores
from pipeline_lib.study.policies import compare_groups
from pipeline_lib.study.study import Difference

_SEED = 0
"""Of the bootstrap; no other random choice is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Both sides of the comparison, and the figures."""

    candidate: Candidate
    reference: Evaluated
    released: Release | None
    """None before the first release; the reference is then the base of the run."""
    scores: Scores
    """The reference first, then the candidate."""
    same_templates: bool

    @property
    def gain(self) -> Difference:
        """The difference of pass@1."""
        found = self.scores.study.headline
        assert found is not None  # compare_groups refuses policies without a shared problem
        return found

    @property
    def facts(self) -> Facts:
        """What is recorded if the candidate is released."""
        flips, gain = self.scores.flips, self.gain
        return Facts(
            policy=self.candidate.identity,
            replaces=self.released.record.number if self.released is not None else None,
            compared_with=self.reference.name,
            pass_at_1=gain.of_arm,
            gain=replace(gain.interval, level=self.scores.study.level),
            gained=len(flips.gained),
            lost=len(flips.lost),
            verifier=self.candidate.evaluated.verifier,
            cost=self.candidate.evaluated.cost,
        )


def compare_with_released(workspace: Workspace, releases: Releases) -> Compared:
    """Compare the candidate of ``workspace`` with the released policy.

    Raises:
        BadInputError: there is no candidate, or the evaluations differ in more than the policy.
    """
    candidate = read_candidate(workspace)
    released = releases.current()
    reference = released.evaluated() if released is not None else read_base(workspace)
    require_same_conditions(candidate.evaluated, reference)
    sides = {reference.name: reference.groups, CANDIDATE: candidate.evaluated.groups}
    return Compared(
        candidate=candidate,
        reference=reference,
        released=released,
        scores=compare_groups(sides, candidate.params, seed=_SEED),
        same_templates=same_templates(candidate.evaluated, reference),
    )
