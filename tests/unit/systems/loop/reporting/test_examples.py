"""Which problems and paths a reader can look through, and how they are told apart."""

from dataclasses import replace

import pytest

from pipeline_lib.kinds.arc import ArcGold
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.study.policies import Flips, compare_groups
from pipeline_lib.systems.loop.reporting.examples import pick_examples
from tests.unit.study.judged_groups import judged_group

PARAMS = EvaluateParams(num_paths=4, ks=(1, 2), resamples=50)


def shown(base, trained, *, limit=10, text="3+5=8"):
    """Examples for mappings from problem id to letters."""
    groups = [
        [judged_group(name, letters, text=text) for name, letters in policy.items()]
        for policy in (base, trained)
    ]
    flips = compare_groups(dict(zip(("base", "policy"), groups, strict=True)), PARAMS, seed=7).flips
    return pick_examples(flips, *groups, limit=limit)


def test_flips_come_first_lost_and_gained_in_turn():
    """Of 8 problems 2 gained and 1 lost; with room for 4, two places go to flips."""
    same = {f"s{index}": "ccww" for index in range(5)}
    base = {**same, "g1": "wwww", "g2": "wwww", "l1": "cccc"}
    trained = {**same, "g1": "cccc", "g2": "cccc", "l1": "wwww"}
    found = shown(base, trained, limit=4)
    assert [(example.id, example.tag) for example in found] == [
        ("l1", "lost"),
        ("g1", "gained"),
        ("s0", ""),
        ("s2", ""),
    ]


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (2, 2), (99, 3)])
def test_the_limit_holds(limit, expected):
    """Never more than asked for, never more than there are; zero shows none."""
    same = {f"s{index}": "ccww" for index in range(3)}
    assert len(shown(same, same, limit=limit)) == expected


def test_identical_paths_stand_once_right_ones_first():
    """c, w, c, x: one right path drawn twice, one wrong, one discarded with its reason."""
    paths = shown({"p": "cwcx"}, {"p": "cwcx"})[0].groups[0].texts
    assert [(path.outcome, path.about[0]) for path in paths] == [
        ("correct", "\N{MULTIPLICATION SIGN}2"),
        ("wrong", "11 tokens"),
        ("discarded", "13 tokens"),
    ]
    assert paths[2].about[-1] == "verifier error; judge died"


def test_counts_are_of_scored_paths():
    """Two right of three scored: the discarded fourth is in neither number."""
    policy = shown({"p": "cwcx"}, {"p": "cwcx"})[0].groups[0]
    assert policy.title == "base: 2 of 3 right"


def test_wrong_format_and_cut_off_are_said():
    """A wrong path says whether its answer was right, and whether it ever ended."""
    paths = shown({"p": "fl"}, {"p": "fl"})[0].groups[0].texts
    assert {path.about[-1] for path in paths} == {
        "right answer, but not in the requested format",
        "unparsed; cut off at the token limit",
    }


def test_a_grid_is_shown_in_rows():
    """The gold of an ARC problem reads as it is asked for."""
    group = judged_group("p/0", "cc")
    group = replace(group, problem=replace(group.problem, gold=ArcGold(output=((1, 2), (3, 4)))))
    flips = Flips(gained=(), lost=())
    assert pick_examples(flips, [group], [group], limit=1)[0].gold == "1 2\n3 4"


def test_control_characters_become_visible():
    """A bell and a null are shown as their pictures; line ends and tabs stay."""
    path = shown({"p": "cc"}, {"p": "cc"}, text="a\x00\x07\n\tb")[0].groups[0].texts[0]
    assert path.text == "a\N{SYMBOL FOR NULL}\N{SYMBOL FOR BELL}\n\tb"
