r"""Prefixes of a chain: a share of its steps, cut before the answer is given away.

A step is a line, or what another separator ends. Blank lines belong to the step before them, and so do, in
shares, steps without a number or word that is new to the chain: neither repeats nor full stops move a cut. Text
with new words does. The steps that a share is taken of end with the first one that gives the answer away: what
follows it does not lengthen a prefix, and no prefix reaches it.

A text gives the answer away if the verifier takes it, or an answer in it, for the solution, which the question has
not: at the lenient verdict on the chain so far, and on each number, formula or expression of the step. An answer marker
(a box, ``####``, an answer tag) counts whatever it holds, and so does a control token of a chat template, which the
tokenizer of a peer would read as the end of the turn, and the end of a thought, before which the verdict does not read.
The first such step is found from the beginnings of the chain: text that follows an answer cannot hide it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.kinds.own import OwnGold
from pipeline_lib.records import Problem
from pipeline_lib.seeding import child_random
from pipeline_lib.verify.answer_text import fenced_blocks, plain
from pipeline_lib.verify.countdown import (
    find_expressions,
    find_steps,
    has_operator,
    strip_latex,
)
from pipeline_lib.verify.dispatch import Verifier, judge_texts
from pipeline_lib.verify.math.exact.normal_form import leading_number, normalize


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The beginning of a chain that a peer continues."""

    text: str
    kept: int
    """Counted steps in ``text``."""
    leaked: bool
    """The same share of all steps would have given the answer away."""


def split_steps(chain: str, separator: str) -> list[str]:
    """The steps of ``chain``, each with the separators behind it; joined they are the chain, unless it is blank."""
    pieces = chain.split(separator)
    steps: list[str] = []
    opening = ""
    for number, piece in enumerate(pieces, 1):
        text = piece + separator * (number < len(pieces))
        if piece.strip():
            steps.append(opening + text)
            opening = ""
        elif steps:
            steps[-1] += text
        else:
            opening += text
    return steps


def draw_shares(
    shares: Sequence[float], seed: int, *, count: int, step: int, problem_id: str
) -> list[float]:
    """``count`` of ``shares``, the same for all paths of a problem at a training step.

    Shares that differed within a group would be noise in its advantages.
    """
    return child_random(seed, "classmate", "keep", step, problem_id).sample(shares, count)


def cut_chain(steps: Sequence[str], *, share: float, first_leak: int | None) -> Prefix:
    """The first ``floor(share x n)`` counted steps of a chain, with what is not counted between and behind them.

    A step counts if it has a new number or word; n ends with the step that gives the answer away, which counts and is
    never kept.

    ``share`` is in (0, 1], ``first_leak`` the index of the step that gives the answer away; None if none does.
    """
    counted = [
        place for place, is_new in enumerate(_are_new(steps)) if is_new or place == first_leak
    ]
    ends = [place for place in counted if first_leak is None or place <= first_leak]
    kept = min(_count(share, len(ends)), len(ends) - (first_leak is not None))
    leaked = first_leak is not None and _count(share, len(counted)) >= len(ends)
    # What is not counted in front of the first counted step is in no empty prefix.
    text = "".join(steps[: [*ends, len(steps)][kept]]) if kept else ""
    return Prefix(text=text, kept=kept, leaked=leaked)


_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")


def _are_new(steps: Sequence[str]) -> Iterator[bool]:
    """True for each step with a number or word that is in no earlier step."""
    seen: set[str] = set()
    for step in steps:
        tokens = set(_TOKEN.findall(step.lower()))
        yield not tokens <= seen
        seen |= tokens


def _count(share: float, steps: int) -> int:
    # As written: 0.29 x 100 is 28.999999999999996 in floating point.
    return int(Fraction(str(share)) * steps)


