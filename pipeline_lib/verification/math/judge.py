"""Judge of math answers in batches: extraction, exact comparison, caps, memo, then the pool.

Most answers never reach SymPy; the others are compared once per distinct (gold, answer). A deadline
or memory limit that is reached is a failure of the verifier, so the item is not scored.
"""

import functools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import MathLimits, VerifyParams
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verification.failures import not_judged, verifier_error
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
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A final verdict, or one that awaits the outcome of ``question``."""

    verdict: Verdict
    question: Question | None = None


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
        drafts = [_timed_draft(gold, text) for gold, text in pairs]
        replies = self._replies([draft.question for draft in drafts if draft.question])
        return [
            _settle(draft.verdict, replies[draft.question]) if draft.question else draft.verdict
            for draft in drafts
        ]

    def gold_problems(self, golds: Sequence[MathGold]) -> list[str | None]:
        """The reason why each gold cannot be used, or None; for building a data set."""
        written = [normalize(gold.answer) for gold in golds]
        reasons = [_gold_reason(text) for text in written]
        hard = {
            text: Question(gold=text, answer=None)
            for text, reason in zip(written, reasons, strict=True)
            if reason is None and not is_quantity(text) and not text.removeprefix("-").isdecimal()
        }
        replies = self._replies(list(hard.values()))
        return [
            reason or (_failure_detail(replies[hard[text]]) if text in hard else None)
            for text, reason in zip(written, reasons, strict=True)
        ]

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
        yield lambda gold: judge.gold_problems([gold])[0]


def answer_form(text: str) -> str | None:
    """The answer in a text, normalized, whichever rule finds it; None if there is none."""
    found = extract(text)
    return normalize(found.answer) if found else None


def _timed_draft(gold: MathGold, text: str) -> _Draft:
    start = time.perf_counter()
    try:
        draft = _draft(gold, text)
    except Exception as error:  # noqa: BLE001 - one item must not fail its batch
        draft = _Draft(verdict=verifier_error(error))
    seconds = time.perf_counter() - start
    return _Draft(verdict=replace(draft.verdict, seconds=seconds), question=draft.question)


@functools.lru_cache(maxsize=4096)
def _reference(gold: str) -> tuple[str, str | None]:
    """A gold in normal form, and why nothing can equal it; cached for the paths of a group."""
    text = normalize(gold)
    return text, _states_nothing(text)


def _draft(gold: MathGold, text: str) -> _Draft:
    reference, reason = _reference(gold.answer)
    if reason:
        return _Draft(verdict=not_judged(Status.VERIFIER_ERROR, reason))
    found = extract(text)
    if found is None:
        return _Draft(verdict=Verdict(status=Status.UNPARSED, strict=False, lenient=False))
    shown = found.answer[:MAX_SHOWN_CHARS]
    # Paths of a group often agree; long answers would fill the cache.
    answer = _reference(shown)[0] if shown == found.answer else normalize(found.answer)
    base = Verdict(
        status=Status.WRONG, strict=False, lenient=False, extracted=shown, rule=found.rule.value
    )
    if not answer:
        return _Draft(verdict=replace(base, status=Status.UNPARSED, detail="an empty answer"))
    return _compare(reference, answer, base)


def _compare(reference: str, answer: str, base: Verdict) -> _Draft:
    """The verdict on two normalized answers, or the question for SymPy."""
    try:
        equal = compare(reference, answer)
    except AmbiguousError as doubt:
        failure = not_judged(Status.VERIFIER_ERROR, str(doubt))
        return _Draft(verdict=replace(failure, extracted=base.extracted, rule=base.rule))
    if equal is not None:
        return _Draft(verdict=_score(base, equal=equal))
    if reason := cap_reason(answer):
        if exact_value(reference) is not None or reference.removeprefix("-").isdecimal():
            # A number is asked for, and not a computation of such a size.
            return _Draft(verdict=replace(base, detail=f"the answer is {reason}"))
        failure = not_judged(Status.VERIFIER_ERROR, f"the answer is {reason}")
        return _Draft(verdict=replace(failure, extracted=base.extracted, rule=base.rule))
    gold, answer = without_letter(reference, answer)
    return _Draft(verdict=base, question=Question(gold=gold, answer=answer))


def _score(base: Verdict, *, equal: bool) -> Verdict:
    """``base``, which is wrong, or right if the answers are equal."""
    if not equal:
        return base
    strict = base.rule in STRICT_RULES
    return replace(base, status=Status.CORRECT, strict=strict, lenient=True)


def _settle(base: Verdict, reply: Reply) -> Verdict:
    seconds = base.seconds + reply.seconds
    if reply.outcome in _FAILURES:
        status, detail = _FAILURES[reply.outcome]
        failure = not_judged(status, detail)
        return replace(failure, extracted=base.extracted, rule=base.rule, seconds=seconds)
    if reply.outcome is Outcome.UNPARSED:
        detail = "the answer cannot be parsed"
        return replace(base, status=Status.UNPARSED, detail=detail, seconds=seconds)
    return replace(_score(base, equal=reply.outcome is Outcome.EQUAL), seconds=seconds)


def _gold_reason(gold: str) -> str | None:
    if reason := _states_nothing(gold):
        return reason
    number = is_quantity(gold) or gold.removeprefix("-").isdecimal()
    reason = None if number else cap_reason(gold)
    return reason and f"the gold is {reason}"


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


def _failure_detail(reply: Reply) -> str | None:
    if reply.outcome is Outcome.EQUAL:
        return None
    return _FAILURES[reply.outcome][1]
