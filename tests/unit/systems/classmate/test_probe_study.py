"""Means over chains of different lengths, the worth of steps, and the page."""

import pytest

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.records import Problem
from pipeline_lib.study.pages.page import write_page
from pipeline_lib.systems.classmate.cut import Chain
from pipeline_lib.systems.classmate.probe import Probed
from pipeline_lib.systems.classmate.probe_study import (
    distinct_shares,
    lift_table,
    probe_page,
    probe_study,
)

EVALUATE = EvaluateParams(resamples=200)


def probed(name, *success, problem=None, leak=None, shuffled=None):
    """A chain with one step fewer than ``success``, which is by kept steps, and its output line."""
    steps = [f"{number}\n" for number in range(1, len(success))]
    of = Problem(id=problem or name, question="?", gold=MathGold(answer="1"), source="test")
    figures = {"success": success, "low": success, "high": success}
    if shuffled:
        figures["shuffled"] = {"success": shuffled}
    row = {"id": name, "peers": {"p": figures}, "leak": leak or [False] * len(success)}
    return Chain(id=name, problem=of, steps=steps), row


def together(*pairs):
    chains, rows = zip(*pairs, strict=True)
    return Probed(chains=chains, rows=rows)


def study_of(*pairs):
    return probe_study(together(*pairs), EVALUATE, seed=7)


def curve(study, base="chain", measure="held-out peer"):
    return [
        (one.arm.removeprefix(f"{base} "), one.n, one.value)
        for one in study.points
        if one.measure == measure and one.arm.startswith(f"{base} ")
    ]


def test_chains_are_aligned_by_their_kept_share():
    """2 steps with successes 0, 1/2, 1 and 4 steps with 1, 1, 0, 0, 1. At 25 % they keep 0 and 1 steps,
    (0 + 1) / 2; at 50 % 1 and 2, (1/2 + 0) / 2; at 75 % 1 and 3, the same; at 100 % (1 + 1) / 2."""
    study = study_of(probed("a", 0.0, 0.5, 1.0), probed("b", 1.0, 1.0, 0.0, 0.0, 1.0))
    assert [value for _, _, value in curve(study, "chain peer=p")] == [0.5, 0.5, 0.25, 0.25, 1.0]
    assert [one.value for one in study.differences] == [0, -0.25, -0.25, 0.5]
    assert {one.reference for one in study.differences} == {"chain peer=p share=0"}


def test_chains_of_one_problem_are_averaged_first():
    """Three chains of problem a succeed, one of b does not: 1/2 over two problems, not 3/4."""
    chains = [probed(f"a{n}", 1.0, 1.0, problem="a") for n in range(3)]
    assert curve(study_of(*chains, probed("b", 0.0, 0.0)), "chain peer=p") == [
        ("share=0", 2, 0.5),
        ("share=1", 2, 0.5),
    ]


def test_a_chain_without_a_score_is_left_out_at_that_share():
    """Of two problems one has no verdict on its whole chain: the mean there is the other's, 1."""
    study = study_of(probed("a", 0.0, 1.0), probed("b", 0.0, None))
    assert curve(study, "chain peer=p") == [("share=0", 2, 0.0), ("share=1", 1, 1.0)]


def test_the_control_and_leaks_have_curves_of_their_own():
    """Own prefixes succeed, those of another chain do not; at half of two steps one of two answers is given away."""
    first = probed("a", 0.0, 1.0, 1.0, leak=[False, True, True], shuffled=[0.0] * 3)
    second = probed("b", 0.0, 1.0, 1.0, leak=[False, False, True], shuffled=[0.0] * 3)
    study = study_of(first, second)
    assert [value for _, _, value in curve(study, "chain peer=p")] == [0.0, 1.0, 1.0]
    assert [value for _, _, value in curve(study, "shuffled")] == [0.0] * 3
    assert curve(study, measure="given away") == [
        ("share=0", 2, 0.0),
        ("share=.5", 2, 0.5),
        ("share=1", 2, 1.0),
    ]


@pytest.mark.parametrize(
    ("steps", "shares"),
    [([1], [0.0, 1.0]), ([2], [0.0, 0.5, 1.0]), ([4], [0.0, 0.25, 0.5, 0.75, 1.0])],
)
def test_shares_that_keep_the_same_steps_are_one_point(steps, shares):
    """25 % of two steps is the empty prefix, 75 % is the first step as 50 % is."""
    assert distinct_shares(steps) == shares


def test_steps_by_lift():
    """Lifts 1 and -1/2 of a, 0 of b: the largest first. The first step of a gives the answer away, the second only
    follows it. A step without both scores is none."""
    first = probed("a", 0.0, 1.0, 0.5, leak=[False, True, True])
    rows = lift_table(together(first, probed("b", 1.0, 1.0), probed("c", 1.0, None))).rows
    assert [(row[0], row[1], row[4]) for row in rows] == [
        ("a", "1 of 2", "+100.0 *"),
        ("b", "1 of 1", "0.0"),
        ("a", "2 of 2", "\N{MINUS SIGN}50.0"),
    ]


@pytest.mark.parametrize(("steps", "shown"), [(21, 20), (15, 15)])
def test_both_ends_of_a_long_list(steps, shown):
    """Of 21 steps all but the middle one; of 15 each step once."""
    rows = lift_table(together(*(probed(f"c{n}", 0.0, n / 30) for n in range(steps)))).rows
    ids = [row[0] for row in rows]
    assert len(ids) == len({*ids}) == shown
    assert (ids[0], ids[-1], "c10" in ids) == (f"c{steps - 1}", "c0", steps == 15)


def test_the_page_escapes_text_and_requests_nothing(tmp_path):
    """Curve, steps and chains in one file; an id with markup is text."""
    found = together(
        probed("a<b>", 0.0, 1.0, 1.0, leak=[False, False, True]), probed("b", 1.0, 0.0)
    )
    path = tmp_path / "probe.html"
    study = probe_study(found, EVALUATE, seed=7)
    write_page(path, study, probe_page(found, study))
    page = path.read_text("utf-8")
    assert "a&lt;b&gt;" in page
    assert "a<b>" not in page
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert page.count("<span>gives the answer away</span>") == 1
    assert "data:image/svg+xml" in page
