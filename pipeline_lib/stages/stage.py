"""The types: a stage of a pipeline, and the run that it works for."""

import importlib
import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pipeline_lib.params.whole import Params
from pipeline_lib.storage.workspace import RoundFolders, Workspace


class Run(BaseModel):
    """One run: its workspace, all of its params, and the round of the loop that is being worked on."""

    model_config = ConfigDict(frozen=True)

    root: pathlib.Path
    params: Params
    round_number: int = 1

    @property
    def workspace(self) -> Workspace:
        """The folders below ``root``."""
        return Workspace(self.root)

    @property
    def folders(self) -> RoundFolders:
        """Data of this round."""
        return self.workspace.round_folders(self.round_number)

    @property
    def start(self) -> pathlib.Path:
        """The policy that this round samples with and trains from."""
        if self.round_number == 1:
            return self.workspace.base
        return self.workspace.policy(self.round_number - 1, rounds=self.params.rounds)

    @property
    def policy(self) -> pathlib.Path:
        """The policy that this round ends with."""
        return self.workspace.policy(self.round_number, rounds=self.params.rounds)

    def in_round(self, number: int) -> "Run":
        """The same run in another round."""
        return self.model_copy(update={"round_number": number})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage. The command's choices, the order of flows and dvc.yaml follow from these values."""

    name: str
    summary: str
    """One line of help."""
    modules: tuple[str, ...]
    """Dotted modules that do the work; with all that they import, DVC's dependencies on code."""
    function: str | None = None
    """Function of the first module that does all of the work, given a `Run`; None: a flow of its own
    wires the work."""
    inputs: tuple[str, ...] = ()
    """Folders that earlier stages write, relative to the workspace."""
    params: tuple[str, ...] = ()
    """Dotted keys of params.yaml on which the result depends."""
    outputs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    plots: tuple[str, ...] = ()
    in_rounds: bool = False
    """Done in every round of the loop."""
    fans_out: Literal["always", "in later rounds", "never"] = "never"
    """When it has shards for the workers of the task runner."""
    trains: bool = False
    """A training: its task may take days and continues from checkpoints."""
    beside: str | None = None
    """Name of the stage beside which it can run on a spare worker."""

    @property
    def is_one_task(self) -> bool:
        """True if a single task does the work; otherwise a flow fans it out or adds to it."""
        return self.function is not None and self.fans_out == "never"

    def work(self) -> Callable[[Run], None]:
        """Import the function."""
        assert self.function is not None
        found: Callable[[Run], None] = getattr(
            importlib.import_module(self.modules[0]), self.function
        )
        return found
