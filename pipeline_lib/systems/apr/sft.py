"""Supervised training of a model of threads: a small Llama from scratch on the traces of one kind, as token rows."""

import itertools
import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from pipeline_lib.determinism import deterministic, trainer_seed
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.apr import AprModelParams, AprParams, AprSftParams
from pipeline_lib.seeding import child_random, child_seed
from pipeline_lib.store.checkpoints import work_folder
from pipeline_lib.store.folders import check_output_folder
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.store.shards import iter_shards
from pipeline_lib.systems.apr.countdown.data_folder import (
    check_data,
    problem_file,
    read_problems,
    read_settings,
    traces_folder,
)
from pipeline_lib.systems.apr.countdown.lines import Kind
from pipeline_lib.systems.apr.countdown.tokens import EOS, PAD, make_tokenizer
from pipeline_lib.systems.apr.model_record import RECORD_NAME, ThreadModelRecord
from pipeline_lib.train.bootstrap import LlamaSizes, save_blank_llama
from pipeline_lib.train.library_logs import silence_libraries
from pipeline_lib.train.offline.bucketed_sft import trainer_factory
from pipeline_lib.train.offline.token_steps import TokenRow, TokenSteps, plan_steps
from pipeline_lib.train.phases import Phase, Progress, Schedule, TrainContext
from pipeline_lib.train.sequence import finished_training, run_phases
from pipeline_lib.train.tracking.trackers import Trackers
from pipeline_lib.train.weights import policies


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedTraces:
    """Rows of a training, and what is known of them."""

    rows: Sequence[TokenRow]
    conditions: tuple[str, ...]
    """Of root threads, by name and amount."""
    dropped: int
    """Sequences that exceed the window."""


def encode_traces(
    data: pathlib.Path,
    kind: Kind,
    sft: AprSftParams,
    *,
    num_numbers: int,
    window: int,
    seed: int,
) -> EncodedTraces:
    """The sequences of ``kind`` that a training takes; which ones depends on seed and problem alone.

    ``sft`` says which sequences are taken, and where their loss begins; ``num_numbers`` determines the tokenizer;
    ``window`` is the most tokens of a sequence.

    Raises:
        BadInputError: the window does not hold a prompt, or no sequence.
    """
    tokenizer = make_tokenizer(num_numbers)
    rows: list[TokenRow] = []
    conditions: set[str] = set()
    dropped = 0
    for traces in iter_shards(traces_folder(data, kind)):
        for trace, condition, row in _encode_shard(
            traces, sft, tokenizer, window=window, seed=seed
        ):
            if row is None:
                dropped += 1
                continue
            rows.append(row)
            # A published trace without a spawn has no number of children, so its prompt does not stand for all
            # prompts without a condition.
            if trace["role"] == "parent" and (condition or not _is_conditioned(trace, sft, seed)):
                conditions.add(condition)
    if not conditions:
        raise BadInputError(f"apr.model.window={window}: holds no sequence of a parent; raise it")
    return EncodedTraces(
        rows=rows,
        conditions=tuple(sorted(conditions, key=lambda one: (len(one), one))),
        dropped=dropped,
    )


def _encode_shard(
    traces: Sequence[Mapping[str, Any]],
    sft: AprSftParams,
    tokenizer: Tokenizer,
    *,
    window: int,
    seed: int,
) -> Iterator[tuple[Mapping[str, Any], str, TokenRow | None]]:
    """The sequences that are taken, each with its condition and its row; None if it exceeds the window."""
    taken = [*_taken(iter(traces), sft, seed)]
    given = [trace["condition"] if _is_conditioned(trace, sft, seed) else "" for trace in taken]
    # In batches the tokenizer uses all cores.
    prefixes = tokenizer.encode_batch(
        [condition + trace["prefix"] for condition, trace in zip(given, taken, strict=True)]
    )
    outputs = tokenizer.encode_batch([trace["output"] for trace in taken])
    for trace, condition, prefix, output in zip(taken, given, prefixes, outputs, strict=True):
        if trace["round"] == 0 and len(prefix.ids) >= window:
            raise BadInputError(
                f"apr.model.window={window}: a prompt takes {len(prefix.ids)} tokens; raise it"
            )
        ids = [*prefix.ids, *output.ids, tokenizer.token_to_id(EOS)]
        loss_from = len(prefix.ids) if sft.loss_on == "drawn" else 0
        row = TokenRow(ids_L=np.array(ids, dtype=np.int32), loss_from=loss_from)
        yield trace, condition, row if len(ids) <= window else None


def _taken(
    rows: Iterator[Mapping[str, Any]], sft: AprSftParams, seed: int
) -> Iterator[Mapping[str, Any]]:
    """Rows without the failed children and the segments after a join that are left out."""
    for name, sequences in itertools.groupby(rows, key=lambda row: row["problem_id"]):
        trace, draw = [*sequences], child_random(seed, "sft rows", name)
        failed = [i for i, row in enumerate(trace) if row["role"] == "child" and not row["solved"]]
        kept = set(failed)
        if sft.failed_children is not None and len(failed) > sft.failed_children:
            kept = set(draw.sample(failed, sft.failed_children))
        for place, row in enumerate(trace):
            after_join = row["role"] == "parent" and row["round"] > 0
            if after_join and draw.random() >= sft.join_share:
                continue
            if place in failed and place not in kept:
                continue
            yield row


