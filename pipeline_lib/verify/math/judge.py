"""Judge of math answers in batches: extraction, exact comparison, caps, memo, then the pool.

Most answers never reach SymPy; the others are compared once per distinct (gold, answer). A deadline
or memory limit that is reached is a failure of the verifier, so the item is not scored.
"""

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

from pipeline_lib.killable.pool import Pool
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import MathLimits, VerifyParams
from pipeline_lib.verdicts import Status, Verdict, not_judged, timed_verdict
from pipeline_lib.verify.math.exact.comparison import AmbiguousError, compare, without_letter
from pipeline_lib.verify.math.exact.normal_form import exact_value, normalize
from pipeline_lib.verify.math.exact.quantity import is_quantity
from pipeline_lib.verify.math.extraction import MathRule, extract
from pipeline_lib.verify.math.workers import (
    UNSETTLED,
    MathWorker,
    Question,
    Reply,
    math_forker,
)

MAX_SHOWN_CHARS = 200
_NO_ANSWER = re.compile(
    r"(?:\\text\{ ?)?(?:n/?a|null|nan|tbd|unknown|see (?:above|below|solution|text)|no answer|\?+|-+"
    r"|not (?:given|available|applicable))\.? ?\}?",
    re.IGNORECASE,
)
_WORD = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{2,}(?![A-Za-z}])")
_MAX_WORDS = 3
MAX_MEMO = 100_000

MAX_CHARS = 2_000
MAX_DEPTH = 24
MAX_DIGITS = 400
MAX_TERMS = 300
MAX_ELEMENTS = 300
MAX_BITS = 40_000
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|\S")
_BINOMIAL = re.compile(r"\\[dt]?binom|\\choose")
_OPENING = "([{"
_CLOSING = ")]}"

_SCORES = {Status.CORRECT: True, Status.WRONG: False, Status.UNPARSED: False}
"""The lenient score; other statuses have none."""

_normalized = functools.lru_cache(maxsize=4096)(normalize)
"""For the paths of a group, which share their gold."""


class MathJudge:
    """Judges completions against golds; a context manager."""

    def __init__(self, limits: MathLimits, *, workers: int) -> None:
        self._forker = math_forker(limits)
        self._pool = Pool(lambda: MathWorker(self._forker, limits), num_workers=workers)
        self._memo: dict[Question, Reply] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()
        self._forker.close()

    def judge(self, pairs: Sequence[tuple[MathGold, str]]) -> list[Verdict]:
        """One verdict per (gold, completion), in order."""
        asked: list[list[Question]] = [[] for _ in pairs]
        drafts = [
            timed_verdict(functools.partial(_draft, *pair, questions))
            for pair, questions in zip(pairs, asked, strict=True)
        ]
        replies = self._replies([question for questions in asked for question in questions])
        for place, questions in enumerate(asked):
            if questions:
                reply, draft = replies[questions[0]], drafts[place]
                scored = _scored(draft.extracted, draft.rule, *reply.outcome.value)
                drafts[place] = replace(scored, seconds=draft.seconds + reply.seconds)
        return drafts

    def gold_problem(self, gold: MathGold) -> str | None:
        """The reason why a gold cannot be used, or None; for building a data set."""
        text = normalize(gold.answer)
        if reason := _states_nothing(text):
            return reason
        if is_quantity(text) or text.removeprefix("-").isdecimal():
            return None
        if reason := cap_reason(text):
            return f"the gold is {reason}"
        (reply,) = self._replies([Question(text, None)]).values()
        problem: str | None = reply.outcome.value[1]
        return problem

    def _replies(self, questions: Sequence[Question]) -> dict[Question, Reply]:
        """Replies from the memo or from the pool; only settled ones are stored in the memo."""
        distinct = dict.fromkeys(questions)
        # A single look-up per question: another thread may clear the memo.
        known = {q: reply for q in distinct if (reply := self._memo.get(q)) is not None}
        new = [question for question in distinct if question not in known]
        asked = dict(zip(new, self._pool.judge(new), strict=True)) if new else {}
        if len(self._memo) + len(asked) > MAX_MEMO:
            self._memo.clear()
        settled = {q: reply for q, reply in asked.items() if reply.outcome not in UNSETTLED}
        self._memo.update({q: reply._replace(seconds=0.0) for q, reply in settled.items()})
        return known | asked


def open_judge(params: VerifyParams, *, workers: int) -> MathJudge:
    """The judge of mathematics, with the limits of ``params``."""
    return MathJudge(params.math, workers=workers)


@contextmanager
def open_gold_check() -> Iterator[Callable[[MathGold], str | None]]:
    """Yield a `kinds.kind.GoldProblem` for math; SymPy runs in a separate process."""
    with MathJudge(MathLimits(), workers=1) as judge:
        yield judge.gold_problem


def answer_form(text: str) -> str | None:
    """The answer in a text, normalized, whichever rule finds it; None if there is none."""
    found = extract(text)
    return normalize(found.answer) if found else None


