"""An offer: what a person is asked to approve, and the release of an approved one.

It holds paths, figures and texts, not the evaluations themselves, so that flows can pass it on.
"""

import pathlib
from dataclasses import dataclass

from pipeline_lib.publish.promotion import wording
from pipeline_lib.publish.promotion.comparison import compare_with_released
from pipeline_lib.publish.promotion.evaluated import Tables
from pipeline_lib.publish.promotion.releases import Facts, Release, Releases
from pipeline_lib.store.files import digest_json
from pipeline_lib.store.workspace import Workspace


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
    """Compare the candidate of ``workspace`` with the released policy.

    Raises:
        BadInputError: there is no candidate, or the evaluations differ in more than the policy.
    """
    compared = compare_with_released(workspace, releases)
    facts, released = compared.facts, compared.released
    is_released = released is not None and released.record.facts.policy == facts.policy
    return Offer(
        policy=compared.candidate.policy,
        tables=compared.candidate.tables,
        facts=facts,
        title=wording.title(compared),
        description=wording.description(compared),
        details=wording.details(compared),
        regression=wording.regression(facts) if facts.gain.high < 0 else None,
        released_as=released.record.number if released is not None and is_released else None,
    )


def release(offer: Offer, releases: Releases) -> Release:
    """Copy the candidate of an approved offer and make it the released policy.

    Raises:
        ReasonloopError: another release was made since the comparison.
        CorruptArtifactError: the candidate differs from its manifest.
    """
    return releases.add(offer.policy, offer.tables, offer.facts)