def _is_conditioned(trace: Mapping[str, Any], sft: AprSftParams, seed: int) -> bool:
    draw = child_random(seed, "sft conditions", trace["problem_id"])
    return draw.random() < sft.conditioned


_PHASE = "sft"


def train_on_traces(  # noqa: PLR0913 - what a training depends on
    data: pathlib.Path,
    kind: Kind,
    output: pathlib.Path,
    params: AprParams,
    *,
    seed: int,
    max_seconds: float | None = None,
    progress: Progress | None = None,
    trackers: Trackers | None = None,
    replaces: bool = False,
) -> Manifest:
    """Train on the traces in ``data``, or resume an interrupted training; a finished one is reused.

    After ``max_seconds`` the training stops behind a checkpoint. With ``replaces`` the model of another training in
    ``output`` is replaced, not refused.

    Raises:
        BudgetReachedError: the time limit was reached; the same call resumes.
        BadInputError: there is no finished data, the window is too small for it, or ``output`` holds
            something else.
    """
    start = time.perf_counter()
    check_output_folder(output, kind=policies.KIND)
    manifest = check_data(data)
    chosen = params.model_dump(mode="json", include={"model", "sft"})
    key = stage_key(
        __name__, params={**chosen, "kind": kind, "seed": seed}, inputs={"data": manifest.digest}
    )
    finished = finished_training(output, key=key, replaces=replaces)
    if finished is not None:
        return finished
    settings = read_settings(data).data
    num_numbers = settings.countdown.num_numbers
    traces = encode_traces(
        data,
        kind,
        params.sft,
        num_numbers=num_numbers,
        window=params.model.window,
        seed=seed,
    )
    phase = make_phase(traces, params.sft, seed=seed)
    record = ThreadModelRecord(
        kind=kind,
        style=settings.style,
        num_numbers=num_numbers,
        window=params.model.window,
        conditions=traces.conditions,
        data=manifest.digest,
        sequences=len(traces.rows),
        dropped=traces.dropped,
    )
    context = TrainContext(
        work=work_folder(output, key),
        key=key,
        seed=seed,
        threads=params.sft.threads,
        progress=progress,
        trackers=trackers,
        problems=read_problems(problem_file(data, "train")),
        deadline=None if max_seconds is None else start + max_seconds,
    )
    blank = context.work / "blank"
    make_blank(blank, params.model, num_numbers=num_numbers, seed=seed, threads=params.sft.threads)
    return run_phases(
        [phase],
        str(blank),
        output,
        context=context,
        records={RECORD_NAME: record.model_dump(mode="json")},
    )


def make_blank(
    folder: pathlib.Path, model: AprModelParams, *, num_numbers: int, seed: int, threads: int
) -> None:
    """Save a model with random weights and the tokenizer for problems of ``num_numbers`` numbers."""
    sizes = LlamaSizes(
        hidden_size=model.hidden_size,
        feed_forward_size=model.feed_forward_size,
        num_layers=model.num_layers,
        num_heads=model.num_heads,
        context_tokens=model.window,
    )
    weights_seed = trainer_seed(seed, "adaptive", "weights")
    with silence_libraries(), deterministic(threads=threads, seed=weights_seed):
        tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
            tokenizer_object=make_tokenizer(num_numbers),
            pad_token=PAD,
            eos_token=EOS,
            clean_up_tokenization_spaces=False,
        )
        save_blank_llama(folder, tokenizer, sizes)


def plan_of(traces: EncodedTraces, sft: AprSftParams, *, seed: int) -> TokenSteps:
    """The steps of a training on ``traces``.

    Raises:
        BadInputError: a step does not hold the longest sequence.
    """
    lengths = [len(row.ids_L) for row in traces.rows]
    if max(lengths) > sft.step_tokens:
        raise BadInputError(
            f"apr.sft.step_tokens={sft.step_tokens}: the longest sequence has {max(lengths)} "
            "tokens; raise it"
        )
    return plan_steps(
        lengths, tokens=sft.tokens, step_tokens=sft.step_tokens, seed=child_seed(seed, "sft order")
    )


def make_phase(traces: EncodedTraces, sft: AprSftParams, *, seed: int) -> Phase:
    """The phase that trains on ``traces``; errors as of :func:`plan_of`."""
    plan = plan_of(traces, sft, seed=seed)
    return Phase(
        name=_PHASE,
        schedule=Schedule(
            steps=len(plan.steps),
            lr=sft.lr,
            batch_size=1,
            micro_batch_size=1,
            shape="cosine",
            warmup_fraction=sft.warmup_fraction,
            checkpoint_every=sft.checkpoint_every,
            gradient_checkpointing=False,
        ),
        make_trainer=trainer_factory(traces.rows, plan, sft),
    )
