"""Headline and tables of a result."""

from pipeline_lib.records import Interval
from pipeline_lib.study.statistics.paired import PairedDifference
from pipeline_lib.systems.pacore.evaluation.comparison import (
    against_table,
    headline,
    reference_table,
)
from pipeline_lib.systems.pacore.evaluation.result import (
    AgainstVotes,
    Axis,
    PacoreResult,
    ReferenceCounts,
)


def against(axis=Axis.DRAWN, *, voters="m", strategy="low", base=0.5, capped=False):
    """A strategy with an accuracy of one half, significantly different where that of the vote is another."""
    value = 0.5 - base
    interval = Interval(value=value, low=value - 0.05, high=value + 0.05, level=0.95)
    return AgainstVotes(
        strategy=strategy,
        axis=axis,
        voters=voters,
        vote="majority",
        paths=20,
        vote_cost=615.0,
        capped=capped,
        difference=PairedDifference(base=base, trained=0.5, interval=interval, p_value=0.01),
    )


def result(*comparisons):
    return PacoreResult(
        model="m",
        num_problems=60,
        num_left_out=0,
        points=(),
        against=comparisons,
        references=(ReferenceCounts(strategy="high", shown=4.0, dropped=22.4),),
        last_calls=(),
    )


def test_the_headline_counts_against_the_strongest_voters():
    """The trained model's own votes fall to .40, those of the policy stand at .60 (.70 by drawn tokens).

    With .50 both strategies are above all 6 own votes and below all 6 best ones; the control's .10 does not count.
    """
    comparisons = [
        against(axis, voters=voters, strategy=strategy, base=base)
        for voters, base in (("m", 0.4), ("policy", 0.6), ("control", 0.1))
        for strategy in ("low", "high")
        for axis in (Axis.TOTAL, Axis.CRITICAL)
    ]
    drawn = [
        against(voters=voters, strategy=strategy, base=base)
        for voters, base in (("m", 0.4), ("policy", 0.7), ("control", 0.1))
        for strategy in ("low", "high")
    ]
    first, by_drawn, *_ = headline(result(*comparisons, *drawn))
    assert "best vote that costs no more, by any of the 3 models, in 0 of 6 comparisons" in first
    assert "below it in 6" in first
    assert "majority of 20 paths of policy by \N{MINUS SIGN}20.0" in by_drawn


def test_with_one_model_the_headline_counts_its_own_votes():
    """Three axes, all votes at .40 against .50."""
    first, *_ = headline(result(*(against(axis, base=0.4) for axis in Axis)))
    assert "best vote that costs no more in 3 of 3 comparisons, and below it in 0." in first


def test_capped_votes_are_counted_and_marked():
    """One of three: the second sentence says so, and the table has the cost of each vote; none: no sentence."""
    some = result(against(), against(Axis.TOTAL, capped=True), against(Axis.CRITICAL))
    assert "In 1 of 3 comparisons the vote is capped" in headline(some)[1]
    assert [row[4] for row in against_table(some).rows] == ["615", "615, capped", "615"]
    none = result(*map(against, Axis))
    assert not any("capped" in sentence for sentence in headline(none))


def test_shown_and_dropped_references_are_a_table():
    """One row per strategy, means with one digit."""
    assert reference_table(result()).rows == (("high", "4.0", "22.4"),)
