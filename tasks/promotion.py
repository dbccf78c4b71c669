"""Promotion of a policy."""

import pathlib

from prefect import task
from prefect.artifacts import create_markdown_artifact

from pipeline_lib.publish.promotion import comparison
from pipeline_lib.publish.promotion.comparison import PromotionRequest
from pipeline_lib.publish.promotion.releases import Releases
from pipeline_lib.store.workspace import Workspace
from tasks.policies import PLAN


@task(**PLAN, task_run_name="compare-with-released")
def compare_candidate(workspace: Workspace, releases: pathlib.Path) -> PromotionRequest:
    """Compare the candidate with the released policy; the comparison is an artifact."""
    request = comparison.make_request(workspace, Releases(releases))
    create_markdown_artifact(request.details, key="promotion", description=request.title)
    return request


@task(**PLAN, task_run_name="release-candidate")
def release_candidate(request: PromotionRequest, releases: pathlib.Path) -> int:
    """Copy the candidate, make it the released policy, and return its number."""
    return comparison.release(request, Releases(releases)).record.number
