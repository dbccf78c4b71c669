"""Sequences of traces as token rows for training: which are taken, with their conditions and labels."""

import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.apr import AprSftParams
from pipeline_lib.seeding import child_random
from pipeline_lib.store.shards import iter_shards
from pipeline_lib.systems.apr.countdown.data_folder import traces_folder
from pipeline_lib.systems.apr.countdown.sequences import Kind
from pipeline_lib.systems.apr.countdown.tokens import EOS, make_tokenizer
from pipeline_lib.train.offline.bucketed_sft import TokenRow


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
