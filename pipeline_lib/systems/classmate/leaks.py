r"""The step of a chain after which its answer is given away, so that a peer could copy it.

A text gives the answer away if it has an answer marker (a box, ``####``, an answer tag), if its lenient
verdict is right and that of the question is not, or if it states the solution (`statements`), which for formulas the verifier decides. A control token of a chat template counts as a
marker: the tokenizer of a peer would read it as the end of the turn. So does the end of a thought, since the
verdict does not read what stands before it. The first such step is found from the
beginnings of the chain: text that follows an answer cannot hide it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate.statements import candidates, first_statement
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import Item, Verifier

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
    id: str = ""
    """Of a given chain."""


def first_leaks(chains: Sequence[Chain], verifier: Verifier) -> list[int | None]:
    """Index of the first step of each chain that gives its answer away, or may; None without any.

    It may if the verifier could not judge the beginning that ends with it: a cut before it is safe.
    """
    stated = [_first_statement(chain) for chain in chains]
    open_problems = _open_problems(chains, verifier)
    # What is in front of the stated answer; each text is judged once.
    texts = [
        [*_judged_texts(chain, chain.steps[:end], whole=chain.problem.id in open_problems)]
        for chain, end in zip(chains, stated, strict=True)
    ]
    items = {
        (chain.problem.id, one.text): Item(gold=chain.problem.gold, text=one.text)
        for chain, own in zip(chains, texts, strict=True)
        for one in own
    }
    verdicts = dict(zip(items, verifier.judge(list(items.values())), strict=True))
    return [
        next((one.step for one in own if one.leaks(verdicts[chain.problem.id, one.text])), end)
        for chain, own, end in zip(chains, texts, stated, strict=True)
    ]


def _open_problems(chains: Sequence[Chain], verifier: Verifier) -> set[str]:
    """Ids of the problems whose question is not right itself, as is one to simplify an expression."""
    problems = {chain.problem.id: chain.problem for chain in chains}
    items = [Item(gold=one.gold, text=one.question) for one in problems.values()]
    verdicts = zip(problems, verifier.judge(items), strict=True)
    return {name for name, verdict in verdicts if not verdict.lenient}


@dataclass(frozen=True, slots=True)
class _Text:
    """A text for the verifier: the chain up to and with a step, or a candidate answer in that step."""

    step: int
    text: str
    is_beginning: bool

    def leaks(self, verdict: Verdict) -> bool:
        """True if the text is right; a beginning that was not judged may be."""
        return bool(verdict.lenient) or (self.is_beginning and verdict.lenient is None)


def _judged_texts(chain: Chain, steps: Sequence[str], *, whole: bool) -> Iterator[_Text]:
    """The texts of the ``steps``, in order; beginnings only if ``whole``."""
    for number, (step, beginning) in enumerate(zip(steps, accumulate(steps), strict=True)):
        if whole:
            yield _Text(number, beginning, is_beginning=True)
        for answer in candidates(chain.problem, step):
            yield _Text(number, f"\\boxed{{{answer}}}", is_beginning=False)


def _first_statement(chain: Chain) -> int | None:
    """Index of the first step with an answer marker or with the solution."""
    marked = (number for number, step in enumerate(chain.steps) if _MARKER.search(step))
    found = (next(marked, None), first_statement(chain.problem, chain.steps))
    return min((number for number in found if number is not None), default=None)
