"""The check that a run is finished, before test-time compute is spent on its policies."""

from collections.abc import Iterable
from typing import Literal

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.store.manifests import MANIFEST_NAME
from pipeline_lib.store.workspace import Workspace

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
