"""Sequences of traces as token rows for training: which are taken, with their conditions and labels."""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline_lib.adaptive.countdown.data_folder import traces_folder
from pipeline_lib.adaptive.countdown.sequences import Kind
from pipeline_lib.adaptive.countdown.tokens import EOS, make_tokenizer
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.adaptive import AdaptiveSftParams
from pipeline_lib.seeding import child_random
from pipeline_lib.storage.shards import iter_table
from pipeline_lib.training.offline.token_steps import TokenRow


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
    sft: AdaptiveSftParams,
    *,
    num_numbers: int,
    window: int,
    seed: int,
) -> EncodedTraces:
    """The sequences of ``kind`` that a training takes; which ones depends on seed and problem alone.

    Raises:
        BadInputError: the window does not hold a prompt, or no sequence.
    """
    tokenizer = make_tokenizer(num_numbers)
    end = tokenizer.token_to_id(EOS)
    rows: list[TokenRow] = []
    conditions: set[str] = set()
    dropped = 0
    for trace in _taken(iter_table(traces_folder(data, kind)), sft, seed):
        condition = trace["condition"] if _is_conditioned(trace, sft, seed) else ""
        prefix = tokenizer.encode(condition + trace["prefix"]).ids
        output = tokenizer.encode(trace["output"]).ids
        if trace["round"] == 0 and len(prefix) >= window:
            raise BadInputError(
                f"adaptive.model.window={window}: a prompt takes {len(prefix)} tokens; raise it"
            )
        if len(prefix) + len(output) + 1 > window:
            dropped += 1
            continue
        rows.append(
            TokenRow(
                ids_L=np.array([*prefix, *output, end], dtype=np.int32),
                loss_from=len(prefix) if sft.loss_on == "drawn" else 0,
            )
        )
        if trace["role"] == "parent":
            conditions.add(condition)
    if not conditions:
        raise BadInputError(
            f"adaptive.model.window={window}: holds no sequence of a parent; raise it"
        )
    return EncodedTraces(
        rows=rows, conditions=tuple(sorted(conditions, key=_by_amount)), dropped=dropped
    )


def _taken(
    rows: Iterator[Mapping[str, Any]], sft: AdaptiveSftParams, seed: int
) -> Iterator[Mapping[str, Any]]:
    """Rows without the failed children and the segments after a join that are left out."""
    for trace in _by_problem(rows):
        draw = child_random(seed, "sft rows", trace[0]["problem_id"])
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


def _is_conditioned(trace: Mapping[str, Any], sft: AdaptiveSftParams, seed: int) -> bool:
    draw = child_random(seed, "sft conditions", trace["problem_id"])
    return draw.random() < sft.conditioned


def _by_problem(rows: Iterator[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    current: list[Mapping[str, Any]] = []
    for row in rows:
        if current and row["problem_id"] != current[0]["problem_id"]:
            yield current
            current = []
        current.append(row)
    if current:
        yield current


def _by_amount(condition: str) -> tuple[int, str]:
    return len(condition), condition
