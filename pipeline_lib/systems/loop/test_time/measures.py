"""Answers of paths and certainties of the policy, shard by shard."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pipeline_lib.engines.client.reward_model import open_reward_model
from pipeline_lib.engines.embedded.embedded_engine import shared_engine
from pipeline_lib.engines.embedded.scoring import PolicyScorer
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.params.evaluate import RESCORING, RewardParams, Strategy
from pipeline_lib.records import Path
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.reuse import Rows, make_shard
from pipeline_lib.study.curves import path_measures
from pipeline_lib.study.curves.path_measures import Rescoring
from pipeline_lib.systems.loop.draw import Draw, Shard
from pipeline_lib.verify.dispatch import pooled_verifier

STAGE = "compute"
"""Stage name in events and progress bars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputePart(Draw):
    """The independent draw, or one search: its policy and settings."""

    policy: str
    strategy: Strategy | None = None
    """Strategy of a search; None for the independent draw."""
    budget: int = 0

    @property
    def rescored(self) -> bool:
        """True if a strategy needs the policy's certainty of these paths."""
        return self.strategy is None and bool(RESCORING & {*self.run.params.test_time.strategies})

    @property
    def rewarded(self) -> RewardParams | None:
        """The reward model that scores these paths."""
        test_time = self.run.params.test_time
        asked = self.strategy is None and Strategy.REWARD in test_time.strategies
        return test_time.reward if asked else None


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


def _key(shard: ComputeShard) -> str:
    """Measures depend on the paths, the verifier, and the policy."""
    part = shard.draw
    paths = shards.shard_manifest(part.folders.paths, shard.index).digest
    return stage_key(
        __name__,
        params={
            "verify": part.run.params.verify.model_dump(),
            "rescored": part.rescored,
            "rewarded": part.rewarded and part.rewarded.model_dump(include={"url", "model"}),
        },
        inputs={**digests(part), "paths": paths},
    )


def measure(shard: ComputeShard) -> None:
    """Measure the paths of one shard, unless that is done under the same key."""
    part = shard.draw

    def rows() -> Rows:
        paths = [Path.from_row(row) for row in shards.read_shard(part.folders.paths, shard.index)]
        with pooled_verifier(part.run.params.verify) as verifier:
            measured = path_measures.measure_paths(
                shard.problems(),
                paths,
                verifier,
                _rescoring(part),
                open_reward_model(part.rewarded).score if part.rewarded else None,
            )
        return Rows(rows=[one.row() for one in measured])

    unit = shard.unit("measure", _key(shard))
    make_shard(unit, part.folders.measures, kind=path_measures.KIND, rows=rows)


def seal(measured: Sequence[ComputeShard]) -> None:
    """Write the table's manifest, once all shards exist."""
    first = measured[0]
    shards.seal_table(
        first.draw.folders.measures,
        first.num_shards,
        kind=path_measures.KIND,
        key=_key(first),
    )


def _rescoring(part: ComputePart) -> Rescoring | None:
    if not part.rescored:
        return None
    # Servers return no full distributions, so the policy scores in this process.
    engine = shared_engine(part.model, batch_size=part.sample.batch_size)
    return Rescoring(
        scorer=PolicyScorer(model=engine.model, tokenizer=engine.tokenizer),
        chat_format=engine.chat_format,
    )
