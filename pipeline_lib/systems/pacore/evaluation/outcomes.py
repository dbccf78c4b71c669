"""Judged problems of an evaluation: plain paths with their verdicts, and the outcome of each strategy."""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline_lib.sampling.compute_cost import Cost
from pipeline_lib.study.selection.selectors import CandidatePath


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisOutcome:
    """One strategy on one problem, judged."""

    right: bool
    """Of the last call."""
    references_right: tuple[bool, ...]
    """Of the references that the last call saw."""
    references_shown: int
    """Sum over the calls after the first round."""
    references_dropped: int
    """Of these calls; they did not fit."""
    later_calls: int
    """Calls after the first round."""
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedProblem:
    """The plain paths of a problem with their verdicts, and its outcome by strategy."""

    id: str
    candidates: tuple[CandidatePath, ...]
    right: tuple[bool, ...]
    prompt_tokens: int
    """Of all requests for the plain paths."""
    num_requests: int
    """For the plain paths: one if the engine draws them together, one per path if it takes no consecutive seeds."""
    outcomes: Mapping[str, SynthesisOutcome]
