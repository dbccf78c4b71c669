"""Votes by part, stitched paths and gates, by hand on one problem of two parts."""

from dataclasses import replace

import pytest

from pipeline_lib.params.pacore import ComparisonParams, PacoreParams
from pipeline_lib.study.attempts import Cost
from pipeline_lib.systems.pacore.gates import gates_of
from pipeline_lib.systems.pacore.parts import Part
from pipeline_lib.systems.pacore.trials import (
    GREEDY,
    GREEDY_LAST,
    OTHER,
    CheckedCall,
    make_strategies,
)
from pipeline_lib.systems.pacore.votes import Axis, Vote, VoteRule, Votes
from tests.unit.systems.pacore.test_study import LOW, attempt, problem, studied


def part(text, *, right, claims=None, true=1.0, formed=True):
    return Part(
        text=text,
        formed=formed,
        true=true,
        claims=right if claims is None else claims,
        right=right,
    )


A, B = part("a", right=True), part("b", right=True)
X, Y = part("x", right=False), part("y", right=False)
LIE = part("x", right=False, claims=True)


def in_parts(*paths, answer=(A, B), references=((A, Y), (X, Y)), other=(X, Y)):
    """A problem whose plain paths are ``paths``, each with two parts, and right if both are."""
    one = problem("p", [path == (A, B) for path in paths], True, (False, False))
    calls = {
        f"{LOW}{GREEDY_LAST}": CheckedCall(answer=answer, references=references),
        f"{OTHER} 4,1": CheckedCall(answer=other, references=[(B, B)]),
    }
    greedy = attempt("p", paths[0] == (A, B), Cost(drawn=11, prompt=100, critical=11, longest=11))
    return replace(one, parts=paths, calls=calls, greedy=greedy)


def score(one, rule, paths):
    return Votes([one], seed=7).scores(Vote(rule=rule, paths=paths))["p"]


@pytest.mark.parametrize(
    ("paths", "vote", "stitched"),
    [
        # a wins 2:1, b ties with y.
        ([(A, Y), (A, Y), (X, B), (X, B)], 1 / 4, 1.0),
        ([(A, B), (A, Y), (X, B)], 1.0, 1.0),
        ([(A, Y), (A, Y), (X, B)], 0.0, 1.0),
        ([(A, Y), (X, Y)], 0.0, 0.0),
    ],
)
def test_the_most_frequent_text_of_each_part(paths, vote, stitched):
    """Ties are split: of a 2:2 and b 2:2 both are elected in a quarter. A stitched path needs each part once."""
    one = in_parts(*paths)
    assert score(one, VoteRule.PARTS, len(paths)) == pytest.approx(vote)
    assert score(one, VoteRule.STITCHED, len(paths)) == stitched


def test_means_over_subsets():
    """Of the three pairs of (a, y), (a, y), (x, b): two hold a and b. One vote elects each in half of them: 1/4."""
    one = in_parts((A, Y), (A, Y), (X, B))
    assert score(one, VoteRule.STITCHED, 2) == pytest.approx(2 / 3)
    assert score(one, VoteRule.PARTS, 2) == pytest.approx(2 / 3 / 4)


def test_a_part_that_is_missing_has_no_vote():
    """A text of None is elected only where there is no other."""
    gone = part(None, right=False, formed=False)
    assert score(in_parts((A, B), (gone, gone), (gone, gone)), VoteRule.PARTS, 3) == 1.0


def test_the_greedy_path_is_a_vote_of_one_path():
    """It is right where one of two paths is: the best vote of one path. Bounds are no opponents."""
    one = in_parts((A, B), (X, Y))
    votes = Votes([one], seed=7)
    assert votes.best(Axis.DRAWN, 10) == Vote(rule=VoteRule.GREEDY, paths=1)
    study = studied([one])
    assert study.point("greedy", "accuracy").value == 1.0
    assert study.point("greedy", "accuracy").cost.drawn == 11
    bounds = {one.base for one in study.arms if one.upper_bound}
    assert bounds == {"oracle", "stitched"}


def gates(one):
    return [(gate.percent, gate.n, gate.holds) for gate in gates_of([one])]


def test_gates():
    """Of 6 parts none is malformed; all are true; 3 are right and say so, 1 of 3 wrong ones lies; a is taken over."""
    one = in_parts((A, B), (X, Y), (A, LIE))
    assert gates(one) == [
        (0, 6, True),
        (100, 6, True),
        (100, 3, True),
        (pytest.approx(100 / 3), 3, False),
        (100, 1, True),
        (0, 2, True),
    ]


def test_gates_of_a_synthesis_that_does_not_read():
    """The right part of a reference is lost; with references to another question both parts are right all the same."""
    one = in_parts((A, Y), (X, Y), answer=(X, B), other=(A, B))
    assert gates(one)[-2:] == [(0, 1, False), (100, 2, False)]


def test_nothing_is_claimed_if_a_gate_fails():
    """The first sentence says so; the table of gates has each."""
    assert "gate" not in " ".join(studied([in_parts((A, B), (X, Y))]).claims)
    failed = studied([in_parts((A, B), (X, LIE))])
    assert failed.claims[0] == "No claim, since 1 of 6 gates fail: claims of wrong parts 50.00 %"
    assert [one["holds"] for one in failed.compute["gates"]] == [*[True] * 3, False, True, True]


def names(problems=2, **changes):
    params = PacoreParams(evaluate=ComparisonParams(rsa=None, early_stop=None, **changes))
    return [one.name for one in make_strategies(params, problems=problems)][1:]


def test_strategies():
    """Greedy last calls come first; without another question there are no other references."""
    widths = {"widths": ((4,), (2, 2))}
    both = ["rounds 4,1", "rounds 2,2,1"]
    cold = [GREEDY, *(f"{one}{GREEDY_LAST}" for one in both)]
    assert names(**widths) == [*cold, *both, f"{OTHER} 4,1"]
    assert names(**widths, problems=1) == [*cold, *both]
    assert names(**widths, greedy=False, other_references=False) == both
