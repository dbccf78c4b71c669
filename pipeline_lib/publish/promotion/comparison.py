"""The candidate of a workspace compared with the released policy, problem by problem.

The first release is compared with the base of its run.
"""

from dataclasses import dataclass

from pipeline_lib.publish.promotion.candidate import Candidate, read_base, read_candidate
from pipeline_lib.publish.promotion.conditions import require_same_conditions, same_templates
from pipeline_lib.publish.promotion.evaluated import Evaluated
from pipeline_lib.publish.promotion.releases import Facts, Release, Releases
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.result import EvaluationResult, evaluate_policies

_SEED = 0
"""Of the bootstrap; no other random choice is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Both sides of the comparison, and the figures."""

    candidate: Candidate
    reference: Evaluated
    released: Release | None
    """None before the first release; the reference is then the base of the run."""
    result: EvaluationResult
    """The reference as base, the candidate as trained."""
    same_templates: bool

    @property
    def facts(self) -> Facts:
        """What is recorded if the candidate is released."""
        comparison = self.result.comparison
        return Facts(
            policy=self.candidate.identity,
            replaces=self.released.record.number if self.released is not None else None,
            compared_with=self.reference.name,
            pass_at_1=comparison.strict[1].trained,
            gain=comparison.strict[1].interval,
            gained=len(comparison.gained),
            lost=len(comparison.lost),
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
    result = evaluate_policies(
        reference.groups, candidate.evaluated.groups, candidate.params, seed=_SEED
    )
    return Compared(
        candidate=candidate,
        reference=reference,
        released=released,
        result=result,
        same_templates=same_templates(candidate.evaluated, reference),
    )
