"""Beam and tree search, shard by shard."""

import time
from collections.abc import Sequence
from dataclasses import asdict

from prefect import task

from pipeline_lib.evaluation import search_records
from pipeline_lib.evaluation.search import SearchSetting
from pipeline_lib.params.evaluate import Strategy
from pipeline_lib.sampling.accounting import PATHS, SPENDING, require_budget
from pipeline_lib.serving.chat_model import ChatModel, Decoding
from pipeline_lib.serving.connect import served_model
from pipeline_lib.serving.embedded import shared_engine, visible_gpus
from pipeline_lib.serving.scoring import PolicyScorer
from pipeline_lib.storage import shards
from pipeline_lib.storage.stages import stage_key
from pipeline_lib.telemetry import record_event
from pipeline_lib.verification.kept_verifiers import kept_verifier
from tasks.compute_parts import STAGE, ComputePart, ComputeShard
from tasks.policies import PLAN, SHARD


def _key(shard: ComputeShard) -> str:
    """A search depends on its problems, its policy and all that steers it."""
    part = shard.part
    assert part.strategy is not None
    steering = part.compute.model_dump(
        mode="json", include={"step", "max_steps", part.strategy.value}
    )
    return stage_key(
        __name__,
        params={
            **part.sample.model_dump(),
            **steering,
            # Answers are told apart by the verifier.
            "verify": part.verify.model_dump(),
            "engine": part.serve.engine,
            "engine_options": part.serve.options,
            "seed": part.seed,
            "strategy": part.strategy,
            "budget": part.budget,
        },
        inputs=shard.inputs(),
    )


def is_searched(shard: ComputeShard) -> bool:
    """Whether paths and costs are there."""
    key, folders = _key(shard), shard.part.folders
    tables = ((folders.paths, PATHS), (folders.costs, search_records.COSTS))
    return all(
        shards.finished_shard(folder, shard.index, kind=kind, key=key) for folder, kind in tables
    )


@task(**SHARD, task_run_name="{shard.part.name}-shard-{shard.index:03d}")
def search_shard(shard: ComputeShard) -> ComputeShard:
    """Search the problems of one shard, unless that is done already.

    Raises:
        BudgetReachedError: what was drawn before has used up the budget.
    """
    if is_searched(shard):
        return shard
    part = shard.part
    assert part.strategy is not None
    require_budget(part.workspace, part.serve)
    start = time.perf_counter()
    with kept_verifier(part.verify) as verifier:
        records = search_records.search_problems(
            shard.problems(),
            _setting(part),
            verifier,
            strategy=part.strategy,
            budget=part.budget,
        )
    seconds = time.perf_counter() - start
    key, counts, folders = _key(shard), asdict(records.spent), part.folders
    shards.write_shard(
        folders.costs, shard.index, records.costs, kind=search_records.COSTS, key=key
    )
    # The paths last: theirs are the counts that the budget is checked against.
    rows = [path.row() for path in records.paths]
    shards.write_shard(folders.paths, shard.index, rows, kind=PATHS, key=key, counts=counts)
    record_event(
        part.workspace,
        SPENDING,
        draw=f"{STAGE}-{part.label}",
        shard=shard.index,
        engine=part.serve.engine,
        engine_seconds=seconds,
        gpus=visible_gpus(),
        **counts,
    )
    shard.record(part.label, seconds)
    return shard


@task(**PLAN, task_run_name="seal-search")
def seal_search(done: Sequence[ComputeShard]) -> None:
    """Write the manifests of a search's tables once all shards are there."""
    first, folders = done[0], done[0].part.folders
    for folder, kind in ((folders.paths, PATHS), (folders.costs, search_records.COSTS)):
        shards.seal_table(folder, first.num_shards, kind=kind, key=_key(first))


def _setting(part: ComputePart) -> SearchSetting:
    sample = part.sample
    steering = part.compute.beam if part.strategy is Strategy.BEAM else part.compute.tree
    return SearchSetting(
        model=_model(part),
        decoding=Decoding(
            temperature=sample.temperature,
            top_p=sample.top_p,
            max_new_tokens=sample.max_new_tokens,
        ),
        params=part.compute,
        seed=part.seed,
        scorer=_scorer(part) if steering.value == "self-certainty" else None,
    )


def _model(part: ComputePart) -> ChatModel:
    if part.endpoint is None:
        return shared_engine(part.model, batch_size=part.sample.batch_size)
    return served_model(part.endpoint, part.serve, model=part.model)


def _scorer(part: ComputePart) -> PolicyScorer:
    """Servers give no whole distribution, so the policy is read in this process."""
    engine = shared_engine(part.model, batch_size=part.sample.batch_size)
    return PolicyScorer(model=engine.model, tokenizer=engine.tokenizer)
