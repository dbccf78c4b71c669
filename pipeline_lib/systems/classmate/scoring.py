"""Judging what peers wrote: prefix and continuation are one text, judged strictly as the actor's are."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from pipeline_lib.systems.classmate.panel import Answers
from pipeline_lib.systems.classmate.peer import NO_ROOM, Question
from pipeline_lib.verify.dispatch import Item, Verifier

HELD_OUT, TRAINING = "held-out peer", "training peer"
"""Measures: success of a peer that no training asked, and of one that the training asked."""
_SHOWN_REASONS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """One judged continuation of a prefix."""

    text: str
    """Without the prefix."""
    right: bool | None
    """The strict verdict on prefix and continuation; None if it was not drawn or not judged."""
    failure: str | None = None
    """Why there is no verdict."""


Continuations = Sequence[Sequence[Continuation]]
"""Of each question, in the order of its seeds."""


def judge_answers(
    questions: Mapping[str, Sequence[Question]],
    answers: Mapping[str, Answers],
    verifier: Verifier,
) -> dict[str, Continuations]:
    """The answers of each peer with their verdicts; all are judged in one batch."""
    drawn = [
        Item(gold=question.problem.gold, text=question.prefix + completion.text)
        for name, groups in answers.items()
        for question, group in zip(questions[name], groups, strict=True)
        for completion in group
        if completion.error is None
    ]
    verdicts = iter(verifier.judge(drawn))

    def judged(text: str, error: str | None) -> Continuation:
        if error is not None:
            return Continuation(text=text, right=None, failure=error)
        verdict = next(verdicts)
        reason = verdict.detail or verdict.status.value
        failure = f"not judged: {reason}" if verdict.strict is None else None
        return Continuation(text=text, right=verdict.strict, failure=failure)

    return {
        name: [[judged(one.text, one.error) for one in group] for group in groups]
        for name, groups in answers.items()
    }


def success(continuations: Iterable[Continuation]) -> float | None:
    """Share of right ones among those with a verdict; None without any."""
    known = [float(one.right) for one in continuations if one.right is not None]
    return fmean(known) if known else None


def lacks_room(continuations: Iterable[Continuation]) -> bool:
    """True if the prefix leaves the peer no room."""
    return any((one.failure or "").startswith(NO_ROOM) for one in continuations)


def most_common_reasons(reasons: Counter[str]) -> str:
    """The most common reasons with their numbers, as in ``timeout (3), no answer (1)``."""
    shown = [f"{reason} ({number})" for reason, number in reasons.most_common(_SHOWN_REASONS)]
    more = f", and {len(reasons) - len(shown)} other reasons" if len(reasons) > len(shown) else ""
    return ", ".join(shown) + more


def count_failures(continuations: Continuations) -> dict[str, int]:
    """Number of continuations without a verdict, by reason."""
    every = chain.from_iterable(continuations)
    return dict(Counter(one.failure for one in every if one.failure is not None))
