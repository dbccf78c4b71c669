"""One value for a draw, from the flow to its shards: paths of a model for problems, and their verdicts."""

import pathlib
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeVar

from pipeline_lib.params.paths import SampleParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.records import Problem
from pipeline_lib.store import shards
from pipeline_lib.store.reuse import Unit
from pipeline_lib.store.workspace import DrawFolders
from pipeline_lib.systems.stage import Run

if TYPE_CHECKING:  # verdicts do not depend on the code of engines
    from pipeline_lib.engines.identity import Endpoint


class Route(StrEnum):
    """Form of a prompt in a request to a server."""

    IDS = "ids"
    MESSAGES = "messages"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """Problems, model, settings and folders of paths and their verdicts."""

    run: Run
    name: str
    """Names flows and progress bars: ``round-1``, ``evaluate-base``."""
    seed_name: str
    """Part of the seed of every path; all evaluated policies share one."""
    problems: pathlib.Path
    model: str
    """Folder or hub id."""
    folders: DrawFolders
    sample: SampleParams
    stage: str | None = None
    """Stage whose time and events both parts count towards; None: ``sample`` and ``verify``."""
    endpoint: "Endpoint | None" = None
    """Server of the model; None: the embedded engine of the worker."""
    route: Route = Route.MESSAGES
    """Form of the prompts for ``sample.server``; set by `teacher.with_route`."""

    @property
    def serve(self) -> ServeParams:
        """The engine: of the run, or the server of ``sample.server``."""
        serve, server = self.run.params.serve, self.sample.server
        if not self.sample.drawn_by_server:
            return serve
        rendered_here = self.route is not Route.MESSAGES
        return serve.model_copy(
            update={
                "engine": "url",
                "url": server.url,
                "model": server.model,
                "api_key_env": server.api_key_env,
                "tokenizer": server.tokenizer if rendered_here else None,
                "send_text": self.route is Route.TEXT,
            }
        )

    @property
    def examples(self) -> pathlib.Path:
        """Table of worked problems, of which ``sample.shots`` begin each prompt."""
        return self.run.workspace.problems("bootstrap")


def round_draw(run: Run) -> Draw:
    """The draw of a round of the loop."""
    name, sample = f"round-{run.round_number}", run.params.sample
    return Draw(
        run=run,
        name=name,
        seed_name=name,
        problems=run.workspace.problems("train"),
        model=(sample.server.model or "") if sample.drawn_by_server else str(run.start),
        folders=run.folders,
        sample=sample,
    )


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

    def at(self, endpoint: "Endpoint | None") -> "Shard[AnyDraw]":
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
            workspace=self.draw.run.root,
            stage=self.draw.stage or part,
            key=key,
            index=self.index,
            total=self.num_shards,
            label=f"{part} {self.draw.name}",
        )
