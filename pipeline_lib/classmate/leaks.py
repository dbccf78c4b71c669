r"""The step of a chain after which its answer is given away, so that a peer could copy it.

A text gives the answer away if it has an answer marker (a box, ``####``, an answer tag), if its lenient
verdict is right, or if it states the solution (`statements`), which for formulas the verifier decides. A control token of a chat template counts as a
marker: the tokenizer of a peer would read it as the end of the turn. So does the end of a thought, since the
verdict does not read what stands before it. The first such step is found from the
beginnings of the chain: text that follows an answer cannot hide it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pipeline_lib.classmate.statements import candidates, first_statement
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


def first_leaks(chains: Sequence[Chain], verifier: Verifier) -> list[int | None]:
    """Index of the first step of each chain that gives its answer away, or may; None without any.

    It may if the verifier could not judge the beginning that ends with it: a cut before it is safe.
    """
    stated = [_first_statement(chain) for chain in chains]
    # What is in front of the stated answer; each text is judged once.
    pieces = [
        [*_judged_texts(chain, chain.steps[:end])]
        for chain, end in zip(chains, stated, strict=True)
    ]
    items = {
        (chain.problem.id, text): Item(gold=chain.problem.gold, text=text)
        for chain, own in zip(chains, pieces, strict=True)
        for texts in own
        for text in texts
    }
    verdicts = dict(zip(items, verifier.judge(list(items.values())), strict=True))
    return [
        _first_leak([[verdicts[chain.problem.id, text] for text in texts] for texts in own], end)
        for chain, own, end in zip(chains, pieces, stated, strict=True)
    ]


def _judged_texts(chain: Chain, steps: Sequence[str]) -> Iterator[list[str]]:
    """For each of the ``steps`` the beginning that ends with it, and the answers that it may state."""
    for step, beginning in zip(steps, accumulate(steps), strict=True):
        yield [beginning, *(f"\\boxed{{{one}}}" for one in candidates(chain.problem, step))]


def _first_leak(verdicts: Sequence[Sequence[Verdict]], end: int | None) -> int | None:
    """The first step with a right text or an unjudged beginning, else the stated answer at ``end``."""
    leaking = (
        number
        for number, (beginning, *answers) in enumerate(verdicts)
        if beginning.lenient is not False or any(one.lenient for one in answers)
    )
    return next(leaking, end)


def _first_statement(chain: Chain) -> int | None:
    """Index of the first step with an answer marker or with the solution."""
    marked = (number for number, step in enumerate(chain.steps) if _MARKER.search(step))
    found = (next(marked, None), first_statement(chain.problem, chain.steps))
    return min((number for number in found if number is not None), default=None)
