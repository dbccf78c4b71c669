"""Claims: a gain counts over every control, after a correction for several tests; missing scores are no finding."""

import pytest

from pipeline_lib.study.statistics.intervals import DifferenceFinding
from pipeline_lib.study.study import Difference, Study
from pipeline_lib.systems.classmate.evaluation.claims import claims, gains
from pipeline_lib.systems.classmate.peer import HELD_OUT, TRAINING

ACCURACY = "pass@1"


def difference(measure, reference, p, *, level=0.5):
    """A gain of ten points with this p-value if that is at most 0.05, else none."""
    gained = DifferenceFinding.GAIN if p <= 0.05 else DifferenceFinding.NO_SIGNIFICANT_GAIN
    kind, _, peer = measure.partition(" of ")
    named = f" peer={peer}" if peer else ""
    return Difference(
        arm=f"actor{named}", reference=f"{reference}{named}", set="main", measure=kind,
        subset="right paths" if peer else "all", value=0.1, low=0.01, high=0.2, p=p, p_adjusted=p,
        n=200, of_arm=level, of_reference=level, finding=gained,
    )  # fmt: skip


def study(*differences, unscored=0.0, failed=0.0):
    return Study(
        system="classmate", seed=7, level=0.95, provenance={}, arms=(), points=(),
        differences=differences, left_out=(),
        compute={"policies": {"plain": {"unscored": unscored}}, "peers": {"other": {"unscored": failed}}},
    )  # fmt: skip


OTHER, ASKED = f"{HELD_OUT} of other", f"{TRAINING} of asked"


def claimed(given, **changes):
    """Claims from p-values by control and measure, the headline's first."""
    found = [
        difference(name, control, p) for control, own in given.items() for name, p in own.items()
    ]
    return claims(study(*found, **changes), [*given], is_blind=False)


@pytest.mark.parametrize(
    ("plain", "hashed", "gained"),
    [
        ({OTHER: 0.9, ACCURACY: 0.9, ASKED: 0.9}, None, "none"),
        ({OTHER: 0.9, ACCURACY: 0.001, ASKED: 0.9}, None, "pass@1 of actor"),
        ({OTHER: 0.9, ACCURACY: 0.001}, {OTHER: 0.9, ACCURACY: 0.9}, "none"),
        (
            {OTHER: 0.001, ACCURACY: 0.9},
            {OTHER: 0.02, ACCURACY: 0.9},
            "held-out peer (right paths) of actor (peer other)",
        ),
        (
            {OTHER: 0.001, ACCURACY: 0.9, ASKED: 0.001},
            {OTHER: 0.9, ACCURACY: 0.9, ASKED: 0.04},
            "training peer (right paths) of actor (peer asked)",
        ),
    ],
)
def test_a_gain_counts_over_every_control(plain, hashed, gained):
    """The p-value of a measure is the largest over the controls."""
    given = {"plain": plain} | ({} if hashed is None else {"hashed": hashed})
    names = "plain and hashed" if hashed else "plain"
    sentence = f"Gains over {names}, corrected for several tests: {gained}."
    assert sentence in claimed(given)


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
    found = [
        difference(ACCURACY, "plain", 0.9),
        *(difference(f"{HELD_OUT} of {n}", "plain", p) for n, p in enumerate(p_values)),
    ]
    expected = [f"held-out peer (right paths) of actor (peer {number})" for number in gained]
    assert gains(study(*found), num_controls=1) == expected


def test_the_title_is_no_gain_that_another_control_has_too():
    """The headline's difference is a gain over plain training, but not over the blind bonus."""
    both = claimed({"plain": {OTHER: 0.001}, "hashed": {OTHER: 0.9}})
    assert (
        both[0] == "No gain of actor (peer other) over every control in held-out peer (right paths)"
    )
    assert "10.0 points" in claimed({"plain": {OTHER: 0.001}})[0]


def test_a_gain_over_plain_training_alone_is_left_open():
    """A blind bonus may gain as much; with both controls the sentence is not needed."""
    gained = {OTHER: 0.001}
    assert any("compared with plain alone" in one for one in claimed({"plain": gained}))
    both = claimed({"plain": gained, "hashed": gained})
    assert not any("alone" in one for one in both)


def test_a_policy_with_the_blind_bonus_is_called_so():
    found = claims(study(difference(OTHER, "plain", 0.001)), ["plain"], is_blind=True)
    assert "any steady preference" in found[-1]


@pytest.mark.parametrize(
    ("missing", "what"),
    [({"failed": 0.25}, "continuations of other"), ({"unscored": 0.25}, "paths of plain")],
)
def test_missing_scores_are_no_finding(missing, what):
    """More than 1 % of a peer's continuations or of a policy's paths; the figures follow."""
    title, figures, *_ = claimed({"plain": {OTHER: 0.001}}, **missing)
    assert title == f"No finding: 25.0\N{NO-BREAK SPACE}% of the {what} have no score."
    assert figures.startswith("Held-out peer (right paths) of actor (peer other) is")
    few = claimed({"plain": {OTHER: 0.001}}, **dict.fromkeys(missing, 0.01))
    assert few[0].startswith("Actor (peer other) gains")


def test_nothing_solved_claims_nothing():
    """Neither a peer nor a policy is right anywhere."""
    found = [difference(name, "plain", 0.9, level=0.0) for name in (OTHER, ACCURACY)]
    assert claims(study(*found), ["plain"], is_blind=False)[0].startswith("Nothing was solved")
    solved = [found[0], difference(ACCURACY, "plain", 0.9)]
    assert claims(study(*solved), ["plain"], is_blind=False)[0].startswith("No significant gain")
