"""SFT rows: strictly right, ended, distinct; problems of online methods, within bounds; the data card."""

import json
import pathlib

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import BuildParams
from pipeline_lib.params.train import Method
from pipeline_lib.records import Group
from pipeline_lib.train.rows.builders import (
    BUILDERS,
    MAIN_TABLE,
    BuildContext,
    TrainData,
    build,
    build_rollout_groups,
    count_supervised,
    make_supervised_rows,
)
from tests.unit.train.rows.synthetic_groups import make_context, make_group


def path_ids(rows) -> set[str]:
    return {row["path_id"] for row in rows}


def test_only_strictly_right_and_ended_paths():
    """Of one path of every sort, the right one that ended alone becomes a row."""
    rows = make_supervised_rows([make_group("a", "rfwxumheRW")], make_context())
    assert path_ids(rows) == {"a#0"}


def test_row_holds_prompt_completion_and_lineage():
    """A row says what is learned, and where from."""
    (row,) = make_supervised_rows([make_group("a", "wr")], make_context())
    assert row == {
        "problem_id": "a",
        "prompt": "Q a?\n",
        "completion": "r 001",
        "path_id": "a#1",
        "model": "policy",
        "adapter": None,
        "template": "plain",
        "seed": 101,
        "verifier_version": "v1",
    }


def test_problems_that_are_always_solved_are_kept():
    """The difficulty bounds are not for SFT: an all-right group gives rows."""
    assert len(make_supervised_rows([make_group("a", "rrr")], make_context())) == 3


def test_shortest_takes_one_a_problem():
    """Of right paths with 9, 3 and 3 characters the earlier one of 3 is taken."""
    group = make_group("a", "rrrw", texts=["123456789", "1 2", "3 4", "5"])
    assert path_ids(make_supervised_rows([group], make_context(correct_paths="shortest"))) == {
        "a#1"
    }


def test_wrong_calculations_are_left_out():
    """A right answer from a wrong step, and one that states no calculation."""
    texts = ["2+3=5, boxed 5", "2+2=5, boxed 5", "boxed 5"]
    group = make_group("a", "rrr", texts=texts)
    assert path_ids(make_supervised_rows([group], make_context())) == {"a#0", "a#1", "a#2"}
    context = make_context(correct_paths="right_calculations")
    assert path_ids(make_supervised_rows([group], context)) == {"a#0"}


def test_duplicates_give_one_row():
    """The same text drawn twice is learned once."""
    group = make_group("a", "rrr", texts=["1+1=2", "1+1=2", "2*1=2"])
    assert path_ids(make_supervised_rows([group], make_context())) == {"a#0", "a#2"}


def test_order_depends_on_the_seed_not_on_the_input():
    """Groups the other way round give the same rows; another seed gives another order."""
    groups = [make_group(name, "rr") for name in "abcdef"]
    rows = make_supervised_rows(groups, make_context())
    assert make_supervised_rows(groups[::-1], make_context()) == rows
    other = make_supervised_rows(groups, make_context(seed=8))
    assert other != rows
    assert path_ids(other) == path_ids(rows)


WORKED = [
    {"problem_id": "w", "prompt": "Q w?\n", "completion": text} for text in ("1+2=3", "2+1=3")
]


def test_worked_solutions_join_the_right_paths_without_lineage():
    """Two solutions of one worked problem beside one right path; no policy is named for them."""
    rows = make_supervised_rows([make_group("a", "wr")], make_context(worked=WORKED))
    assert path_ids(rows) == {"a#1", "w#worked-0", "w#worked-1"}
    (first,) = [row for row in rows if row["path_id"] == "w#worked-0"]
    assert first == {
        "problem_id": "w",
        "prompt": "Q w?\n",
        "completion": "1+2=3",
        "path_id": "w#worked-0",
        "model": None,
        "adapter": None,
        "template": None,
        "seed": None,
        "verifier_version": None,
    }


def test_worked_solutions_alone_are_no_training_data():
    """Without any right path the loop has nothing to add, and the builder refuses."""
    assert make_supervised_rows([make_group("a", "ww")], make_context(worked=WORKED)) == []


