"""Test-time work of a policy as values: the independent draw, each search, and their shards."""

import pathlib
from dataclasses import dataclass, replace

from pipeline_lib.engines.endpoint import Endpoint
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.params.evaluate import Strategy, StrategyParams
from pipeline_lib.params.paths import SampleParams, VerifyParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.records import Problem
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.reuse import Unit
from pipeline_lib.store.workspace import DrawFolders

STAGE = "compute"
"""Stage name in events and progress bars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputePart:
    """The independent draw, or one search: its policy, settings and folders."""

    workspace: pathlib.Path
    policy: str
    name: str
    """``drawn``, ``tree``, ``beam-16``."""
    problems: pathlib.Path
    folders: DrawFolders
    model: str
    sample: SampleParams
    test_time: StrategyParams
    verify: VerifyParams
    serve: ServeParams
    seed: int
    strategy: Strategy | None = None
    """Strategy of a search; None for the independent draw."""
    budget: int = 0
    rescored: bool = False
    """True if a strategy needs the policy's certainty of these paths."""
    endpoint: Endpoint | None = None
    """Server of the model; None: the embedded engine of the worker."""

    @property
    def label(self) -> str:
        """Name in progress bars."""
        return f"{self.name} {self.policy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeShard:
    """One shard of a part."""

    part: ComputePart
    index: int
    num_shards: int

    def at(self, endpoint: Endpoint | None) -> "ComputeShard":
        """The same shard, with ``endpoint``."""
        return replace(self, part=replace(self.part, endpoint=endpoint))

    def inputs(self) -> dict[str, str]:
        """Digests that every key of the shard includes."""
        problems = manifests.read_manifest(self.part.problems)
        return {"problems": problems.digest, "model": model_identity(self.part.model)}

    def problems(self) -> list[Problem]:
        """Problems of this shard."""
        size = self.part.sample.shard_size
        start = self.index * size
        rows = shards.read_slice(self.part.problems, start, start + size)
        return [Problem.from_row(row) for row in rows]

    def unit(self, *, key: str, label: str) -> Unit:
        """This shard as a unit of the stage; ``label`` names its progress bar."""
        return Unit(
            workspace=self.part.workspace,
            stage=STAGE,
            key=key,
            index=self.index,
            total=self.num_shards,
            label=label,
        )


def plan_shards(part: ComputePart) -> list[ComputeShard]:
    """Cut the problems of a part into shards."""
    rows = int(manifests.read_manifest(part.problems).counts["rows"])
    num_shards = -(-rows // part.sample.shard_size)
    return [
        ComputeShard(part=part, index=index, num_shards=num_shards) for index in range(num_shards)
    ]
