"""The example problems of the report, with the paths of both policies.

Model output is untrusted: control characters are replaced by visible ones, and the template escapes
the rest. Identical paths of a problem are shown once, with their count.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from pipeline_lib.records import FinishReason, Group, JudgedPath
from pipeline_lib.study.pages.page import Example, ShownText, ShownTexts
from pipeline_lib.study.pages.wording import words
from pipeline_lib.study.policies import Flips
from pipeline_lib.train.rows.groups import pick_groups, problem_ids
from pipeline_lib.verdicts import Status

_CONTROL_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}


_OUTCOMES = ("correct", "wrong", "discarded")
"""Of a path. Discarded: request or verification failed; excluded from scores."""


def pick_examples(
    flips: Flips, base_groups: Iterable[Group], policy_groups: Iterable[Group], *, limit: int
) -> list[Example]:
    """Pick up to ``limit`` problems: at most half are flips, then evenly spaced others.

    Args:
        flips: from the base to the policy.
        base_groups: judged paths before training.
        policy_groups: judged paths after training.
        limit: most problems to show.
    """
    changed = dict.fromkeys((name for name, _, _ in flips.gained), "gained")
    changed |= dict.fromkeys((name for name, _, _ in flips.lost), "lost")
    names = sorted(problem_ids(base_groups) & problem_ids(policy_groups))
    chosen = _choose(flips, names, limit)
    base, policy = (pick_groups(groups, set(chosen)) for groups in (base_groups, policy_groups))
    return [
        _example({"base": base[name], "policy": policy[name]}, tag=changed.get(name, ""))
        for name in chosen
    ]


def first_examples(name: str, groups: Iterable[Group], *, limit: int) -> list[Example]:
    """The first ``limit`` problems with the judged paths of the policy ``name``."""
    return [_example({name: group}) for group in itertools.islice(groups, limit)]


def _choose(flips: Flips, names: Sequence[str], limit: int) -> list[str]:
    alternating = itertools.zip_longest(flips.lost, flips.gained)
    changed = [flip[0] for pair in alternating for flip in pair if flip is not None]
    known, flipped = set(names), set(changed)
    first = [name for name in changed if name in known][: limit // 2]
    rest = [name for name in names if name not in flipped]
    room = min(limit - len(first), len(rest))
    return [*first, *(rest[index * len(rest) // room] for index in range(room))]


def _example(policies: Mapping[str, Group], *, tag: str = "") -> Example:
    problem = next(iter(policies.values())).problem
    return Example(
        id=problem.id,
        tag=tag,
        question=visible(problem.question),
        gold=visible(problem.kind.show_gold(problem.gold)),
        groups=[_policy(name, group) for name, group in policies.items()],
    )


def _policy(name: str, group: Group) -> ShownTexts:
    distinct: dict[tuple[str, str, str], list[JudgedPath]] = {}
    for member in group.members:
        key = (_outcome(member), verdict_reason(member), member.path.text)
        distinct.setdefault(key, []).append(member)
    return ShownTexts(
        title=f"{name}: {group.num_correct(strict=True)} of {len(group.scored())} right",
        texts=[
            _text(outcome, reason, members)
            for (outcome, reason, _), members in sorted(
                distinct.items(), key=lambda item: (_OUTCOMES.index(item[0][0]), -len(item[1]))
            )
        ],
    )


def _text(outcome: str, reason: str, members: Sequence[JudgedPath]) -> ShownText:
    first = members[0]
    extracted = first.verdict.extracted
    facts = (
        f"\N{MULTIPLICATION SIGN}{len(members)}" if len(members) > 1 else "",
        f"{first.path.completion_tokens} tokens",
        f"answer {visible(extracted)}" if extracted is not None else "",
        visible(reason),
    )
    return ShownText(
        text=visible(first.path.text), outcome=outcome, about=tuple(filter(None, facts))
    )


def _outcome(member: JudgedPath) -> str:
    if member.verdict.lenient is None:
        return "discarded"
    return "correct" if member.verdict.strict else "wrong"


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


def visible(text: str) -> str:
    """The text with visible pictures in place of control characters."""
    return text.translate(_CONTROL_PICTURES)
