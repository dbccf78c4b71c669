"""The types: a run, a stage, and a system of stages."""

import pathlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.loading import is_data_set
from pipeline_lib.store.workspace import DrawFolders, Workspace


class Run(BaseModel, frozen=True):
    """One run: its workspace, its params, and the current round of the loop."""

    root: pathlib.Path
    params: Params
    round_number: int = 1

    @property
    def workspace(self) -> Workspace:
        """The folders below ``root``."""
        return Workspace(self.root)

    @property
    def folders(self) -> DrawFolders:
        """Data of this round."""
        return self.workspace.round_folders(self.round_number)

    @property
    def start(self) -> pathlib.Path:
        """The policy at the start of this round: it samples, and training starts from it."""
        if self.round_number == 1:
            return self.workspace.base
        return self.workspace.policy(self.round_number - 1, rounds=self.params.rounds)

    @property
    def policy(self) -> pathlib.Path:
        """The policy at the end of this round."""
        return self.workspace.policy(self.round_number, rounds=self.params.rounds)

    def in_round(self, number: int) -> "Run":
        """The same run in another round."""
        return self.model_copy(update={"round_number": number})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage. The choices of the command, the order of flows and dvc.yaml derive from these."""

    name: str
    summary: str
    """One line of help."""
    modules: tuple[str, ...]
    """Dotted modules of the work; their import closure is DVC's dependency on code."""
    function: str | None = None
    """Function of the first module that does all of the work of a `Run`; None: the stage has a flow."""
    inputs: tuple[str, ...] = ()
    """Folders that earlier stages write, relative to the workspace."""
    imported: tuple[str, ...] = ()
    """Folders of data that is not made here, relative to the repository."""
    params: tuple[str, ...] = ()
    """Dotted keys of params.yaml that the result depends on."""
    outputs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    """Files with the figures that experiments are compared by; outputs, or in a folder that is one."""
    in_rounds: bool = False
    """Done in every round of the loop."""
    fans_out: Literal["always", "in later rounds", "never"] = "never"
    """When its shards are distributed over the workers of the task runner."""
    trains: bool = False
    """A training, which may take days and resumes from checkpoints."""
    beside: str | None = None
    """Name of a stage that it can run in parallel with, on a spare worker."""
    asks_peers: bool = False
    """Peers are opened for it."""
    processes: Callable[[Params], int] = lambda _: 1
    """Of the training, each with a share of every batch."""

    @property
    def is_one_task(self) -> bool:
        """True if a single task does the work; otherwise a flow fans it out or adds to it."""
        return self.function is not None and self.fans_out == "never"

    @property
    def draws(self) -> bool:
        """True if it may start the engine of the params."""
        return "serve.engine" in self.params

    def is_fanned_out(self, params: Params) -> bool:
        """True if it needs the workers of a cluster."""
        later = self.fans_out == "in later rounds" and params.rounds > 1
        return later or self.fans_out == "always" or self.asks_peers

    def work(self) -> Callable[[Run], None]:
        """Import and return the function of the stage."""
        found: Callable[[Run], None] = pkgutil.resolve_name(f"{self.modules[0]}:{self.function}")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A method: its stages, in order, and what is checked before them."""

    name: str
    """The name of its command, too."""
    stages: tuple[Stage, ...]
    labels: Callable[[Params], tuple[str, ...]]
    """Tags of its runs in Prefect; the first is part of the name of its flow run."""
    rollouts: Callable[[Params], str] = lambda _: "in_process"
    """The param ``rollouts`` of its trainings: in their own process, or at an engine's server."""
    begins: Callable[[Params], tuple[str, ...]] = lambda _: ()
    """Stages of another system that a run does first, in the same workspace."""
    own_problems: bool = False
    """Its runs take no task of the user."""
    preflight: str | None = None
    """``module:function`` of ``(run, draws=bool)``; ``draws``: its engine may be started."""

    def stage(self, name: str) -> Stage:
        """The stage ``name``."""
        return next(stage for stage in self.stages if stage.name == name)

    def num_processes(self, params: Params) -> int:
        """The most that a training takes."""
        return max(stage.processes(params) for stage in self.stages)

    def check(self, run: Run, *, draws: bool) -> None:
        """Check what the params of ``run`` name.

        Raises:
            BadInputError: something that cannot be used.
        """
        dataset = run.params.prepare.dataset
        if self.own_problems and not is_data_set(dataset):
            raise BadInputError(
                f"prepare.dataset={dataset}: {self.name} run has problems of its own; a task of yours is for run, "
                "pacore run and classmate run, and for apr rl and apr evaluate"
            )
        count, execution = self.num_processes(run.params), run.params.execution
        if count > 1 and execution.runner == "thread":
            raise BadInputError(
                f"a training of {count} processes runs on Ray: leave --runner thread out, or set one process"
            )
        if self.preflight is not None:
            pkgutil.resolve_name(self.preflight)(run, draws=draws)
