"""Beam and tree search, shard by shard."""

import time
from collections.abc import Sequence
from dataclasses import asdict

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.embedded.embedded_engine import shared_engine
from pipeline_lib.engines.embedded.scoring import PolicyScorer
from pipeline_lib.engines.gpus import visible_gpus
from pipeline_lib.engines.started_engine import rollout_engine
from pipeline_lib.params.evaluate import Strategy
from pipeline_lib.sampling.accounting import PATHS, SPENDING, require_budget
from pipeline_lib.store import shards
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.reuse import record_unit
from pipeline_lib.study.curves.search_records import COSTS, SearchRecords, search_problems
from pipeline_lib.study.search import SearchSetting
from pipeline_lib.systems.loop.test_time.measures import STAGE, ComputePart, ComputeShard, digests
from pipeline_lib.telemetry import record_event
from pipeline_lib.verify.dispatch import pooled_verifier


def _key(shard: ComputeShard) -> str:
    """A search depends on its problems, its policy and its settings."""
    part = shard.draw
    assert part.strategy is not None
    steering = part.run.params.test_time.model_dump(
        mode="json", include={"step_delimiter", "max_steps", part.strategy.value}
    )
    return stage_key(
        __name__,
        params={
            **part.sample.model_dump(),
            **steering,
            # The verifier decides if two answers are equal.
            "verify": part.run.params.verify.model_dump(),
            "engine": part.run.params.serve.engine,
            "engine_options": part.run.params.serve.options,
            "seed": part.run.params.seed,
            "strategy": part.strategy,
            "budget": part.budget,
        },
        inputs=digests(part),
    )


def is_searched(shard: ComputeShard) -> bool:
    """True if paths and costs of the shard are finished."""
    key, folders = _key(shard), shard.draw.folders
    tables = ((folders.paths, PATHS), (folders.costs, COSTS))
    return all(
        shards.finished_shard(folder, shard.index, kind=kind, key=key) for folder, kind in tables
    )


def search(shard: ComputeShard) -> None:
    """Search the problems of one shard, unless it is finished under the same key.

    Raises:
        BudgetReachedError: earlier shards have used up the budget.
    """
    if is_searched(shard):
        return
    part = shard.draw
    require_budget(part.run.root, part.run.params.serve)
    key = _key(shard)
    with record_unit(shard.unit("search", key)):
        start = time.perf_counter()
        records = _search_shard(shard)
        seconds = time.perf_counter() - start
        _write(shard, records, key=key)
        record_event(
            part.run.root,
            SPENDING,
            draw=f"{STAGE}-{part.name}",
            shard=shard.index,
            engine=part.run.params.serve.engine,
            engine_seconds=seconds,
            gpus=min(1, visible_gpus()),
            **asdict(records.spent),
        )


def _search_shard(shard: ComputeShard) -> SearchRecords:
    part = shard.draw
    assert part.strategy is not None
    with pooled_verifier(part.run.params.verify) as verifier:
        return search_problems(
            shard.problems(),
            _setting(part),
            verifier,
            strategy=part.strategy,
            budget=part.budget,
        )


def _write(shard: ComputeShard, records: SearchRecords, *, key: str) -> None:
    folders, index = shard.draw.folders, shard.index
    shards.write_shard(folders.costs, index, records.costs, kind=COSTS, key=key)
    # Paths last: the budget is checked against their counts.
    rows = [path.row() for path in records.paths]
    shards.write_shard(
        folders.paths, index, rows, kind=PATHS, key=key, counts=asdict(records.spent)
    )


def seal(searched: Sequence[ComputeShard]) -> None:
    """Write the manifests of a search's tables, once all shards exist."""
    first, folders = searched[0], searched[0].draw.folders
    for folder, kind in ((folders.paths, PATHS), (folders.costs, COSTS)):
        shards.seal_table(folder, first.num_shards, kind=kind, key=_key(first))


def _setting(part: ComputePart) -> SearchSetting:
    sample = part.sample
    steering = (
        part.run.params.test_time.beam
        if part.strategy is Strategy.BEAM
        else part.run.params.test_time.tree
    )
    return SearchSetting(
        model=rollout_engine(
            part.model, part.run.params.serve, endpoint=part.endpoint, batch_size=sample.batch_size
        ),
        decoding=Decoding(
            temperature=sample.temperature,
            top_p=sample.top_p,
            max_new_tokens=sample.max_new_tokens,
        ),
        params=part.run.params.test_time,
        seed=part.run.params.seed,
        scorer=_scorer(part) if steering.value == "self-certainty" else None,
    )


def _scorer(part: ComputePart) -> PolicyScorer:
    """The policy in this process, since servers return no full distributions."""
    engine = shared_engine(part.model, batch_size=part.sample.batch_size)
    return PolicyScorer(model=engine.model, tokenizer=engine.tokenizer)
