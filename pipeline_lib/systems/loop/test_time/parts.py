"""Test-time work of a policy as values: the independent draw, each search, and their shards."""

from dataclasses import dataclass
from typing import TypeAlias

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.params.evaluate import Strategy, StrategyParams
from pipeline_lib.store import manifests
from pipeline_lib.systems.loop.draw import Draw, Shard

STAGE = "compute"
"""Stage name in events and progress bars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputePart(Draw):
    """The independent draw, or one search: its policy and settings."""

    policy: str
    test_time: StrategyParams
    strategy: Strategy | None = None
    """Strategy of a search; None for the independent draw."""
    budget: int = 0
    rescored: bool = False
    """True if a strategy needs the policy's certainty of these paths."""


ComputeShard: TypeAlias = Shard[ComputePart]


def digests(part: ComputePart) -> dict[str, str]:
    """Digests that every key of its shards includes."""
    problems = manifests.read_manifest(part.problems)
    return {"problems": problems.digest, "model": model_identity(part.model)}


def plan_shards(part: ComputePart) -> list[ComputeShard]:
    """Cut the problems of a part into shards."""
    rows = int(manifests.read_manifest(part.problems).counts["rows"])
    num_shards = -(-rows // part.sample.shard_size)
    return [Shard(draw=part, index=index, num_shards=num_shards) for index in range(num_shards)]
