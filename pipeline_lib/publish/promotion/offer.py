"""The candidate of a workspace compared with the released policy, and the release of an approved one.

The first release is compared with the base of its run. An offer is what a person is asked to approve: it
holds paths, figures and texts, not the evaluations themselves, so that flows can pass it on.
"""

import pathlib
from dataclasses import dataclass, replace

from pipeline_lib.publish.promotion import wording
from pipeline_lib.publish.promotion.candidate import CANDIDATE, read_base, read_candidate
from pipeline_lib.publish.promotion.conditions import require_same_conditions
from pipeline_lib.publish.promotion.evaluated import Tables
from pipeline_lib.publish.promotion.releases import Facts, Release, Releases
from pipeline_lib.store.files import digest_json
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.policies import compare_groups

_SEED = 0
"""Of the bootstrap; no other random choice is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A compared candidate."""

    policy: pathlib.Path
    tables: Tables
    facts: Facts
    title: str
    description: str
    """Gain with interval, flips and cost, as Markdown."""
    details: str
    """The description with further tables."""
    regression: str | None
    """One line, if the whole interval of the difference of pass@1 is below 0."""
    released_as: int | None
    """Number of the current release, if it has the weights of the candidate."""

    @property
    def key(self) -> str:
        """Digest of the facts: an answer is valid for the same candidate and figures only."""
        return digest_json(self.facts.model_dump(mode="json"))[:16]


def make_offer(workspace: Workspace, releases: Releases) -> Offer:
    """Compare the candidate of ``workspace`` with the released policy, problem by problem.

    Raises:
        BadInputError: there is no candidate, or the evaluations differ in more than the policy.
    """
    candidate, released = read_candidate(workspace), releases.current()
    reference = released.evaluated() if released is not None else read_base(workspace)
    require_same_conditions(candidate.evaluated, reference)
    sides = {reference.name: reference.groups, CANDIDATE: candidate.evaluated.groups}
    scores = compare_groups(sides, candidate.params, seed=_SEED)
    gain = scores.study.headline
    assert gain is not None  # compare_groups refuses policies without a shared problem
    facts = Facts(
        policy=candidate.identity,
        replaces=released.record.number if released is not None else None,
        compared_with=reference.name,
        pass_at_1=gain.of_arm,
        gain=replace(gain.interval, level=scores.study.level),
        gained=len(scores.flips.gained),
        lost=len(scores.flips.lost),
        verifier=candidate.evaluated.verifier,
        cost=candidate.evaluated.cost,
    )
    description = wording.description(scores, reference, candidate.evaluated, facts)
    is_released = released is not None and released.record.facts.policy == facts.policy
    return Offer(
        policy=candidate.policy,
        tables=candidate.tables,
        facts=facts,
        title=wording.title(scores),
        description=description,
        details=wording.details(scores, description),
        regression=wording.regression(facts) if facts.gain.high < 0 else None,
        released_as=released.record.number if released is not None and is_released else None,
    )


def release(offer: Offer, releases: Releases) -> Release:
    """Copy the candidate of an approved offer and make it the released policy, as `Releases.add`."""
    return releases.add(offer.policy, offer.tables, offer.facts)
