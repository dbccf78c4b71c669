"""The run that the parameters of a deployment ask for, resolved where the flow runs.

A deployment names a workspace, a profile and overrides, as the command does, so that params.yaml stays
the one source of settings. A whole `Run` is accepted in their place.
"""

import pathlib
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field

from pipeline_lib.errors import BadInputError
from pipeline_lib.params_file import load_params
from pipeline_lib.systems.stage import Run

Override = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_.]*=")]
"""KEY=VALUE, as in train.lr=1e-4. Prefect's server refuses other text."""


class RunRequest(BaseModel):
    """Parameters of a deployment; either ``run`` or the others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: Run | None = None
    workspace: pathlib.Path | None = None
    profile: str | None = None
    overrides: tuple[Override, ...] = ()

    def resolved(self) -> Run:
        """The run, with an absolute workspace and checked params.

        Raises:
            BadInputError: both a run and other parameters, or params that cannot be used.
        """
        if self.run is None:
            params = load_params(profile=self.profile, overrides=self.overrides)
            root = (self.workspace or pathlib.Path()).expanduser().resolve()
            return Run(root=root, params=params)
        if self.workspace or self.profile or self.overrides:
            raise BadInputError(
                "run: given together with workspace, profile or overrides; leave one of them out"
            )
        return self.run.model_copy(update={"root": self.run.root.expanduser().resolve()})


def described(run: Run) -> str:
    """Workspace and params of ``run`` in Markdown, for the artifact of a flow run."""
    params = yaml.safe_dump(run.params.model_dump(mode="json"), sort_keys=False, width=100)
    return f"Workspace `{run.root}`\n\n```yaml\n{params}```\n"
