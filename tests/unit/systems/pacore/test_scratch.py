"""Rows of a model from scratch: shares of tokens, numbers of references, targets, and where the loss is."""

from collections import Counter

import pytest

from pipeline_lib.engines.tokens import COMPACT_TEMPLATE
from pipeline_lib.kinds.own import own_gold
from pipeline_lib.params.pacore import ScratchParams
from pipeline_lib.params.train import TokenSftParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.pacore.scratch import _Rows

TRIES = [
    [("A 1", "x y", True), ("A 2", "z", False), ("A 3", "x", True)],
    [("B 1", "x", False), ("B 2", "y y", True)],
]
PROBLEM = Problem(
    id="p",
    question="",
    gold=own_gold(0),
    source="t",
    turns=(("user", "Q"),),
    is_whole_prompt=True,
)


class Compact:
    """A chat format of one compact message."""

    is_compact = True
    digest = COMPACT_TEMPLATE

    def render(self, conversation):
        return f"{conversation[-1].content}\n"


def steps(*, retries=False, **changes):
    """Steps of some 400 words, 40 in all."""
    params = ScratchParams(
        sft=TokenSftParams(tokens=16_000, step_tokens=400),
        references=(1, 8),
        first_references=(2,),
        first_share=0.5,
        **changes,
    )
    rows = _Rows(
        problems=[(PROBLEM, TRIES)],
        params=params,
        chat_format=Compact(),
        seed=3,
        retries=retries,
    )
    return [*rows.steps(lambda some: [len(words(one)) for one in some])]


def words(row):
    return (row["prompt"] + row["completion"]).split()


def number(row):
    return row["prompt"].count("#")


def test_each_step_has_paths_and_syntheses_of_one_number():
    """A quarter of the tokens is paths; two references first, then one or eight."""
    found = steps(paths=0.25)
    assert all(len({number(row) for row in step} - {0}) == 1 for step in found)
    numbers = [max(map(number, step)) for step in found]
    half = next(place for place, one in enumerate(numbers) if one != 2)
    assert 0.4 < half / len(numbers) < 0.6
    assert set(numbers[half:]) == {1, 8}
    shares = [
        sum(len(words(row)) for row in step if not number(row)) / sum(map(len, map(words, step)))
        for step in found
    ]
    assert sum(shares) / len(shares) == pytest.approx(0.25, abs=0.05)


def test_the_target_is_a_right_try_of_a_reference_if_there_is_one():
    """And else any right one; every part of a synthesis is right."""
    right = {f"{choice} {rest}" for part in TRIES for choice, rest, ok in part if ok}
    taken = Counter()
    for row in (one for step in steps() for one in step if number(one)):
        parts = row["completion"].replace(" B", "\nB").split("\n")
        assert set(parts) <= right
        for part in parts:
            seen = any(one in row["prompt"] for one in right if one[0] == part[0])
            taken[part in row["prompt"], seen] += 1
    assert taken[True, True] > 100
    assert taken[False, False] > 10
    assert not taken[False, True]


def test_weights_are_on_what_follows_from_choices():
    """Of two references at most; each span is the rest of one try."""
    rests = {rest for part in TRIES for _, rest, _ in part}
    for row in (one for step in steps(weighted_references=2) for one in step):
        spans = [row["prompt"][first:behind] for first, behind, _ in row["weights"]]
        assert set(spans) <= rests
        assert len(spans) == 2 * min(2, number(row))
        for first, _, weight in row["weights"]:
            assert weight == 1
            assert row["prompt"][: first - 1].rsplit(maxsplit=2)[-2] in {"A", "B"}


def test_a_control_has_solutions_alone():
    """No reference, no wrong try."""
    rows = [one for step in steps(paths=1.0, solved=1.0) for one in step]
    assert {one["prompt"] for one in rows} == {"Q\n"}
    assert not any("A 2" in one["completion"] or "B 1" in one["completion"] for one in rows)


def test_hit_rates_are_bounds():
    """0 to 0: references have wrong tries alone."""
    rows = [one for step in steps(hits_low=0.0, hits_high=0.0) for one in step if number(one)]
    assert not any("B 2" in one["prompt"] or "A 1" in one["prompt"] for one in rows)


def test_retries_try_until_each_part_is_right():
    """The last try of each part is right, all before it are wrong, and no dial comes twice; steps have their tokens."""
    found = steps(paths=1.0, retries=True)
    texts = {one["completion"] for step in found for one in step}
    ends_of_a = {f"{wrong}A {right}" for wrong in ("", "A 2 z ") for right in ("1 x y", "3 x")}
    assert texts == {f"{a} {b}B 2 y y" for a in ends_of_a for b in ("", "B 1 x ")}
    sizes = [sum(len(words(one)) for one in step) for step in found]
    assert sum(sizes) == pytest.approx(16_000, rel=0.03)
