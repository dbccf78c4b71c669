"""Rows of traces: the sequences of one problem with their condition.

A row follows from the seed, the kind and the problem alone, so the number of workers changes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from random import Random
from typing import Any

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.apr import AprDataParams, ThreadSearchParams
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.apr.countdown import compact, lines, published
from pipeline_lib.systems.apr.countdown.sequences import Kind, Trace, TraceSequence
from pipeline_lib.systems.apr.countdown.tokens import count_tokens

BUDGET_BINS = {"compact": 32, "published": 512}
"""Tokens by which a token budget is rounded up, by style."""

_Write = Callable[[CountdownGold, AprDataParams, Random], Trace]


def trace_rows(
    problem_id: str, gold: CountdownGold, kind: Kind, params: AprDataParams, *, seed: int
) -> list[dict[str, Any]]:
    """The sequences of the trace of a problem, in order of time, each with the problem and its condition."""
    draw = child_random(seed, "trace", kind, problem_id)
    trace = _WRITERS[params.style, kind](gold, params, draw)
    return [
        {
            "problem_id": problem_id,
            **asdict(sequence),
            "condition": _condition(sequence, trace, kind, params),
        }
        for sequence in trace.sequences
    ]


def _condition(sequence: TraceSequence, trace: Trace, kind: Kind, params: AprDataParams) -> str:
    """A parallel parent's number of children a spawn, or a serial sequence's tokens.

    Empty for a child, and for a parent without a spawn.
    """
    if sequence.role == "child":
        return ""
    if kind == "parallel":
        if not trace.spawned:
            return ""
        # The mean over its spawns, rounded half up.
        spawns = len(trace.spawned)
        return lines.condition(
            lines.SUB_CALL_BUDGET, (2 * sum(trace.spawned) + spawns) // (2 * spawns)
        )
    text = sequence.prefix + sequence.output
    tokens = count_tokens(text, num_numbers=params.countdown.num_numbers) + 1
    size = BUDGET_BINS[params.style]
    return lines.condition(lines.TOKEN_BUDGET, -(-tokens // size) * size)


def _compact_parallel(gold: CountdownGold, params: AprDataParams, draw: Random) -> Trace:
    return compact.parallel_trace(_compact_search(gold, params, params.parallel, draw))


def _compact_serial(gold: CountdownGold, params: AprDataParams, draw: Random) -> Trace:
    return compact.serial_trace(_compact_search(gold, params, params.serial, draw))


def _compact_search(
    gold: CountdownGold, params: AprDataParams, search: ThreadSearchParams, draw: Random
) -> compact.CompactSearch:
    return compact.CompactSearch(
        numbers=gold.numbers,
        target=gold.target,
        beam=draw.randint(search.beam_low, search.beam_high),
        sub_beam=search.sub_beam,
        max_value=params.max_value,
    )


def _published_parallel(gold: CountdownGold, params: AprDataParams, draw: Random) -> Trace:
    search = params.parallel
    beam = draw.randint(search.beam_low, search.beam_high)
    return published.parallel_trace(
        gold.numbers,
        gold.target,
        beam=beam,
        sub_beam=draw.randint(beam, max(beam, search.sub_beam)),
        branch=search.branch,
        draw=draw,
    )


def _published_serial(gold: CountdownGold, params: AprDataParams, draw: Random) -> Trace:
    search = params.serial
    return published.serial_trace(
        gold.numbers,
        gold.target,
        beam=draw.randint(search.beam_low, search.beam_high),
        branch=search.branch,
        draw=draw,
    )


_WRITERS: Mapping[tuple[str, str], _Write] = {
    ("compact", "parallel"): _compact_parallel,
    ("compact", "serial"): _compact_serial,
    ("published", "parallel"): _published_parallel,
    ("published", "serial"): _published_serial,
}
