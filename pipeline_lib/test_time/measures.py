"""Answers and certainties of paths, shard by shard."""

import time
from collections.abc import Sequence

from prefect import task

from pipeline_lib.evaluation import path_measures
from pipeline_lib.evaluation.path_measures import Rescoring
from pipeline_lib.records import Path
from pipeline_lib.serving.embedded import shared_engine
from pipeline_lib.serving.scoring import PolicyScorer
from pipeline_lib.storage import shards
from pipeline_lib.storage.stages import stage_key
from pipeline_lib.verification.kept_verifiers import kept_verifier
from tasks.compute_parts import ComputePart, ComputeShard
from tasks.policies import PLAN, SHARD


def _key(shard: ComputeShard) -> str:
    """Measures depend on the paths, on the verifier, and on the policy where it reads them."""
    part = shard.part
    paths = shards.shard_manifest(part.folders.paths, shard.index).digest
    return stage_key(
        __name__,
        params={"verify": part.verify.model_dump(), "rescored": part.rescored},
        inputs={**shard.inputs(), "paths": paths},
    )


@task(**SHARD, task_run_name="measure-{shard.part.name}-shard-{shard.index:03d}")
def measure_shard(shard: ComputeShard) -> ComputeShard:
    """Tell the answers of one shard's paths apart, unless that is done already."""
    part, key = shard.part, _key(shard)
    folder = part.folders.measures
    if shards.finished_shard(folder, shard.index, kind=path_measures.KIND, key=key):
        return shard
    start = time.perf_counter()
    paths = [Path.from_row(row) for row in shards.read_shard(part.folders.paths, shard.index)]
    with kept_verifier(part.verify) as verifier:
        measured = path_measures.measure_paths(shard.problems(), paths, verifier, _rescoring(part))
    rows = [one.row() for one in measured]
    shards.write_shard(folder, shard.index, rows, kind=path_measures.KIND, key=key)
    shard.record(f"measure {part.label}", time.perf_counter() - start)
    return shard


@task(**PLAN, task_run_name="seal-measures")
def seal_measures(done: Sequence[ComputeShard]) -> None:
    """Write the table's manifest once all shards are there."""
    first = done[0]
    shards.seal_table(
        first.part.folders.measures,
        first.num_shards,
        kind=path_measures.KIND,
        key=_key(first),
    )


def _rescoring(part: ComputePart) -> Rescoring | None:
    if not part.rescored:
        return None
    # Servers give no whole distribution, so the policy is read in this process.
    engine = shared_engine(part.model, batch_size=part.sample.batch_size)
    return Rescoring(
        scorer=PolicyScorer(model=engine.model, tokenizer=engine.tokenizer),
        chat_format=engine.chat_format,
    )
