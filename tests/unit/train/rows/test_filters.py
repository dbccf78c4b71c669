"""Difficulty bounds, duplicates, their counts, and stated calculations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.params.paths import BuildParams
from pipeline_lib.train.rows.filters import (
    count_paths,
    deduplicate,
    filter_by_difficulty,
    is_complete,
    pass_rate,
    states_right_calculations,
)
from tests.unit.train.rows.synthetic_groups import VERDICTS, make_group

letters = st.text(alphabet=sorted(VERDICTS), max_size=8)


def kept_ids(groups, **bounds) -> set[str]:
    return {group.problem.id for group in filter_by_difficulty(groups, BuildParams(**bounds))[0]}


def test_pass_rate_is_strict_and_leaves_out_our_failures():
    """Of right, format-only, wrong and one verifier error, 1 of 3 scored is strictly right."""
    assert pass_rate(make_group("a", "rfwe")) == 1 / 3
    assert pass_rate(make_group("a", "ee")) is None


def test_default_bounds_keep_mixed_groups_only():
    """All right, all wrong and unscored groups are left out, and each is counted."""
    groups = [make_group(name, name) for name in ("rw", "rr", "ww", "ee", "rrre")]
    kept, counts = filter_by_difficulty(groups, BuildParams())
    assert [group.problem.id for group in kept] == ["rw"]
    assert counts == {
        "problems_kept": 1,
        "problems_all_right": 2,
        "problems_all_wrong": 1,
        "problems_out_of_bounds": 0,
        "problems_unscored": 1,
    }


def test_bounds_are_exclusive():
    """Rates 1/4, 2/4, 3/4 with bounds 0.25 and 0.75 leave the middle one."""
    groups = [make_group(name, name) for name in ("rwww", "rrww", "rrrw")]
    assert kept_ids(groups, min_pass_rate=0.25, max_pass_rate=0.75) == {"rrww"}
    _, counts = filter_by_difficulty(groups, BuildParams(min_pass_rate=0.25, max_pass_rate=0.75))
    assert counts["problems_out_of_bounds"] == 2


@given(st.lists(letters, max_size=6))
def test_every_group_goes_to_exactly_one_place(many: list[str]):
    """The counts of the filter add up to the problems that went in."""
    groups = [make_group(str(number), letters) for number, letters in enumerate(many)]
    assert sum(filter_by_difficulty(groups, BuildParams())[1].values()) == len(groups)


@given(st.lists(letters, max_size=6))
def test_scored_paths_are_right_wrong_or_wrong_in_format(many: list[str]):
    """Right, format-only, wrong and unscored paths are all paths, without a remainder."""
    counts = count_paths([make_group(str(n), letters) for n, letters in enumerate(many)])
    assert counts["paths"] == (
        counts["paths_right"]
        + counts["paths_wrong_in_format_only"]
        + counts["paths_wrong"]
        + counts["paths_unscored"]
    )


def test_path_counts_by_hand():
    """r f w u R W e: 2 right, 1 in format only, 3 wrong, 1 unscored; 2 of them truncated."""
    assert count_paths([make_group("a", "rfwuRWe")]) == {
        "problems": 1,
        "paths": 7,
        "paths_unscored": 1,
        "paths_right": 2,
        "paths_wrong_in_format_only": 1,
        "paths_wrong": 3,
        "paths_truncated": 2,
    }


def test_truncated_and_empty_paths_have_not_ended():
    """Neither a path cut at the token limit nor white space shows a model how to end."""
    members = make_group("a", "rRr", texts=["fine", "cut of", " \n"]).members
    assert [is_complete(member) for member in members] == [True, False, False]


def test_exact_and_near_duplicates_go():
    """Other case, spaces or one word among 60 do not make another path; other steps do."""
    words = " ".join(f"step{number}" for number in range(60))
    # 58 runs of 3 words; the last word is in 1 of them: 57 / 59 = 0.966 are shared.
    near = words.replace("step59", "done")
    texts = ["3+5=8", "3 + 5 = 8", "5+3=8", words, words.upper(), near]
    members = make_group("a", "rrrrrr", texts=texts).members
    assert [member.path.index for member in deduplicate(members)] == [0, 2, 3]


@pytest.mark.parametrize(("num_words", "kept"), [(58, 2), (59, 1), (60, 1)])
def test_near_means_nine_tenths_of_the_runs_of_three(num_words, kept):
    """Another word inside a text of n changes 3 of its n - 2 runs, so n - 5 of n + 1 are shared:
    53 / 59 = 0.898 at 58 words, 54 / 60 = 0.9 at 59. Runs of two would share 55 / 59 at 58 words, runs
    of four 52 / 60 at 59 and 53 / 61 at 60.
    """
    words = [f"step{number}" for number in range(num_words)]
    texts = [" ".join(words), " ".join([*words[:20], "done", *words[21:]])]
    assert len(deduplicate(make_group("a", "rr", texts=texts).members)) == kept


def test_different_arithmetic_is_never_a_near_duplicate():
    """Two Countdown solutions that differ in one step are both kept."""
    texts = ["12*7=84\n84+8=92\n92-1=91", "12*7=84\n84-1=83\n83+8=91"]
    assert len(deduplicate(make_group("a", "rr", texts=texts).members)) == 2


@given(st.lists(st.text(alphabet="ab +\n", min_size=1, max_size=12), max_size=6))
def test_distinct_is_idempotent_and_keeps_the_order(texts: list[str]):
    """Deduplication is idempotent, keeps the order, and keeps at least one path."""
    members = make_group("a", "r" * len(texts), texts=texts).members if texts else []
    once = deduplicate(members)
    assert deduplicate(once) == once
    assert [m.path.index for m in once] == sorted(m.path.index for m in once)
    assert bool(once) == bool(members)


RIGHT = [
    "6 + 7 = 13",
    "6+7=13.",
    "He pays 3 * $4.50 = $13.50 in total.",
    "12 boxes x 5 apples = 60 apples",
    "12 × 5 = 60, then 60 − 8 = 52",  # noqa: RUF001
    "2 + 3 * 4 = 14",
    "1,200 / 4 = 300",
    "10 / 3 = 3.33",
    "50 * 20% = 10",
    "100% - 20% = 80%",
    "3 - 5 = -2",
    "x = 5 * 2 = 10",
    "(3 + 4) * 2 = 14, and 14 + 1 = 15",
    "<<6*7=42>>42",
    "2 + 3 = 1 + 4, so 5 + 1 = 6",
]
WRONG = [
    "",
    "The answer is 13.",
    "6 + 7 = 14",
    "6 + 7 = 13, then 13 - 3 = 9",
    "10 / 3 = 3",
    "10 / 3 = 3.34",
    "4 / 0 = 0",
    "(3 + 4) * 2 = 15",
    "6 = 6",
]


@pytest.mark.parametrize("text", RIGHT)
def test_right_calculations(text):
    assert states_right_calculations(text)


@pytest.mark.parametrize("text", WRONG)
def test_wrong_or_no_calculations(text):
    """A division that does not end needs decimal places; brackets alone state nothing that is checked."""
    assert not states_right_calculations(text)


def test_long_chains_take_linear_time():
    """A text of 100,000 characters without an equals sign."""
    assert not states_right_calculations("1 + " * 25_000)
    assert not states_right_calculations("1" * 100_000)
