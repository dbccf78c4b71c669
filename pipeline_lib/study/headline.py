"""The claims of a study as sentences: what was gained, over which control, with the interval."""

from collections.abc import Iterator

from pipeline_lib.study.attempts import MAIN
from pipeline_lib.study.names import ACCURACIES
from pipeline_lib.study.pages.wording import arm_in_words, p_equation, percent, points
from pipeline_lib.study.statistics.intervals import DifferenceFinding
from pipeline_lib.study.study import ALL, Difference, Study

FEW_PROBLEMS = 100
"""With fewer problems, or without a gain, a sentence states the smallest difference that would have shown."""


def claims_of(study: Study) -> tuple[str, ...]:
    """The title, the figures of the headline difference, and what the run was too small to show."""
    one = study.headline
    if one is None:
        return ("Nothing was compared: there is no control.",)
    if is_unsolved(study):
        arms = " nor ".join(map(arm_in_words, (one.arm, one.reference)))
        return (
            "Nothing was solved, so nothing is claimed.",
            f"Neither {arms} has a right answer to any of {one.n} problems.",
        )
    return (title(one), f"{change(one, study.level)}.", *_limits(one, study))


def is_unsolved(study: Study) -> bool:
    """True if no arm is above zero in the headline difference or in a difference of accuracies."""
    return not any(
        one.of_arm or one.of_reference
        for one in study.differences
        if one is study.headline or one.measure in ACCURACIES
    )


def title(one: Difference) -> str:
    """The gain over the control, or its absence, in one sentence."""
    size = points(abs(one.value)).lstrip("+")
    arm, reference = arm_in_words(one.arm), arm_in_words(one.reference)
    match one.finding:
        case DifferenceFinding.GAIN:
            return f"{_sentence_case(arm)} gains {size} points of {measured(one)} over {reference}"
        case DifferenceFinding.SIGNIFICANTLY_LOWER:
            return f"No gain: {arm} is {size} points of {measured(one)} below {reference}"
        case DifferenceFinding.NO_SIGNIFICANT_GAIN:
            return f"No significant gain of {arm} over {reference} in {measured(one)}"


def change(one: Difference, level: float) -> str:
    """Both means, the difference with its interval, and the p-value."""
    adjusted = (
        ""
        if one.p_adjusted is None
        else f", {p_equation(one.p_adjusted)} corrected for several tests"
    )
    return (
        f"{_sentence_case(measured(one))} of {arm_in_words(one.arm)} is {percent(one.of_arm)}, "
        f"of {arm_in_words(one.reference)} "
        f"{percent(one.of_reference)}, on the same {one.n} problems: {points(one.value)} points, {100 * level:g} % "
        f"interval {points(one.low)} to {points(one.high)}, {p_equation(one.p)}{adjusted}"
    )


_IN_SENTENCES = {
    "held-out peer": "success of a held-out peer",
    "training peer": "success of a peer of the training",
}


def measured(one: Difference) -> str:
    """The measure, with the subset and the problem set where they are not the usual ones."""
    subset = "" if one.subset == ALL else f" ({one.subset})"
    return f"{_IN_SENTENCES.get(one.measure, one.measure)}{subset}{'' if one.set == MAIN else f' on {one.set}'}"


def _limits(one: Difference, study: Study) -> Iterator[str]:
    if one.finding is not DifferenceFinding.GAIN or one.n < FEW_PROBLEMS:
        half_width = (one.high - one.low) / 2
        yield (
            f"With {one.n} problems and one training of each, differences below about {100 * half_width:.1f} points "
            "cannot be told from chance."
        )
    yield from not_held_out(one, study)


def not_held_out(one: Difference, study: Study) -> Iterator[str]:
    """A sentence for each of both arms whose training saw evaluated problems."""
    for arm in study.arms:
        if arm.num_seen and arm.name in {one.arm, one.reference}:
            yield (
                f"NOT HELD OUT: the training of {arm.name} saw {arm.num_seen} of the evaluated problems; its "
                "figures do not show what it does on other problems."
            )


def _sentence_case(text: str) -> str:
    return (
        text[:1].upper() + text[1:]
        if text.partition(" ")[0].islower() and "@" not in text.partition(" ")[0]
        else text
    )
