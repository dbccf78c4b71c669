"""DPO pairs: wrong by reasoning, matched in length, few a problem, never twice."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.train.rows.builders import (
    MAX_USES_OF_A_PATH,
    build_preferences,
    is_wrong_by_reasoning,
    match_pairs,
    measure_length_bias,
)
from pipeline_lib.train.rows.filters import is_complete
from tests.unit.train.rows.synthetic_groups import VERDICTS, make_context, make_group

letters_and_lengths = st.lists(
    st.tuples(st.sampled_from(sorted(VERDICTS)), st.integers(1, 40)), min_size=1, max_size=10
)


def pair_ids(pairs) -> set[tuple[int, int]]:
    return {(pair.chosen.path.index, pair.rejected.path.index) for pair in pairs}


@pytest.mark.parametrize("letter", ["f", "o", "u", "m", "h", "e", "W", "r"])
def test_no_pair_with_a_path_that_is_not_is_wrong_by_reasoning(letter: str):
    """Wrong in format only, unparsed, malformed, forged, unscored, truncated: never rejected."""
    assert match_pairs(make_group("a", "r" + letter), make_context()) == []


@pytest.mark.parametrize("letter", ["w", "x"])
def test_wrong_and_crashed_are_rejected(letter: str):
    """A wrong answer and a program that raised are both wrong by reasoning."""
    assert pair_ids(match_pairs(make_group("a", "r" + letter), make_context())) == {(0, 1)}


@pytest.mark.parametrize("letter", ["f", "R"])
def test_chosen_is_strictly_right_and_ended(letter: str):
    """A right answer in another format, or one cut off after it, is not held up as a model."""
    assert match_pairs(make_group("a", letter + "w"), make_context()) == []


def test_length_ratio_bounds_pairs_both_ways():
    """With ratio 2, 10 characters go with 5 and with 20, not with 4 or 21."""
    texts = ["r" * 10, "a" * 4, "b" * 5, "c" * 20, "d" * 21]
    group = make_group("a", "rwwww", texts=texts)
    assert pair_ids(match_pairs(group, make_context(max_length_ratio=2))) == {(0, 2), (0, 3)}


@pytest.mark.parametrize("seed", range(8))
def test_closest_in_length_come_first(seed: int):
    """Allowed one pair, 10 characters go with 9 (ratio 1.11), not with 12 (1.2) or 8 (1.25)."""
    group = make_group("a", "rwww", texts=["r" * 10, "a" * 8, "b" * 9, "c" * 12])
    context = make_context(max_pairs_per_problem=1, seed=seed)
    assert pair_ids(match_pairs(group, context)) == {(0, 2)}


@pytest.mark.parametrize("seed", range(8))
def test_uses_are_spread_before_they_repeat(seed: int):
    """Two right and two wrong paths, two pairs: all four paths are used once."""
    context = make_context(max_pairs_per_problem=2, seed=seed)
    pairs = match_pairs(make_group("a", "rrww"), context)
    assert Counter(index for pair in pair_ids(pairs) for index in pair) == {0: 1, 1: 1, 2: 1, 3: 1}


def test_a_path_is_used_at_most_twice():
    """One right path among five wrong ones makes two pairs, though four are allowed."""
    assert len(match_pairs(make_group("a", "rwwwww"), make_context())) == MAX_USES_OF_A_PATH


def test_duplicate_texts_count_once():
    """Three equal wrong texts make one pair."""
    group = make_group("a", "rwww", texts=["yes", "no", "no", "No "])
    assert pair_ids(match_pairs(group, make_context())) == {(0, 1)}


@given(paths=letters_and_lengths, most=st.integers(1, 5), ratio=st.floats(1, 4), seed=st.integers())
def test_laws_of_pairs(paths, most: int, ratio: float, seed: int):
    """Whatever the group, every pair obeys all rules at once."""
    texts = [chr(97 + index) * length for index, (_, length) in enumerate(paths)]
    group = make_group("a", "".join(letter for letter, _ in paths), texts=texts)
    context = make_context(max_pairs_per_problem=most, max_length_ratio=ratio, seed=seed)
    pairs = match_pairs(group, context)
    assert len(pairs) == len(pair_ids(pairs)) <= most
    uses = Counter(m.path.id for pair in pairs for m in (pair.chosen, pair.rejected))
    assert all(count <= MAX_USES_OF_A_PATH for count in uses.values())
    for pair in pairs:
        short, long = sorted((len(pair.chosen.path.text), len(pair.rejected.path.text)))
        assert long <= short * ratio * (1 + 1e-9)
        assert pair.chosen.verdict.strict is True
        assert is_wrong_by_reasoning(pair.rejected)
        assert is_complete(pair.chosen)
        assert is_complete(pair.rejected)


def test_length_bias_by_hand():
    """Chosen of 4 and 8, rejected of 4 and 4 characters: means 6 and 4, ratio 1.5."""
    groups = [
        make_group("a", "rw", texts=["aaaa", "bbbb"]),
        make_group("b", "rw", texts=["cccccccc", "dddd"]),
    ]
    pairs = [pair for group in groups for pair in match_pairs(group, make_context())]
    assert measure_length_bias(pairs) == {
        "chosen_mean_chars": 6.0,
        "rejected_mean_chars": 4.0,
        "chosen_to_rejected_chars": 1.5,
    }


def test_rows_name_both_paths():
    """Chosen and rejected each have a lineage of their own."""
    (row,) = build_preferences([make_group("a", "rw")], make_context()).rows_by_table["dpo"]
    assert (row["chosen"], row["rejected"]) == ("r 000", "w 001")
    assert (row["chosen_path_id"], row["rejected_path_id"]) == ("a#0", "a#1")
    assert (row["chosen_seed"], row["rejected_seed"]) == (100, 101)
    assert row["prompt"] == "Q a?\n"
    assert row["verifier_version"] == "v1"


def test_rows_do_not_depend_on_the_order_of_groups():
    """The same pairs in the same order, whichever group comes first."""
    groups = [make_group(name, "rrww") for name in "abcd"]
    forward = build_preferences(groups, make_context())
    assert build_preferences(groups[::-1], make_context()) == forward
    assert forward.counts["dpo_rows"] == 4 * 4
    assert forward.counts["dpo_problems"] == 4
