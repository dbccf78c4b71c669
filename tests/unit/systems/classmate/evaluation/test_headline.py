"""The headline: a gain counts against every control, and a null result is the first sentence."""

import pytest

from pipeline_lib.records import Interval
from pipeline_lib.study.statistics.paired import PairedDifference
from pipeline_lib.systems.classmate.evaluation.figures import MEAN, PolicyComparison
from pipeline_lib.systems.classmate.evaluation.headline import find, headline


def difference(value):
    """A clear gain (+.1), loss (-.1), or none (0)."""
    interval = Interval(value=value, low=value - 0.05, high=value + 0.05)
    return PairedDifference(
        base=0.5, trained=0.5 + value, interval=interval, p_value=0.001 if value else 0.9
    )


def against(reference, accuracy, **success):
    return PolicyComparison(
        policy="actor",
        reference=reference,
        pass_at={1: difference(accuracy)},
        success={
            peer: {MEAN: {"right": None if value is None else difference(value)}}
            for peer, value in success.items()
        },
    )


def first(*compared, is_blind=False, failed=0.0, unscored=0.0):
    missing = {"asked": failed, "other": 0.0}
    sentences = headline(
        compared, missing, ["other"], unscored={"plain": unscored}, is_blind=is_blind
    )
    return sentences[0], " ".join(sentences[1:])


@pytest.mark.parametrize(
    ("plain", "blind", "start"),
    [
        ((0, 0, 0), None, "Null result: neither accuracy nor the success of any peer"),
        ((-0.1, 0, 0), None, "Null result: neither"),
        ((0, 0.1, 0), None, "Null result beyond the peers of the training"),
        ((0, 0, None), None, "Null result: neither"),
        ((0.1, 0, 0), None, "Above plain: accuracy."),
        ((0.1, 0, 0), (0, 0, 0), "Null result: neither"),
        ((0, 0, 0.1), (0, 0, 0.1), "Above plain and blind: the success of other"),
        ((0.1, 0.1, 0.1), (0, 0.1, 0), "Null result beyond the peers of the training"),
    ],
)
def test_the_first_sentence(plain, blind, start):
    """Accuracy, the asked peer and the held-out one against plain training, then against the blind bonus."""
    given = {"plain": plain, "blind": blind}
    compared = [
        against(name, values[0], asked=values[1], other=values[2])
        for name, values in given.items()
        if values is not None
    ]
    assert first(*compared)[0].startswith(start)


def test_a_gain_over_plain_training_alone_is_left_open():
    """A blind bonus may gain as much; with both controls the sentence is not needed."""
    plain, blind = (against(name, 0.1, asked=0, other=0) for name in ("plain", "blind"))
    for one in (plain, blind):
        assert f"compared with {one.reference} alone" in first(one)[1]
    assert " alone: " not in first(plain, blind)[1]


def test_a_policy_with_the_blind_bonus_is_called_so():
    """The headline says that any steady preference gains as much."""
    assert (
        "any steady preference" in first(against("plain", 0.1, asked=0, other=0), is_blind=True)[1]
    )


@pytest.mark.parametrize("gain", [0, 0.1])
def test_missing_scores_are_no_null_result(gain):
    """A quarter of a peer's continuations has no score: the first sentence says so instead of a finding."""
    title, rest = first(against("plain", gain, asked=None, other=gain), failed=0.25)
    assert (
        title == "No finding: 25.0\N{NO-BREAK SPACE}% of the continuations of asked have no score."
    )
    assert rest.startswith("actor minus plain, in points: accuracy")


def test_a_few_missing_scores_leave_the_finding():
    """One percent of them, such as prefixes that leave no room in a peer's context."""
    assert first(against("plain", 0, asked=0, other=0), failed=0.01)[0].startswith("Null result")


def test_paths_without_a_score_leave_no_finding():
    """More than 1 % of those of any policy: problems without enough of them are in no figure."""
    gained = against("plain", 0.1, asked=0.1, other=0.1)
    assert first(gained, unscored=0.01)[0].startswith("Above plain")
    assert (
        "No finding: 2.0\xa0% of the paths of plain have no score"
        in first(gained, unscored=0.02)[0]
    )


def compared_with_peers(*p_values):
    """A gain of each held-out peer, with these p-values, and none of accuracy."""
    gains = [
        PairedDifference(
            base=0.5, trained=0.6, interval=Interval(value=0.1, low=0.01, high=0.2), p_value=p_value
        )
        for p_value in p_values
    ]
    success = {f"peer {number}": {MEAN: {"right": one}} for number, one in enumerate(gains)}
    return PolicyComparison(
        policy="actor", reference="plain", pass_at={1: difference(0)}, success=success
    )


@pytest.mark.parametrize(
    ("p_values", "gained"),
    [
        ((0.04,), ()),
        ((0.02,), (0,)),
        ((0.04, 0.5, 0.6), ()),
        ((0.04, 0.012, 0.016), (1, 2)),
        ((0.03, 0.02, 0.02), ()),
    ],
)
def test_many_held_out_peers_are_many_tests(p_values, gained):
    """Holm's method at 5 % over accuracy and K peers: the smallest p-value below 5 % / (K + 1), the next
    below 5 % / K, and so on.
    """
    names = [f"peer {number}" for number in range(len(p_values))]
    found = find([compared_with_peers(*p_values)], names, names)
    assert found.held_out == tuple(names[number] for number in gained)
    assert found.is_null == (not gained)
