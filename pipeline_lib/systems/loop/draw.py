"""One value for a draw, from the flow to its shards: paths of a model for problems, and their verdicts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pipeline_lib.records import Problem
from pipeline_lib.store import shards
from pipeline_lib.store.reuse import Unit

if TYPE_CHECKING:  # not in the code digest of stages: params of other stages change no result
    import pathlib

    from pipeline_lib.engines.identity import Endpoint
    from pipeline_lib.params.paths import SampleParams, VerifyParams
    from pipeline_lib.params.serve import ServeParams
    from pipeline_lib.store.workspace import DrawFolders
    from pipeline_lib.systems.stage import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Problems, model, settings and folders of paths and their verdicts."""

    workspace: pathlib.Path
    name: str
    """Names flows and progress bars: ``round-1``, ``evaluate-base``."""
    seed_name: str
    """Part of the seed of every path; all evaluated policies share one."""
    problems: pathlib.Path
    examples: pathlib.Path
    """Table of worked problems, of which ``sample.shots`` begin each prompt."""
    model: str
    """Folder or hub id."""
    folders: DrawFolders
    sample: SampleParams
    verify: VerifyParams
    serve: ServeParams
    seed: int
    stage: str | None = None
    """Stage whose time and events both parts count towards; None: ``sample`` and ``verify``."""
    endpoint: Endpoint | None = None
    """Server of the model; None: the embedded engine of the worker."""


AnyDraw = TypeVar("AnyDraw", bound=Draw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard(Generic[AnyDraw]):
    """One shard of a draw."""

    draw: AnyDraw
    index: int
    num_shards: int
    key: str = ""
    """Of its paths."""
    done: bool = False
    """Drawn by an earlier run."""

    def at(self, endpoint: Endpoint | None) -> Shard[AnyDraw]:
        """The same shard, with ``endpoint``."""
        return replace(self, draw=replace(self.draw, endpoint=endpoint))

    def problems(self) -> list[Problem]:
        """The problems of this shard."""
        size = self.draw.sample.shard_size
        start = self.index * size
        rows = shards.read_slice(self.draw.problems, start, start + size)
        return [Problem.from_row(row) for row in rows]

    def unit(self, part: str, key: str) -> Unit:
        """This shard as a unit of ``part``: ``sample``, ``verify``; of the stage of the draw if it has one."""
        return Unit(
            workspace=self.draw.workspace,
            stage=self.draw.stage or part,
            key=key,
            index=self.index,
            total=self.num_shards,
            label=f"{part} {self.draw.name}",
        )


def of_run(run: Run) -> dict[str, Any]:
    """Fields of a `Draw` that are the same for every draw of a run."""
    params = run.params
    return {
        "workspace": run.root,
        "examples": run.workspace.problems("bootstrap"),
        "sample": params.sample,
        "verify": params.verify,
        "serve": params.serve,
        "seed": params.seed,
    }
