"""Sequences of traces as token rows for training: which are taken, with their conditions and labels."""

import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.apr import AprSftParams
from pipeline_lib.seeding import child_random
from pipeline_lib.store.files import atomic_file
from pipeline_lib.store.shards import unread_shards
from pipeline_lib.systems.apr.countdown.data_folder import traces_folder
from pipeline_lib.systems.apr.countdown.sequences import Kind
from pipeline_lib.systems.apr.countdown.tokens import EOS, make_tokenizer
from pipeline_lib.train.offline.token_steps import TokenRow


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedTraces:
    """Rows of a training, and what is known of them."""

    rows: Sequence[TokenRow]
    conditions: tuple[str, ...]
    """Of root threads, by name and amount."""
    dropped: int
    """Sequences that exceed the window."""


def encode_traces(  # noqa: PLR0913 - what the rows depend on
    data: pathlib.Path,
    kind: Kind,
    sft: AprSftParams,
    *,
    num_numbers: int,
    window: int,
    seed: int,
    work: pathlib.Path | None = None,
) -> EncodedTraces:
    """The sequences of ``kind`` that a training takes; which ones depends on seed and problem alone.

    ``sft`` says which sequences are taken, and where their loss begins; ``num_numbers`` determines the tokenizer;
    ``window`` is the most tokens of a sequence. Encoded shards are kept in ``work`` for a later call with the same
    arguments.

    Raises:
        BadInputError: the window does not hold a prompt, or no sequence.
    """
    tokenizer = make_tokenizer(num_numbers)
    rows: list[TokenRow] = []
    conditions: set[str] = set()
    dropped = 0
    for name, read in unread_shards(traces_folder(data, kind)):
        kept = None if work is None else (work / name).with_suffix(".npz")
        if kept is not None and kept.is_file():
            shard = _EncodedShard.read(kept)
        else:
            shard = _encode_shard(read(), sft, tokenizer, window=window, seed=seed)
            if kept is not None:
                shard.write(kept)
        rows += shard.rows()
        conditions |= {*shard.conditions.tolist()}
        dropped += int(shard.dropped)
    if not conditions:
        raise BadInputError(f"apr.model.window={window}: holds no sequence of a parent; raise it")
    return EncodedTraces(
        rows=rows, conditions=tuple(sorted(conditions, key=_by_amount)), dropped=dropped
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _EncodedShard:
    """The sequences of one shard as arrays."""

    ids: npt.NDArray[np.int32]
    """Of all sequences, one after another."""
    ends: npt.NDArray[np.int64]
    """In ``ids``, of each sequence."""
    loss_from: npt.NDArray[np.int32]
    conditions: npt.NDArray[np.str_]
    dropped: npt.NDArray[np.int64]

    @classmethod
    def read(cls, path: pathlib.Path) -> "_EncodedShard":
        """The shard that `write` wrote."""
        with np.load(path) as arrays:
            return cls(**{name: arrays[name] for name in arrays.files})

    def write(self, path: pathlib.Path) -> None:
        """Write the arrays as one file."""
        with atomic_file(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, **{one.name: getattr(self, one.name) for one in fields(self)})

    def rows(self) -> Iterator[TokenRow]:
        """The sequences, as views of ``ids``."""
        ends = self.ends.tolist()
        for begin, end, loss_from in zip([0, *ends], ends, self.loss_from.tolist(), strict=False):
            yield TokenRow(ids_L=self.ids[begin:end], loss_from=loss_from)


def _encode_shard(
    traces: Sequence[Mapping[str, Any]],
    sft: AprSftParams,
    tokenizer: Tokenizer,
    *,
    window: int,
    seed: int,
) -> _EncodedShard:
    taken = [*_taken(iter(traces), sft, seed)]
    given = [trace["condition"] if _is_conditioned(trace, sft, seed) else "" for trace in taken]
    # In batches the tokenizer uses all cores.
    prefixes = tokenizer.encode_batch(
        [condition + trace["prefix"] for condition, trace in zip(given, taken, strict=True)]
    )
    outputs = tokenizer.encode_batch([trace["output"] for trace in taken])
    end = tokenizer.token_to_id(EOS)
    assert end is not None
    ids: list[list[int]] = []
    loss_from: list[int] = []
    conditions: set[str] = set()
    dropped = 0
    for trace, condition, prefix, output in zip(taken, given, prefixes, outputs, strict=True):
        if trace["round"] == 0 and len(prefix.ids) >= window:
            raise BadInputError(
                f"apr.model.window={window}: a prompt takes {len(prefix.ids)} tokens; raise it"
            )
        if len(prefix.ids) + len(output.ids) + 1 > window:
            dropped += 1
            continue
        ids.append([*prefix.ids, *output.ids, end])
        loss_from.append(len(prefix.ids) if sft.loss_on == "drawn" else 0)
        # A published trace without a spawn has no number of children, so its prompt does not stand for all
        # prompts without a condition.
        if trace["role"] == "parent" and (condition or not _is_conditioned(trace, sft, seed)):
            conditions.add(condition)
    return _EncodedShard(
        ids=np.fromiter(itertools.chain.from_iterable(ids), dtype=np.int32),
        ends=np.cumsum([len(one) for one in ids], dtype=np.int64),
        loss_from=np.array(loss_from, dtype=np.int32),
        conditions=np.array(sorted(conditions), dtype=np.str_),
        dropped=np.array(dropped, dtype=np.int64),
    )


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


def _by_amount(condition: str) -> tuple[int, str]:
    return len(condition), condition