def test_worked_rows_are_counted_apart():
    """One row of a path, two of a worked problem that no path was drawn for."""
    groups = [make_group("a", "wr")]
    counts = count_supervised(groups, make_supervised_rows(groups, make_context(worked=WORKED)))
    assert (counts["sft_rows"], counts["sft_problems"], counts["sft_worked_rows"]) == (3, 1, 2)


def test_only_mixed_problems_are_drawn_again():
    """All-right, all-wrong and unscored problems have no advantage to give."""
    groups = [make_group(name, name) for name in ("rw", "rr", "ww", "ee")]
    tables = build_rollout_groups(groups, make_context()).rows_by_table
    assert [row["problem_id"] for row in tables["problems"]] == ["rw"]


def test_row_holds_pass_rate_and_lineage():
    """1 of 3 scored paths is right; the fourth, unscored one is named but not counted."""
    (row,) = build_rollout_groups([make_group("a", "rwwe")], make_context()).rows_by_table[
        "problems"
    ]
    assert row["pass_rate"] == 1 / 3
    assert row["num_scored"] == 3
    assert json.loads(row["path_ids"]) == ["a#0", "a#1", "a#2", "a#3"]
    assert json.loads(row["seeds"]) == [100, 101, 102, 103]
    assert (row["prompt"], row["model"], row["adapter"]) == ("Q a?\n", "policy", None)


def test_warm_start_uses_all_solved_problems():
    """The warm start also learns from problems that are too easy to draw again."""
    groups = [make_group(name, name) for name in ("rw", "rr", "ww")]
    warm_start = build_rollout_groups(groups, make_context()).rows_by_table["warm_start"]
    assert {row["path_id"] for row in warm_start} == {"rw#0", "rr#0", "rr#1"}


GOLDEN_CARD = pathlib.Path(__file__).parents[3] / "golden" / "traindata_card.md"
GROUPS = [make_group("a", "rrwwf"), make_group("b", "rr"), make_group("c", "wwe")]


def build_of(method: Method, groups: list[Group]) -> TrainData:
    return build(
        method,
        groups,
        BuildContext(
            params=BuildParams(max_pass_rate=1.0),
            render=lambda problem: f"{problem.question}\n",
            seed=7,
            verifier_version="v1",
        ),
    )


def test_every_method_has_a_builder_and_a_table():
    """No method of the params is without data."""
    assert BUILDERS.keys() == MAIN_TABLE.keys() == set(Method)


@pytest.mark.parametrize(
    ("method", "sizes"),
    [
        (Method.SFT, {"sft": 4}),
        (Method.DPO, {"dpo": 4}),
        (Method.GRPO, {"problems": 1, "warm_start": 4}),
    ],
)
def test_tables_of_a_method(method: Method, sizes: dict[str, int]):
    """4 right paths; 2 x 2 pairs in the mixed problem; 1 problem with a chance to improve."""
    tables = build_of(method, GROUPS).rows_by_table
    assert {name: len(rows) for name, rows in tables.items()} == sizes


@pytest.mark.parametrize("method", Method)
def test_rows_are_flat_and_alike(method: Method):
    """Every row of a table has the same columns, of plain values, as a table on disk needs."""
    for rows in build_of(method, GROUPS).rows_by_table.values():
        assert len({tuple(row) for row in rows}) == 1
        plain = str | int | float | bool | None
        assert all(isinstance(value, plain) for row in rows for value in row.values())


@pytest.mark.parametrize("method", Method)
def test_nothing_to_train_on_is_refused(method: Method):
    """An empty table does not reach a trainer; the message says where the problems went."""
    with pytest.raises(BadInputError, match=rf"no {method.value} rows \(problems=1, paths=2"):
        build_of(method, [make_group("c", "ww")])


def test_card_is_as_agreed():
    """The card of a small set, figure by figure: 4 pairs from 1 of 3 problems."""
    assert build_of(Method.DPO, GROUPS).card == GOLDEN_CARD.read_text(encoding="utf-8")
