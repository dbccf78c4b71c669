"""Promotion of a policy."""

import pathlib

from prefect import task
from prefect.artifacts import create_markdown_artifact

from pipeline_lib.publish.promotion import offer as offers
from pipeline_lib.publish.promotion.offer import Offer
from pipeline_lib.publish.promotion.releases import Releases
from pipeline_lib.store.workspace import Workspace
from tasks.policies import PLAN


@task(**PLAN, task_run_name="compare-with-released")
def compare_candidate(workspace: Workspace, releases: pathlib.Path) -> Offer:
    """Compare the candidate with the released policy; the comparison is an artifact."""
    offer = offers.make_offer(workspace, Releases(releases))
    create_markdown_artifact(offer.details, key="promotion", description=offer.title)
    return offer


@task(**PLAN, task_run_name="release-candidate")
def release_candidate(offer: Offer, releases: pathlib.Path) -> int:
    """Copy the candidate, make it the released policy, and return its number."""
    return offers.release(offer, Releases(releases)).record.number
