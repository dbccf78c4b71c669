"""Sampling: plan the shards, draw the paths of each, seal the table."""

import pathlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prefect import task

from pipeline_lib.params import SampleParams
from pipeline_lib.records import Problem
from pipeline_lib.sampling import paths
from pipeline_lib.serving.embedded import shared_engine
from pipeline_lib.serving.identity import model_identity
from pipeline_lib.storage import manifests, shards
from pipeline_lib.storage.manifests import Manifest
from pipeline_lib.storage.stages import stage_key
from pipeline_lib.telemetry import record_work
from tasks.policies import PLAN, SHARD


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePlan:
    """What is drawn by which model into which folder, under which key."""

    workspace: pathlib.Path
    stage: str
    """The stage that the draw belongs to: "sample" or "evaluate"."""
    label: str
    """What the progress of this plan is called."""
    draw: str
    """Names the draw ("round-1", "evaluate"); part of every path's seed."""
    problems: pathlib.Path
    output: pathlib.Path
    model: str
    params: SampleParams
    seed: int
    key: str = ""
    num_shards: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleShard:
    """One shard of a plan."""

    plan: SamplePlan
    index: int


@task(**PLAN, task_run_name="plan-sampling-{plan.draw}")
def plan_sampling(plan: SamplePlan) -> list[SampleShard]:
    """Fix the key and cut the problems into shards."""
    problems = manifests.read_manifest(plan.problems)
    key = stage_key(
        __name__,
        params={**plan.params.model_dump(), "seed": plan.seed, "draw": plan.draw},
        inputs={"problems": problems.digest, "model": model_identity(plan.model)},
    )
    num_shards = -(-int(problems.counts["rows"]) // plan.params.shard_size)
    keyed = replace(plan, key=key, num_shards=num_shards)
    return [SampleShard(plan=keyed, index=index) for index in range(num_shards)]


@task(**SHARD, task_run_name="sample-{shard.plan.draw}-shard-{shard.index:03d}")
def sample_shard(shard: SampleShard) -> SampleShard:
    """Draw the paths of one shard, unless it is there already."""
    plan = shard.plan
    if not shards.finished_shard(plan.output, shard.index, kind=paths.KIND, key=plan.key):
        start = time.perf_counter()
        engine = shared_engine(plan.model, batch_size=plan.params.batch_size)
        drawn = paths.sample_paths(
            _problems(shard), engine, plan.params, seed=plan.seed, draw=plan.draw
        )
        manifest = paths.write_paths(plan.output, shard.index, drawn, key=plan.key)
        record_work(
            plan.workspace,
            plan.stage,
            done=shard.index + 1,
            total=plan.num_shards,
            label=plan.label,
            worker_seconds=time.perf_counter() - start,
            **manifest.counts,
        )
    return shard


def _problems(shard: SampleShard) -> list[Problem]:
    rows = shards.split(shards.read_table(shard.plan.problems), shard.plan.params.shard_size)
    return [Problem.from_row(row) for row in rows[shard.index]]


@task(**PLAN, task_run_name="seal-paths")
def seal_paths(done: Sequence[SampleShard]) -> Manifest:
    """Write the table's manifest once all shards are there."""
    plan = done[0].plan
    return shards.seal_table(plan.output, plan.num_shards, kind=paths.KIND, key=plan.key)
