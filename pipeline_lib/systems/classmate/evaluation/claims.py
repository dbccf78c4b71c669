"""Claims of a study of Classmate: what was gained over every control, and what a gain leaves open."""

from collections.abc import Iterator, Sequence

from pipeline_lib.study.headline import claims_of, is_unsolved, measured
from pipeline_lib.study.pages.wording import arm_in_words, percent
from pipeline_lib.study.statistics.intervals import DifferenceFinding
from pipeline_lib.study.study import Difference, Study, holm
from pipeline_lib.systems.classmate.peer import TRAINING

_MOST_MISSING = 0.01
"""Part of a peer's continuations, or of a policy's paths, without a score up to which there is a finding."""


def claims(study: Study, controls: Sequence[str], *, is_blind: bool) -> tuple[str, ...]:
    """Gains over every control; no finding where too many scores are missing, by ``study.compute``.

    ``is_blind``: the policy in question was trained with the blind bonus.
    """
    title, *figures = claims_of(study)
    if is_unsolved(study):
        return (title, *figures)
    if missing := list(_missing(study)):
        return (f"No finding: {_names(missing)} have no score.", *figures)
    gained, one = gains(study, num_controls=len(controls)), study.headline
    if one is not None and one.finding is DifferenceFinding.GAIN and _test(one) not in gained:
        title = f"No gain of {arm_in_words(one.arm)} over every control in {measured(one)}"
    return (title, *figures, *_sentences(gained, controls, is_blind=is_blind))


def _missing(study: Study) -> Iterator[str]:
    for what, found in (("paths", "policies"), ("continuations", "peers")):
        for name, counts in study.compute[found].items():
            if counts["unscored"] > _MOST_MISSING:
                yield f"{percent(counts['unscored'])} of the {what} of {name}"


def _sentences(gained: Sequence[str], controls: Sequence[str], *, is_blind: bool) -> Iterator[str]:
    yield (
        f"Gains over {_names(controls)}, corrected for several tests: {'; '.join(gained) or 'none'}."
    )
    if is_blind:
        yield "It was trained with the blind bonus: what it gains, any steady preference gains."
    elif len(controls) == 1 and any(not name.startswith(TRAINING) for name in gained):
        yield (
            f"It was compared with {controls[0]} alone: a gain counts only over both plain training and a blind "
            "bonus."
        )


def gains(study: Study, *, num_controls: int) -> list[str]:
    """Measures in which the last policy gains over every control.

    The p-value of a measure is the largest over the controls. pass@1 and the held-out peers are one family of
    tests, the peers of the training another; each is corrected by Holm's method.
    """
    families: dict[bool, dict[str, list[Difference]]] = {False: {}, True: {}}
    for one in study.differences:
        if one.p_adjusted is not None:
            families[one.measure == TRAINING].setdefault(_test(one), []).append(one)
    return [
        name
        for tests in families.values()
        for name, p in zip(
            tests, holm([_p_value(own, num_controls) for own in tests.values()]), strict=True
        )
        if p <= 1 - study.level
    ]


def _p_value(found: Sequence[Difference], num_controls: int) -> float:
    """The largest over the controls; 1 without a gain over each of them."""
    gained = [one.p for one in found if one.finding is DifferenceFinding.GAIN]
    return max(gained) if len(gained) == num_controls else 1.0


def _test(one: Difference) -> str:
    return f"{measured(one)} of {arm_in_words(one.arm)}"


def _names(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