_MARKER = re.compile(
    r"\\(?:boxed|fbox)|####|</?answer>|</think>|</?tool_(?:call|response)>|\[TOOL_[A-Z]{1,20}\]"
    r"|<[|｜][^<>\n]{1,40}[|｜]>|</?s>|<(?:bos|eos|pad|unk)>|<(?:start|end)_of_turn>|\[/?INST\]",  # noqa: RUF001
    re.IGNORECASE,
)
# A comma only between thousands: "9,10" are two numbers.
_NUMBER = re.compile(
    r"(?:(?<![\d.])(?:[1-9]\d{0,2}(?:,\d{3})+(?!,?\d)|\d{1,60})(?:\.\d{1,60})?|(?<!\d)\.\d{1,60})"
    r"(?: ?(?:\\?%|(?:per ?cent|thousand|million|billion)\b))?"
)
# Signs, numbers, single letters, letters behind a number and names of functions; words of a sentence end it.
_FORMULA = re.compile(
    r"(?:[-+*/^_=<>≤≥≠±∞∪∩|(){}\[\],;:.!%\s\d]|(?<=\d)[A-Za-z]{1,3}(?![A-Za-z])"  # noqa: RUF001 - sets
    r"|\\[A-Za-z]+|(?<![A-Za-z\\])(?:sqrt|pi|infinity|inf|sin|cos|tan|log|ln|and|or|[A-Za-z])(?![A-Za-z]))++"
)
_MONEY = re.compile(r"^\\?\$ ?")
_CONNECTIVE_ENDS = re.compile(r"^(?:[\s.,;:=]|(?:and|or)\b)+|(?:[\s.,;:=]|\b(?:and|or))+$")
_SYMBOLS = str.maketrans({"√": "\\sqrt ", "π": "\\pi "})
_TEXT_COMMAND = re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf|textit)\{([^{}]*)\}")
_LONGEST_FORMULA = 200
_MOST_STEPS = 12
"""Earlier steps of Countdown that a solution is looked for in."""


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
    problems = {chain.problem.id: chain.problem for chain in chains}
    asked = {name: [*_candidates(one, one.question, [])] for name, one in problems.items()}
    texts = [[*_texts(chain)] for chain in chains]
    verdicts = judge_texts(
        [
            *((one, one.question) for one in problems.values()),
            *((problems[name], text) for name, own in asked.items() for text in own),
            *(
                (chain.problem, own[1])
                for chain, found in zip(chains, texts, strict=True)
                for own in found
            ),
        ],
        verifier,
    )
    lenient = {key: verdict.lenient for key, verdict in verdicts.items()}
    # A question may be right itself, as is one to simplify an expression, or have the answer in it.
    right = {name for name, one in problems.items() if lenient[name, one.question]}
    stated = {name for name, own in asked.items() if any(lenient[name, text] for text in own)}

    def first(chain: Chain, own: Sequence[tuple[int, str, bool]]) -> int | None:
        for place, text, is_beginning in own:
            verdict = lenient[chain.problem.id, text]
            gives = verdict or (is_beginning and verdict is None)
            if gives and chain.problem.id not in (right if is_beginning else stated):
                return place
        return _marked(chain)

    return [first(chain, own) for chain, own in zip(chains, texts, strict=True)]


def _marked(chain: Chain) -> int | None:
    """The first step with a marker, or with the answer of a task of the user's, which may be judged in no other form."""
    problem = chain.problem
    answer = problem.kind.show_gold(problem.gold) if isinstance(problem.gold, OwnGold) else ""
    is_new = bool(answer) and not _stands_in(answer, problem.question)
    for place, step in enumerate(chain.steps):
        if _MARKER.search(step) or (is_new and _stands_in(answer, step)):
            return place
    return None


def _texts(chain: Chain) -> Iterator[tuple[int, str, bool]]:
    """Texts in front of the marker, with the place of the step; True of the chain up to its end."""
    before = ""
    known: list[str] = []
    for place, step in enumerate(chain.steps[: _marked(chain)]):
        for text in _candidates(chain.problem, step, known):
            yield place, text, False
        before += step
        yield place, before, True


def _candidates(problem: Problem, step: str, known: list[str]) -> Iterator[str]:
    """Answers in a step for the verifier; ``known`` are the steps of Countdown so far, and gets the ones of this step."""
    if isinstance(problem.gold, CountdownGold):
        text = strip_latex(plain(step))
        yield from _solutions(problem.gold, [*find_steps(text)], known)
        for line in text.split("\n"):
            found = find_expressions(" ".join(line.split()), most_chars=None)
            yield from (f"<answer>{one}</answer>" for one in found if has_operator(one))
    elif isinstance(problem.gold, MathGold):
        for one in dict.fromkeys(_answers(problem.gold.answer, step)):
            yield f"\\boxed{{{one}}}"
    elif isinstance(problem.gold, OwnGold):
        yield step
    else:
        yield from (f"```\n{block.content}\n```" for block in fenced_blocks(step))


def _solutions(gold: CountdownGold, steps: Sequence[str], known: list[str]) -> Iterator[str]:
    """Sequences of steps with a new one that end in the target; one that is stated once may be used twice."""
    new = {one for one in steps if one not in known}
    known += dict.fromkeys(one for one in steps if one in new)
    last = [one for one in known if one.endswith(f"={gold.target}")]
    for order in product(known[-_MOST_STEPS:] if last else (), repeat=len(gold.numbers) - 2):
        for final in last:
            if not new.isdisjoint((*order, final)):
                yield "\n".join((*order, final))


def _answers(gold: str, step: str) -> Iterator[str]:
    """Parts of a step that may state the gold answer: numbers, formulas with its numbers, and its own words."""
    text = _TEXT_COMMAND.sub(r"\1", plain(step)).translate(_SYMBOLS)
    if leading_number(_MONEY.sub("", normalize(gold))) is not None:
        yield from _NUMBER.findall(text)
    words = _TEXT_COMMAND.sub(r"\1", gold).strip()
    if _stands_in(words, text):
        yield gold
    wanted = {*_NUMBER.findall(gold)}
    for run in _FORMULA.findall(text):
        for part in (run, run.rpartition("=")[2]) if len(run) <= _LONGEST_FORMULA else ():
            span = _CONNECTIVE_ENDS.sub("", part.strip())
            if wanted and {*_NUMBER.findall(span)} == wanted:
                yield f"\\{span[:-1]}\\}}" if span[:1] == "{" and span[-1:] == "}" else span


def _stands_in(words: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text, re.IGNORECASE) is not None
