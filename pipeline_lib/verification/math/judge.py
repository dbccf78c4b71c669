"""Judge of math answers in batches: extraction, exact comparison, caps, memo, then the pool.

Most answers never reach SymPy; the others are compared once per distinct (gold, answer). A deadline
or memory limit that is reached is a failure of the verifier, so the item is not scored.
"""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import MathLimits, VerifyParams
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verification.failures import not_judged, timed_verdict
from pipeline_lib.verification.math.caps import cap_reason
from pipeline_lib.verification.math.exact.choices import without_letter
from pipeline_lib.verification.math.exact.comparison import AmbiguousError, compare
from pipeline_lib.verification.math.exact.normal_form import exact_value, normalize
from pipeline_lib.verification.math.exact.quantity import is_quantity
from pipeline_lib.verification.math.extraction import MathRule, extract
from pipeline_lib.verification.math.workers.pool import MathPool, Question, Reply
from pipeline_lib.verification.math.workers.worker_process import Outcome

STRICT_RULES = frozenset({MathRule.BOXED})
MAX_SHOWN_CHARS = 200
_NO_ANSWER = re.compile(
    r"(?:\\text\{ ?)?(?:n/?a|null|nan|tbd|unknown|see (?:above|below|solution|text)|no answer|\?+|-+"
    r"|not (?:given|available|applicable))\.? ?\}?",
    re.IGNORECASE,
)
_WORD = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{2,}(?![A-Za-z}])")
_MAX_WORDS = 3
MAX_MEMO = 100_000

_SETTLED = frozenset(Outcome) - {Outcome.TIMEOUT, Outcome.MEMORY, Outcome.CRASHED}
_FAILURES = {
    Outcome.TIMEOUT: (Status.TIMEOUT, "the comparison took too long"),
    Outcome.MEMORY: (Status.MEMORY, "the comparison took too much memory"),
    Outcome.CRASHED: (Status.VERIFIER_ERROR, "the comparing process died twice"),
    Outcome.AMBIGUOUS: (Status.VERIFIER_ERROR, "two readings, or no proof of equality"),
    Outcome.GOLD_UNPARSED: (Status.VERIFIER_ERROR, "the gold cannot be parsed"),
    Outcome.UNPARSED: (Status.UNPARSED, "the answer cannot be parsed"),
}


class MathJudge:
    """Judges completions against golds; a context manager."""

    def __init__(self, limits: MathLimits, *, workers: int) -> None:
        self._pool = MathPool(limits, num_workers=workers)
        self._memo: dict[Question, Reply] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def judge(self, pairs: Sequence[tuple[MathGold, str]]) -> list[Verdict]:
        """One verdict per (gold, completion), in order."""
        asked: list[list[Question]] = [[] for _ in pairs]
        drafts = [
            timed_verdict(functools.partial(_draft, *pair, questions))
            for pair, questions in zip(pairs, asked, strict=True)
        ]
        replies = self._replies([question for questions in asked for question in questions])
        return [
            _settle(draft, replies[questions[0]]) if questions else draft
            for draft, questions in zip(drafts, asked, strict=True)
        ]

    def gold_problem(self, gold: MathGold) -> str | None:
        """The reason why a gold cannot be used, or None; for building a data set."""
        text = normalize(gold.answer)
        if reason := _states_nothing(text):
            return reason
        if is_quantity(text) or text.removeprefix("-").isdecimal():
            return None
        if reason := cap_reason(text):
            return f"the gold is {reason}"
        question = Question(gold=text, answer=None)
        outcome = self._replies([question])[question].outcome
        return None if outcome is Outcome.EQUAL else _FAILURES[outcome][1]

    def _replies(self, questions: Sequence[Question]) -> dict[Question, Reply]:
        """Replies from the memo or from the pool; only settled ones are stored in the memo."""
        distinct = dict.fromkeys(questions)
        # A single look-up per question: another thread may clear the memo.
        known = {q: reply for q in distinct if (reply := self._memo.get(q)) is not None}
        new = [question for question in distinct if question not in known]
        asked = dict(zip(new, self._pool.ask(new), strict=True)) if new else {}
        if len(self._memo) + len(asked) > MAX_MEMO:
            self._memo.clear()
        self._memo.update(
            (question, replace(reply, seconds=0.0))
            for question, reply in asked.items()
            if reply.outcome in _SETTLED
        )
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


@functools.lru_cache(maxsize=4096)
def _reference(gold: str) -> tuple[str, str | None]:
    """A gold in normal form, and why nothing can equal it; cached for the paths of a group."""
    text = normalize(gold)
    return text, _states_nothing(text)


def _draft(gold: MathGold, text: str, asked: list[Question]) -> Verdict:
    """The verdict, or, if SymPy must compare, that of a wrong answer; the question is appended."""
    reference, reason = _reference(gold.answer)
    if reason:
        return not_judged(Status.VERIFIER_ERROR, reason)
    found = extract(text)
    if found is None:
        return Verdict(status=Status.UNPARSED, strict=False, lenient=False)
    shown = found.answer[:MAX_SHOWN_CHARS]
    # Paths of a group often agree; long answers would fill the cache.
    answer = _reference(shown)[0] if shown == found.answer else normalize(found.answer)
    base = Verdict(
        status=Status.WRONG, strict=False, lenient=False, extracted=shown, rule=found.rule.value
    )
    if not answer:
        return replace(base, status=Status.UNPARSED, detail="an empty answer")
    return _compare(reference, answer, base, asked)


def _compare(reference: str, answer: str, base: Verdict, asked: list[Question]) -> Verdict:
    try:
        equal = compare(reference, answer)
    except AmbiguousError as doubt:
        return _undecided(base, Status.VERIFIER_ERROR, str(doubt))
    if equal is not None:
        return _score(base, equal=equal)
    if reason := cap_reason(answer):
        detail = f"the answer is {reason}"
        if exact_value(reference) is not None or reference.removeprefix("-").isdecimal():
            # A number is asked for, and not a computation of such a size.
            return replace(base, detail=detail)
        return _undecided(base, Status.VERIFIER_ERROR, detail)
    reference, answer = without_letter(reference, answer)
    asked.append(Question(gold=reference, answer=answer))
    return base


def _undecided(base: Verdict, status: Status, detail: str) -> Verdict:
    return replace(base, status=status, strict=None, lenient=None, detail=detail)


def _score(base: Verdict, *, equal: bool) -> Verdict:
    """``base``, which is wrong, or right if the answers are equal."""
    if not equal:
        return base
    strict = base.rule in STRICT_RULES
    return replace(base, status=Status.CORRECT, strict=strict, lenient=True)


def _settle(base: Verdict, reply: Reply) -> Verdict:
    base = replace(base, seconds=base.seconds + reply.seconds)
    if reply.outcome not in _FAILURES:
        return _score(base, equal=reply.outcome is Outcome.EQUAL)
    status, detail = _FAILURES[reply.outcome]
    if status is Status.UNPARSED:
        return replace(base, status=status, detail=detail)
    return _undecided(base, status, detail)


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
