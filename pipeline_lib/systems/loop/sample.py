"""Sampling: plan the shards, draw the paths of each, seal the table."""

import pathlib
import time
from collections.abc import Sequence

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.engines.started_engine import rollout_engine
from pipeline_lib.params.paths import SampleParams
from pipeline_lib.problems.worked import first_worked
from pipeline_lib.records import Problem
from pipeline_lib.sampling import paths
from pipeline_lib.sampling.accounting import record_spending, require_budget
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.store.reuse import Rows, make_shard
from pipeline_lib.systems.loop.context import check_context
from pipeline_lib.systems.loop.draw import Draw, Route, Shard
from pipeline_lib.systems.loop.teacher import check_same_model, with_route


def plan_shards(draw: Draw) -> list[Shard[Draw]]:
    """Compute the key, cut the problems into shards, and mark the finished ones.

    Raises:
        BadInputError: a prompt of an unfinished draw does not fit into the model's context.
    """
    problems = manifests.read_manifest(draw.problems)
    server = draw.sample.server.model_dump(include={"model", "revision", "tokenizer"})
    key = stage_key(
        __name__,
        params={
            **draw.sample.model_dump(exclude={"server"}),
            **({"server": server} if draw.sample.drawn_by_server else {}),
            "engine": draw.serve.engine,
            "engine_options": draw.serve.options,
            "seed": draw.run.params.seed,
            "draw": draw.seed_name,
        },
        inputs={
            "problems": problems.digest,
            "model": draw.model if draw.sample.drawn_by_server else model_identity(draw.model),
            "examples": _digest_of_examples(draw),
        },
    )
    num_shards = -(-int(problems.counts["rows"]) // draw.sample.shard_size)
    done = [
        shards.finished_shard(draw.folders.paths, index, kind=paths.KIND, key=key) is not None
        for index in range(num_shards)
    ]
    if not all(done) and draw.sample.drawn_by_server:
        draw = with_route(draw)
        check_same_model(draw, key=key)
    elif not all(done):
        check_context(
            map(Problem.from_row, shards.iter_table(draw.problems)),
            pathlib.Path(draw.model),
            max_new_tokens=draw.sample.max_new_tokens,
            examples=_examples(draw),
        )
    return [
        Shard(draw=draw, index=index, num_shards=num_shards, key=key, done=is_done)
        for index, is_done in enumerate(done)
    ]


def sample(shard: Shard[Draw]) -> None:
    """Draw the paths of one shard, unless it exists under the same key.

    Raises:
        BudgetReachedError: earlier shards have used up the budget.
    """
    draw = shard.draw

    def drawn_rows() -> Rows:
        require_budget(draw.run.root, draw.serve)
        start = time.perf_counter()
        engine = rollout_engine(
            draw.model,
            draw.serve,
            endpoint=draw.endpoint,
            batch_size=draw.sample.batch_size,
        )
        drawn = paths.sample_paths(
            shard.problems(),
            engine,
            _kept(draw),
            seed=draw.run.params.seed,
            draw=draw.seed_name,
            examples=_examples(draw),
        )
        record_spending(
            draw.run.root,
            draw.folders.paths,
            shard.index,
            drawn,
            draw=draw.seed_name,
            engine_seconds=time.perf_counter() - start,
            arithmetic=engine.arithmetic,
            gpus=engine_named(draw.serve.engine).num_gpus(draw.serve),
        )
        return Rows(rows=[path.row() for path in drawn], counts=paths.path_counts(drawn))

    unit = shard.unit("sample", shard.key)
    make_shard(unit, draw.folders.paths, kind=paths.KIND, rows=drawn_rows)


def _kept(draw: Draw) -> SampleParams:
    """Token ids are kept if they are the policy's."""
    foreign = draw.sample.drawn_by_server and draw.route is not Route.IDS
    return draw.sample.model_copy(update={"keep_tokens": False}) if foreign else draw.sample


def _digest_of_examples(draw: Draw) -> str:
    return manifests.read_manifest(draw.examples).digest if draw.sample.shots else ""


def _examples(draw: Draw) -> list[Problem]:
    if not draw.sample.shots:
        return []
    rows = shards.iter_table(draw.examples)
    return first_worked(map(Problem.from_row, rows), draw.sample.shots)


def seal(drawn: Sequence[Shard[Draw]]) -> Manifest:
    """Write the table's manifest, once all shards exist."""
    first = drawn[0]
    folder = first.draw.folders.paths
    return shards.seal_table(folder, first.num_shards, kind=paths.KIND, key=first.key)
