"""Sampling: plan the shards, draw the paths of each, seal the table."""

import pathlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline_lib.engines.endpoint import Endpoint
from pipeline_lib.engines.gpus import visible_gpus
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.engines.started_engine import rollout_engine
from pipeline_lib.params.paths import SampleParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.problems.worked import first_worked
from pipeline_lib.records import Problem
from pipeline_lib.sampling import paths
from pipeline_lib.sampling.accounting import record_spending, require_budget
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.store.reuse import Rows, Unit, make_shard
from pipeline_lib.systems.loop.context import check_context


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePlan:
    """A draw: problems, model, sampling params, and the output folder with its key."""

    workspace: pathlib.Path
    stage: str
    """The stage that the draw belongs to: "sample" or "evaluate"."""
    label: str
    """Name of the progress bar."""
    draw: str
    """Name of the draw ("round-1", "evaluate"); part of every path's seed."""
    problems: pathlib.Path
    examples: pathlib.Path
    """Table of worked problems, of which ``params.shots`` begin each prompt."""
    output: pathlib.Path
    model: str
    params: SampleParams
    serve: ServeParams
    seed: int
    endpoint: Endpoint | None = None
    """Server of the model; None: the embedded engine of the worker."""
    key: str = ""
    num_shards: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleShard:
    """One shard of a plan."""

    plan: SamplePlan
    index: int
    done: bool = False
    """Drawn by an earlier run."""

    def at(self, endpoint: Endpoint | None) -> "SampleShard":
        """The same shard, with ``endpoint``."""
        return replace(self, plan=replace(self.plan, endpoint=endpoint))


def plan_shards(plan: SamplePlan) -> list[SampleShard]:
    """Compute the key, cut the problems into shards, and mark the finished ones.

    Raises:
        BadInputError: a prompt of an unfinished draw does not fit into the model's context.
    """
    problems = manifests.read_manifest(plan.problems)
    key = stage_key(
        __name__,
        params={
            **plan.params.model_dump(),
            "engine": plan.serve.engine,
            "engine_options": plan.serve.options,
            "seed": plan.seed,
            "draw": plan.draw,
        },
        inputs={
            "problems": problems.digest,
            "model": model_identity(plan.model),
            "examples": _digest_of_examples(plan),
        },
    )
    num_shards = -(-int(problems.counts["rows"]) // plan.params.shard_size)
    keyed = replace(plan, key=key, num_shards=num_shards)
    planned = [
        SampleShard(plan=keyed, index=index, done=_is_done(keyed, index))
        for index in range(num_shards)
    ]
    if not all(shard.done for shard in planned):
        check_context(
            map(Problem.from_row, shards.iter_table(plan.problems)),
            pathlib.Path(plan.model),
            max_new_tokens=plan.params.max_new_tokens,
            examples=_examples(plan),
        )
    return planned


def _is_done(plan: SamplePlan, index: int) -> bool:
    return shards.finished_shard(plan.output, index, kind=paths.KIND, key=plan.key) is not None


def sample(shard: SampleShard) -> None:
    """Draw the paths of one shard, unless it exists under the same key.

    Raises:
        BudgetReachedError: earlier shards have used up the budget.
    """
    plan = shard.plan

    def draw() -> Rows:
        require_budget(plan.workspace, plan.serve)
        start = time.perf_counter()
        engine = rollout_engine(
            plan.model, plan.serve, endpoint=plan.endpoint, batch_size=plan.params.batch_size
        )
        drawn = paths.sample_paths(
            _problems(shard),
            engine,
            plan.params,
            seed=plan.seed,
            draw=plan.draw,
            examples=_examples(plan),
        )
        record_spending(
            plan.workspace,
            plan.output,
            shard.index,
            drawn,
            draw=plan.draw,
            engine_seconds=time.perf_counter() - start,
            arithmetic=engine.arithmetic,
            gpus=0 if engine_named(plan.serve.engine).is_external else visible_gpus(),
        )
        return Rows(rows=[path.row() for path in drawn], counts=paths.path_counts(drawn))

    unit = Unit(
        workspace=plan.workspace,
        stage=plan.stage,
        key=plan.key,
        index=shard.index,
        total=plan.num_shards,
        label=plan.label,
    )
    make_shard(unit, plan.output, kind=paths.KIND, rows=draw)


def _digest_of_examples(plan: SamplePlan) -> str:
    return manifests.read_manifest(plan.examples).digest if plan.params.shots else ""


def _examples(plan: SamplePlan) -> list[Problem]:
    if not plan.params.shots:
        return []
    rows = shards.iter_table(plan.examples)
    return first_worked(map(Problem.from_row, rows), plan.params.shots)


def _problems(shard: SampleShard) -> list[Problem]:
    size = shard.plan.params.shard_size
    start = shard.index * size
    rows = shards.read_slice(shard.plan.problems, start, start + size)
    return [Problem.from_row(row) for row in rows]


def seal(drawn: Sequence[SampleShard]) -> Manifest:
    """Write the table's manifest, once all shards exist."""
    plan = drawn[0].plan
    return shards.seal_table(plan.output, plan.num_shards, kind=paths.KIND, key=plan.key)
