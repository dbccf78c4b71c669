r"""The step of a chain after which its answer is given away, so that a peer could copy it.

A text gives the answer away if it has an answer marker (a box, ``####``, an answer tag), if its lenient
verdict is right, or if it states the solution (`statements`). A control token of a chat template counts as a
marker: the tokenizer of a peer would read it as the end of the turn. So does the end of a thought, since the
verdict does not read what stands before it. The first such step is found from the
beginnings of the chain: text that follows an answer cannot hide it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline_lib.classmate.statements import first_statement
from pipeline_lib.records import Problem
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verification.dispatch import Item, Verifier

_MARKER = re.compile(
    r"\\(?:boxed|fbox)|####|</?answer>|</think>|</?tool_(?:call|response)>|\[TOOL_[A-Z]{1,20}\]"
    r"|<[|｜][^<>\n]{1,40}[|｜]>|</?s>|<(?:bos|eos|pad|unk)>|<(?:start|end)_of_turn>|\[/?INST\]",  # noqa: RUF001
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A chain of one problem, in steps that give the whole text when joined."""

    problem: Problem
    steps: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """The first leak of a chain, or the reason why it may be unknown."""

    step: int | None
    """Index of the first step that gives the answer away; None if none does."""
    failure: str | None
    """Why a beginning before that step was not judged, so that an earlier one may; None if all were."""


def first_leaks(chains: Sequence[Chain], verifier: Verifier) -> list[Leak]:
    """The first step of each chain that gives its answer away."""
    stated = [_first_statement(chain) for chain in chains]
    # Beginnings in front of the stated answer, each judged once.
    open_texts = {
        (chain.problem.id, text): Item(gold=chain.problem.gold, text=text)
        for chain, end in zip(chains, stated, strict=True)
        for text in _beginnings(chain.steps[:end])
    }
    verdicts = dict(zip(open_texts, verifier.judge(list(open_texts.values())), strict=True))
    return [
        _first_right(
            [verdicts[chain.problem.id, text] for text in _beginnings(chain.steps[:end])], end
        )
        for chain, end in zip(chains, stated, strict=True)
    ]


def _first_right(verdicts: Sequence[Verdict], end: int | None) -> Leak:
    """The first right beginning, else the stated answer at ``end``."""
    step = next((number for number, verdict in enumerate(verdicts) if verdict.lenient), end)
    lost = (verdict.status.value for verdict in verdicts[:step] if verdict.lenient is None)
    return Leak(step=step, failure=next(lost, None))


def _beginnings(steps: Sequence[str]) -> Iterator[str]:
    text = ""
    for step in steps:
        text += step
        yield text


def _first_statement(chain: Chain) -> int | None:
    """Index of the first step with an answer marker or with the solution."""
    marked = (number for number, step in enumerate(chain.steps) if _MARKER.search(step))
    found = (next(marked, None), first_statement(chain.problem, chain.steps))
    return min((number for number in found if number is not None), default=None)
