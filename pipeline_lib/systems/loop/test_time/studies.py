"""Studies of test-time compute in a workspace, and their page."""

from collections.abc import Iterable
from typing import Literal

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.store import manifests
from pipeline_lib.store.manifests import MANIFEST_NAME
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.pages.page import Page, Paper
from pipeline_lib.study.study import METRICS_NAME, Study, read_study

POLICIES = ("base", "trained")
NOTE = (
    "Each arm spends a budget per problem: paths, branches of a beam, or rollouts of a tree. Strategies use neither "
    "gold answers nor verdicts. The oracle does: it is pass@N, the upper bound of any selection. Drawn tokens include "
    "tokens of discarded branches; prompt tokens include those that are read again to score a path."
)
PAGE = Page(
    title="test-time compute",
    paper=Paper(
        title="Snell et al. 2024, Scaling LLM Test-Time Compute Optimally",
        url="https://arxiv.org/abs/2408.03314",
    ),
    notes=[NOTE],
)


def read_curves(workspace: Workspace) -> dict[str, Study]:
    """The studies of a workspace by policy, base before trained; empty if there are none."""
    found = {}
    for policy in POLICIES:
        folder = workspace.compute_result(policy)
        if (folder / manifests.MANIFEST_NAME).is_file():
            manifests.check(folder, manifests.read_manifest(folder))
            found[policy] = read_study(folder / METRICS_NAME)
    return found


PolicyName = Literal["base", "trained"]


def check_finished(workspace: Workspace, params: Params, policies: Iterable[PolicyName]) -> None:
    """Check that the test problems and the ``policies`` of a run exist.

    Raises:
        BadInputError: one of them is missing or incomplete.
    """
    trained = workspace.policy(params.rounds, rounds=params.rounds)
    needed = {"base": workspace.base, "trained": trained}
    for folder in (workspace.problems("test"), *(needed[policy] for policy in policies)):
        if not (folder / MANIFEST_NAME).is_file():
            raise BadInputError(
                f"{folder}: missing or unfinished; run `reasonloop run` on this workspace first"
            )
