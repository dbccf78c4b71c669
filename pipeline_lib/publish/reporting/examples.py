"""The example problems of the report, with the paths of both policies.

Model output is untrusted: control characters are replaced by visible ones, and the template escapes
the rest. Identical paths of a problem are shown once, with their count.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline_lib.records import FinishReason, Group, JudgedPath
from pipeline_lib.study.comparison import Comparison
from pipeline_lib.study.pages.wording import words
from pipeline_lib.train.rows.groups import pick_groups, problem_ids
from pipeline_lib.verdicts import Status

_CONTROL_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}


class Outcome(StrEnum):
    """Outcome of a path. Discarded: request or verification failed; excluded from scores."""

    CORRECT = "correct"
    WRONG = "wrong"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplePath:
    """One distinct path with its count and the reason for its outcome."""

    outcome: Outcome
    reason: str
    text: str
    answer: str | None
    tokens: int
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamplePolicy:
    """The paths of one policy for one problem."""

    name: str
    num_correct: int
    num_scored: int
    paths: tuple[ExamplePath, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One problem with the paths of both policies."""

    problem_id: str
    question: str
    gold: str
    flip: str
    """``gained``, ``lost`` or empty."""
    policies: tuple[ExamplePolicy, ...]


def pick_examples(
    comparison: Comparison,
    base_groups: Iterable[Group],
    trained_groups: Iterable[Group],
    *,
    limit: int,
) -> list[Example]:
    """Pick up to ``limit`` problems: at most half are flips, then evenly spaced others.

    Args:
        comparison: comparison of the two policies.
        base_groups: judged paths before training.
        trained_groups: judged paths after training.
        limit: most problems to show.
    """
    flips = dict.fromkeys((flip.problem_id for flip in comparison.gained), "gained")
    flips |= dict.fromkeys((flip.problem_id for flip in comparison.lost), "lost")
    names = sorted(problem_ids(base_groups) & problem_ids(trained_groups))
    chosen = _choose(comparison, names, limit)
    base, trained = (pick_groups(groups, set(chosen)) for groups in (base_groups, trained_groups))
    return [
        _example({"base": base[name], "trained": trained[name]}, flips.get(name, ""))
        for name in chosen
    ]


def _choose(comparison: Comparison, names: Sequence[str], limit: int) -> list[str]:
    alternating = itertools.zip_longest(comparison.lost, comparison.gained)
    flips = [flip.problem_id for pair in alternating for flip in pair if flip is not None]
    known, flipped = set(names), set(flips)
    first = [name for name in flips if name in known][: limit // 2]
    rest = [name for name in names if name not in flipped]
    room = min(limit - len(first), len(rest))
    return [*first, *(rest[index * len(rest) // room] for index in range(room))]


def _example(groups: Mapping[str, Group], flip: str) -> Example:
    problem = groups["base"].problem
    return Example(
        problem_id=problem.id,
        question=_visible(problem.question),
        gold=_visible(problem.kind.show_gold(problem.gold)),
        flip=flip,
        policies=tuple(_policy(name, group) for name, group in groups.items()),
    )


def _policy(name: str, group: Group) -> ExamplePolicy:
    distinct: dict[tuple[Outcome, str, str], list[JudgedPath]] = {}
    for member in group.members:
        key = (_outcome(member), verdict_reason(member), member.path.text)
        distinct.setdefault(key, []).append(member)
    order = list(Outcome)
    return ExamplePolicy(
        name=name,
        num_correct=group.num_correct(strict=True),
        num_scored=len(group.scored()),
        paths=tuple(
            _path(outcome, reason, members)
            for (outcome, reason, _), members in sorted(
                distinct.items(), key=lambda item: (order.index(item[0][0]), -len(item[1]))
            )
        ),
    )


def _path(outcome: Outcome, reason: str, members: Sequence[JudgedPath]) -> ExamplePath:
    first = members[0]
    extracted = first.verdict.extracted
    return ExamplePath(
        outcome=outcome,
        reason=_visible(reason),
        text=_visible(first.path.text),
        answer=_visible(extracted) if extracted is not None else None,
        tokens=first.path.completion_tokens,
        times=len(members),
    )


def _outcome(member: JudgedPath) -> Outcome:
    if member.verdict.lenient is None:
        return Outcome.DISCARDED
    return Outcome.CORRECT if member.verdict.strict else Outcome.WRONG


def verdict_reason(member: JudgedPath) -> str:
    """The reason for a path's outcome beyond correct or wrong; else empty."""
    verdict = member.verdict
    parts = []
    if verdict.lenient and not verdict.strict:
        parts.append("right answer, but not in the requested format")
    elif verdict.status not in {Status.CORRECT, Status.WRONG}:
        parts.append(words(verdict.status.value))
    if member.path.finish_reason is FinishReason.LENGTH:
        parts.append("cut off at the token limit")
    parts += [detail for detail in (verdict.detail, member.path.error) if detail]
    return "; ".join(parts)


def _visible(text: str) -> str:
    return text.translate(_CONTROL_PICTURES)
