"""Rows of traces: the sequences of one problem with their condition.

A row follows from the seed, the kind and the problem alone, so the number of workers changes nothing.
"""

from dataclasses import asdict
from random import Random
from typing import Any

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.apr import AprDataParams
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.apr.countdown import compact, lines, published
from pipeline_lib.systems.apr.countdown.sequences import Kind, Trace, TraceSequence
from pipeline_lib.systems.apr.countdown.tokens import count_tokens

BUDGET_BINS = {"compact": 32, "published": 512}
"""Tokens by which a token budget is rounded up, by style."""


def trace_rows(
    problem_id: str, gold: CountdownGold, kind: Kind, params: AprDataParams, *, seed: int
) -> list[dict[str, Any]]:
    """The sequences of the trace of a problem, in order of time, each with the problem and its condition."""
    draw = child_random(seed, "trace", kind, problem_id)
    trace = _trace(gold, kind, params, draw)
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


def _trace(gold: CountdownGold, kind: Kind, params: AprDataParams, draw: Random) -> Trace:
    search = params.parallel if kind == "parallel" else params.serial
    numbers, target = gold.numbers, gold.target
    beam = draw.randint(search.beam_low, search.beam_high)
    if params.style == "compact":
        found = compact.CompactSearch(
            numbers=numbers,
            target=target,
            beam=beam,
            sub_beam=search.sub_beam,
            max_value=params.max_value,
        )
        return compact.parallel_trace(found) if kind == "parallel" else compact.serial_trace(found)
    branch = search.branch
    if kind == "serial":
        return published.serial_trace(numbers, target, beam=beam, branch=branch, draw=draw)
    sub_beam = draw.randint(beam, max(beam, search.sub_beam))
    return published.parallel_trace(
        numbers, target, beam=beam, sub_beam=sub_beam, branch=branch, draw=draw
    )