def _draft(gold: MathGold, text: str, asked: list[Question]) -> Verdict:
    """The verdict, or, if SymPy must compare, the verdict on a wrong answer; the question is appended."""
    reference = _normalized(gold.answer)
    if reason := _states_nothing(reference):
        return not_judged(Status.VERIFIER_ERROR, reason)
    found = extract(text)
    if found is None:
        return Verdict(status=Status.UNPARSED, strict=False, lenient=False)
    shown = found.answer[:MAX_SHOWN_CHARS]
    # Paths of a group often agree; long answers would fill the cache.
    answer = _normalized(shown) if shown == found.answer else normalize(found.answer)
    scored = functools.partial(_scored, shown, found.rule.value)
    if not answer:
        return scored(Status.UNPARSED, "an empty answer")
    try:
        equal = compare(reference, answer)
    except AmbiguousError as doubt:
        return scored(Status.VERIFIER_ERROR, str(doubt))
    if equal is None and (reason := cap_reason(answer)):
        # If a number is asked for, it is not a computation of such a size.
        number = exact_value(reference) is not None or reference.removeprefix("-").isdecimal()
        status = Status.WRONG if number else Status.VERIFIER_ERROR
        return scored(status, f"the answer is {reason}")
    if equal is None:
        asked.append(Question(*without_letter(reference, answer)))
    return scored(Status.CORRECT if equal else Status.WRONG)


def _scored(
    extracted: str | None, rule: str | None, status: Status, detail: str | None = None
) -> Verdict:
    lenient = _SCORES.get(status)
    return Verdict(
        status=status,
        strict=lenient and rule == MathRule.BOXED,
        lenient=lenient,
        extracted=extracted,
        rule=rule,
        detail=detail,
    )


@functools.lru_cache(maxsize=4096)
def _states_nothing(gold: str) -> str | None:
    """Why no answer can equal a gold, if its spelling shows it."""
    if not gold:
        return "the gold is empty"
    if _NO_ANSWER.fullmatch(gold):
        return "the gold states no answer"
    sentence = " " in gold and len(_WORD.findall(gold)) > _MAX_WORDS and re.search(r"\d", gold)
    if sentence and not is_quantity(gold):
        return "the gold is a sentence with a number; give the number"
    return None


def cap_reason(answer: str) -> str | None:
    r"""The reason not to pass ``answer`` to SymPy; None if it is not too long, too deep or too large.

    The value is bounded from its spelling, as if every sum were a product and every symbol 2.
    ``((9!)!)!`` and ``10^{10^{10}}`` are detected without computing them; the pool's deadlines
    catch what the bound misses.
    """
    # The first two bound the cost of the others.
    if len(answer) > MAX_CHARS:
        return f"longer than {MAX_CHARS} characters"
    steps = ((sign in _OPENING) - (sign in _CLOSING) for sign in answer)
    if max(itertools.accumulate(steps), default=0) > MAX_DEPTH:
        return f"nested more than {MAX_DEPTH} deep"
    measures = (
        (max(map(len, re.findall(r"\d+", answer)), default=0), MAX_DIGITS, "digits"),
        (len(re.findall(r"[-+]", answer)), MAX_TERMS, "terms"),
        (len(re.findall(r"[,;]|\\\\|&", answer)), MAX_ELEMENTS, "elements"),
        (1 + _bits(_TOKEN.findall(answer)[::-1]), MAX_BITS, "bits"),
    )
    found = (f"of more than {most} {unit}" for size, most, unit in measures if size > most)
    return next(found, None)


def _bits(tokens: list[str]) -> float:
    """An upper bound on the bits of all up to the closing bracket; takes the tokens from the end."""
    total = 0.0
    while tokens:
        if tokens[-1] in _CLOSING:
            tokens.pop()
            break
        total += _factor(tokens)
    return total


def _factor(tokens: list[str], signs: str = "^!") -> float:
    """Bits of one operand with the powers and factorials that follow it."""
    bits = _operand(tokens)
    while tokens and tokens[-1] in signs:
        if tokens.pop() == "^":
            # Powers associate to the right, and the factorial of a power is not in its exponent.
            bits *= _value(_factor(tokens, "^"))
        # "n!!" is the product of every second number, less than n!, which is less than n^n.
        elif tokens[-1:] != ["!"]:
            bits *= _value(bits)
    return bits


def _operand(tokens: list[str]) -> float:
    token = tokens.pop() if tokens else ""
    if token and token in _OPENING:
        return _bits(tokens)
    if token[:1].isdecimal():
        whole, point, _ = token.partition(".")
        return math.log2(max(2, int(whole) + len(point)))
    if _BINOMIAL.fullmatch(token):
        return _value(_operand(tokens))
    return 1.0 if token[-1:].isalpha() else 0.0


def _value(bits: float) -> float:
    return math.exp2(min(bits, 1000))
