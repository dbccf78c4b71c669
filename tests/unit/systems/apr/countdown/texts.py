"""Traces as one readable text, for golden files."""

import pathlib

from pipeline_lib.systems.apr.countdown.lines import Trace

GOLDEN = pathlib.Path(__file__).parents[4] / "golden"


def show(trace: Trace) -> str:
    """Each sequence under a title; `|` separates its prefix and its output."""
    parts = []
    for one in trace.sequences:
        place = one.role if one.child is None else f"{one.role} {one.child}"
        solved = "solved" if one.solved else "not solved"
        parts.append(f"--- {place}, round {one.round}, {solved}\n{one.prefix}|{one.output}\n")
    return "".join(parts)
