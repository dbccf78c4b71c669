"""Supervised training of a model of threads on the traces of one kind, as token rows.

The model is a small Llama from scratch, or a language model.
"""

import itertools
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from pipeline_lib.determinism import deterministic, trainer_seed
from pipeline_lib.engines.pretrained import chat_format_of
from pipeline_lib.engines.tokens import COMPACT_TEMPLATE, encode_completion
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.apr import AprModelParams, AprParams, AprSftParams
from pipeline_lib.params.train import LoraParams
from pipeline_lib.seeding import child_random, child_seed
from pipeline_lib.store.checkpoints import work_folder
from pipeline_lib.store.folders import check_output_folder
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.store.shards import iter_shards
from pipeline_lib.systems.apr.countdown.tokens import EOS, PAD, make_tokenizer
from pipeline_lib.systems.apr.data_folder import (
    check_data,
    problem_file,
    read_settings,
    trace_kinds,
    traces_folder,
)
from pipeline_lib.systems.apr.model_record import RECORD_NAME, ThreadModelRecord
from pipeline_lib.systems.apr.problem_lines import read_problems
from pipeline_lib.systems.apr.words.texts import encode_context, wire_of
from pipeline_lib.systems.apr.words.tried import settings_of
from pipeline_lib.train.bootstrap import make_word_tokenizer, save_blank_llama
from pipeline_lib.train.devices import present_devices
from pipeline_lib.train.offline.bucketed_sft import (
    TokenRow,
    TokenSteps,
    plan_steps,
    token_phase,
)
from pipeline_lib.train.phases import Phase, Progress, TrainContext
from pipeline_lib.train.sequence import finished_training, run_phases
from pipeline_lib.train.tracking.trackers import Trackers
from pipeline_lib.train.trainer_settings import silence_libraries
from pipeline_lib.train.weights import policies


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedTraces:
    """Rows of a training, and what is known of them."""

    rows: Sequence[TokenRow]
    conditions: tuple[str, ...]
    """Of root threads, by name and amount."""
    dropped: int
    """Sequences that exceed the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEncoding:
    """From texts of traces to token ids."""

    contexts: Callable[[Sequence[str]], list[list[int]]]
    """Of prefixes."""
    outputs: Callable[[Sequence[str]], list[list[int]]]
    """Of what follows them, without an end token."""
    end_id: int


def countdown_encoding(num_numbers: int) -> TraceEncoding:
    """By the tokenizer for problems of ``num_numbers`` numbers."""
    tokenizer = make_tokenizer(num_numbers)

    # In batches the tokenizer uses all cores.
    def encode(texts: Sequence[str]) -> list[list[int]]:
        return [one.ids for one in tokenizer.encode_batch(list(texts))]

    end_id = tokenizer.token_to_id(EOS)
    assert end_id is not None
    return TraceEncoding(contexts=encode, outputs=encode, end_id=end_id)


def words_encoding(source: str) -> TraceEncoding:
    """By the tokenizer and the chat template of a language model."""
    tokenizer = policies.load_training_tokenizer(source)
    wire = wire_of(chat_format_of(tokenizer))
    return TraceEncoding(
        contexts=lambda texts: [encode_context(tokenizer, wire(text)) for text in texts],
        outputs=lambda texts: [encode_completion(tokenizer, text) for text in texts],
        end_id=tokenizer.eos_token_id,
    )


def encode_traces(
    data: pathlib.Path,
    kind: str,
    sft: AprSftParams,
    *,
    encoding: TraceEncoding,
    window: int,
    seed: int,
) -> EncodedTraces:
    """The sequences of ``kind`` that a training takes; which ones depends on seed and problem alone.

    ``sft`` says which sequences are taken, and where their loss begins; ``window`` is the most tokens of a sequence.

    Raises:
        BadInputError: the window does not hold a prompt, or no sequence.
    """
    rows: list[TokenRow] = []
    conditions: set[str] = set()
    dropped = 0
    for traces in iter_shards(traces_folder(data, kind)):
        for trace, condition, row in _encode_shard(traces, sft, encoding, window=window, seed=seed):
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
    encoding: TraceEncoding,
    *,
    window: int,
    seed: int,
) -> list[tuple[Mapping[str, Any], str, TokenRow | None]]:
    """The sequences that are taken, each with its condition and its row; None if it exceeds the window.

    A segment that goes on from the whole text of an earlier one of its problem is in one row with it.
    """
    taken = [*_taken(iter(traces), sft, seed)]
    given = [trace["condition"] if _is_conditioned(trace, sft, seed) else "" for trace in taken]
    texts = [condition + trace["prefix"] for condition, trace in zip(given, taken, strict=True)]
    prefixes = encoding.contexts(texts)
    outputs = encoding.outputs([trace["output"] for trace in taken])
    found: list[tuple[Mapping[str, Any], str, TokenRow]] = []
    parent = (0, "")
    """Place in ``found`` and text of the last segment of a parent."""
    for trace, condition, text, prefix, output in zip(
        taken, given, texts, prefixes, outputs, strict=True
    ):
        if trace["round"] == 0 and len(prefix) >= window:
            raise BadInputError(
                f"apr.model.window={window}: a prompt takes {len(prefix)} tokens; raise it"
            )
        row = TokenRow(
            ids_L=np.array([*prefix, *output, encoding.end_id], dtype=np.int32),
            loss_from=len(prefix) if sft.loss_on == "drawn" else 0,
        )
        place = len(found)
        if trace["role"] == "parent":
            if trace["round"] > 0 and text.startswith(parent[1]):
                place, row = parent[0], _joined(found[parent[0]][2], row, goes_on_at=len(prefix))
            parent = (place, text + trace["output"])
        found[place:] = [*found[place + 1 :], (trace, condition, row)]
    return [
        (trace, condition, row if len(row.ids_L) <= window else None)
        for trace, condition, row in found
    ]


def _joined(first: TokenRow, second: TokenRow, *, goes_on_at: int) -> TokenRow:
    """Both as one row, with no loss on what lies between the end of the first and ``goes_on_at`` in the second.

    The end token of the first is left out.
    """
    end = len(first.ids_L) - 1
    assert (second.ids_L[:end] == first.ids_L[:end]).all()
    silent = (*first.silent, (end, goes_on_at))
    return TokenRow(ids_L=second.ids_L, loss_from=first.loss_from, silent=silent)


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
    kind: str,
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
    settings, model = read_settings(data).data, params.model
    is_words, is_own = settings.form == "parts", settings.form == "tries"
    if not is_own and is_words != (model.base is not None):
        raise BadInputError(
            f"apr.model.base={model.base}: {data} has the task {settings.task}; questions in words are for a "
            "language model, searches for a model of their own"
        )
    num_numbers = None if is_words or is_own else settings.countdown.num_numbers
    work = work_folder(output, key)
    start_model = model.base or str(work / "blank")
    make = partial(save_blank, pathlib.Path(start_model), model, seed, params.sft.threads)
    if is_own and model.base is None:
        present_devices().from_main(lambda: make(word_tokenizer(data)))
    traces = encode_traces(
        data,
        kind,
        params.sft,
        encoding=words_encoding(start_model)
        if num_numbers is None
        else countdown_encoding(num_numbers),
        window=model.window,
        seed=seed,
    )
    phase = make_phase(traces, params.sft, model.lora, seed=seed)
    record = ThreadModelRecord(
        kind="parallel" if kind == "parallel" else "serial",
        style=settings.form,
        whole_question=is_words and settings.parts.child == "question",
        grammar=settings_of(settings.task) if is_own else {},
        num_numbers=num_numbers,
        window=params.model.window,
        conditions=traces.conditions,
        data=manifest.digest,
        sequences=len(traces.rows),
        dropped=traces.dropped,
    )
    context = TrainContext(
        work=work,
        key=key,
        seed=seed,
        threads=params.sft.threads,
        progress=progress,
        trackers=trackers,
        problems=read_problems(problem_file(data, "train")),
        deadline=None if max_seconds is None else start + max_seconds,
    )
    if num_numbers is not None:
        present_devices().from_main(lambda: make(countdown_tokenizer(num_numbers)))
    return run_phases(
        [phase],
        start_model,
        output,
        context=context,
        records={RECORD_NAME: record.model_dump(mode="json")},
    )


def countdown_tokenizer(num_numbers: int) -> PreTrainedTokenizerFast:
    """For problems of ``num_numbers`` numbers."""
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=make_tokenizer(num_numbers),
        pad_token=PAD,
        eos_token=EOS,
        clean_up_tokenization_spaces=False,
    )


def word_tokenizer(data: pathlib.Path) -> PreTrainedTokenizerFast:
    """A token for each word of the traces in ``data``, of all kinds."""
    kinds = trace_kinds(read_settings(data).data)
    shards = itertools.chain.from_iterable(iter_shards(traces_folder(data, one)) for one in kinds)
    rows = itertools.chain.from_iterable(shards)
    tokenizer = make_word_tokenizer(row[name] for row in rows for name in ("prefix", "output"))
    tokenizer.chat_template = COMPACT_TEMPLATE
    return tokenizer


def save_blank(
    folder: pathlib.Path,
    model: AprModelParams,
    seed: int,
    threads: int,
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    """Save a model with random weights and ``tokenizer``."""
    weights_seed = trainer_seed(seed, "adaptive", "weights")
    with silence_libraries(), deterministic(threads=threads, seed=weights_seed):
        save_blank_llama(
            folder,
            tokenizer,
            hidden_size=model.hidden_size,
            intermediate_size=model.feed_forward_size,
            num_hidden_layers=model.num_layers,
            num_attention_heads=model.num_heads,
            max_position_embeddings=model.window,
            initializer_range=model.initializer_range,
        )


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


def make_phase(
    traces: EncodedTraces, sft: AprSftParams, lora: LoraParams = policies.FULL, *, seed: int
) -> Phase:
    """The phase that trains on ``traces``; errors as of :func:`plan_of`."""
    plan = plan_of(traces, sft, seed=seed)
    return token_phase(_PHASE, traces.rows, plan, sft, lora)
