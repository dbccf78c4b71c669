"""Headline and tables of one model's result, for the console and report.html."""

from collections.abc import Sequence

from pipeline_lib.study.pages.tables import Table
from pipeline_lib.study.pages.wording import EMPTY, difference, level, percent, score
from pipeline_lib.study.statistics.paired import DifferenceFinding
from pipeline_lib.systems.pacore.evaluation.result import AgainstVotes, Axis, PacoreResult


def headline(result: PacoreResult) -> list[str]:
    """Counts of significant differences to the best vote that costs no more, then the largest difference per axis.

    Each strategy counts once per axis, against the best vote of any model: training may weaken a model's own.
    """
    against = _strongest(result.against)
    gains = [one for one in against if one.difference.finding is DifferenceFinding.GAIN]
    losses = [
        one for one in against if one.difference.finding is DifferenceFinding.SIGNIFICANTLY_LOWER
    ]
    best = [
        max(
            (one for one in against if one.axis is axis),
            key=lambda one: one.difference.interval.value,
        )
        for axis in Axis
    ]
    num_voters = len({one.voters for one in result.against})
    any_model = f", by any of the {num_voters} models," if num_voters > 1 else ""
    first = (
        f"{result.model}: on {result.num_problems} problems synthesis is above the best vote that costs no more"
        f"{any_model} in {len(gains)} of {len(against)} comparisons, and below it in {len(losses)}."
    )
    return [*result.trained_on, first, *_capped(against), *map(_sentence, best)]


def _strongest(against: Sequence[AgainstVotes]) -> list[AgainstVotes]:
    """For each strategy and axis, the comparison with the highest accuracy of the vote."""
    found: dict[tuple[str, Axis], AgainstVotes] = {}
    for one in against:
        key = (one.strategy, one.axis)
        if key not in found or one.difference.base > found[key].difference.base:
            found[key] = one
    return list(found.values())


def _capped(against: Sequence[AgainstVotes]) -> list[str]:
    num_capped = sum(one.capped for one in against)
    if not num_capped:
        return []
    sentence = (
        f"In {num_capped} of {len(against)} comparisons the vote is capped: even that of all plain paths costs less "
        "than the strategy."
    )
    return [sentence]


def _sentence(one: AgainstVotes) -> str:
    return (
        f"By {one.axis.value}, {one.strategy} differs from {one.vote} of {one.paths} paths of {one.voters} by "
        f"{difference(one.difference.interval)} points ({one.difference.finding.value})."
    )


def point_table(result: PacoreResult) -> Table:
    """Accuracy and costs of every vote and strategy."""
    return Table(
        caption=f"Accuracy with {level(result.points[0].accuracy)} intervals, tokens per problem",
        columns=("", "paths", "accuracy", "drawn", "with prompts", "critical"),
        rows=tuple(
            (
                f"{point.name} (upper bound)" if point.upper_bound else point.name,
                str(point.paths),
                score(point.accuracy),
                *(f"{point.costs[axis]:.0f}" for axis in Axis),
            )
            for point in result.points
        ),
    )


def against_table(result: PacoreResult) -> Table:
    """Each strategy minus the best vote that costs no more."""
    return Table(
        caption="Difference in points to the best vote that costs no more (*: significant; capped: the vote of all "
        "plain paths costs less than the strategy)",
        columns=("", "by", "voters", "vote", "its tokens", "difference"),
        rows=tuple(
            (
                one.strategy,
                one.axis.value,
                "own" if one.voters == result.model else one.voters,
                f"{one.vote} of {one.paths}",
                f"{one.vote_cost:.0f}{', capped' if one.capped else ''}",
                difference(one.difference.interval)
                + ("" if one.difference.finding is DifferenceFinding.NO_SIGNIFICANT_GAIN else " *"),
            )
            for one in result.against
        ),
    )


def reference_table(result: PacoreResult) -> Table:
    """References that calls after the first round saw, and those that did not fit."""
    return Table(
        caption="References per call after the first round (dropped: they did not fit into the context)",
        columns=("", "shown", "dropped"),
        rows=tuple(
            (one.strategy, f"{one.shown:.1f}", f"{one.dropped:.1f}") for one in result.references
        ),
    )


def last_call_table(result: PacoreResult) -> Table:
    """Correctness of the last call, by correctness of its references."""
    return Table(
        caption="The last call: right although all references are wrong, and wrong although one is right",
        columns=("", "all wrong", "emergent", "one more path", "one right", "lost"),
        rows=tuple(
            (
                one.strategy,
                str(one.all_wrong),
                EMPTY if one.emergent is None else percent(one.emergent),
                EMPTY if one.further_path is None else percent(one.further_path),
                str(one.some_right),
                EMPTY if one.lost is None else percent(one.lost),
            )
            for one in result.last_calls
        ),
    )
