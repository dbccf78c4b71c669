"""GRPO tables: problems within bounds, warm start from everything that was solved."""

import json

from pipeline_lib.train.rows.rollout_groups import build_rollout_groups
from tests.unit.train.rows.synthetic_groups import make_context, make_group


def test_only_mixed_problems_are_drawn_again():
    """All-right, all-wrong and unscored problems have no advantage to give."""
    groups = [make_group(name, name) for name in ("rw", "rr", "ww", "ee")]
    tables = build_rollout_groups(groups, make_context())
    assert [row["problem_id"] for row in tables.rows] == ["rw"]


def test_row_holds_pass_rate_and_lineage():
    """1 of 3 scored paths is right; the fourth, unscored one is named but not counted."""
    (row,) = build_rollout_groups([make_group("a", "rwwe")], make_context()).rows
    assert row["pass_rate"] == 1 / 3
    assert row["num_scored"] == 3
    assert json.loads(row["path_ids"]) == ["a#0", "a#1", "a#2", "a#3"]
    assert json.loads(row["seeds"]) == [100, 101, 102, 103]
    assert (row["prompt"], row["model"], row["adapter"]) == ("Q a?\n", "policy", None)


def test_warm_start_uses_all_solved_problems():
    """The warm start also learns from problems that are too easy to draw again."""
    groups = [make_group(name, name) for name in ("rw", "rr", "ww")]
    warm_start = build_rollout_groups(groups, make_context()).warm_start
    assert {row["path_id"] for row in warm_start} == {"rw#0", "rr#0", "rr#1"}
