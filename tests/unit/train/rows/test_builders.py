"""The one entry to data building, and the card that goes with the rows."""

import pathlib

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import BuildParams
from pipeline_lib.params.train import Method
from pipeline_lib.records import Group
from pipeline_lib.train.rows.builders import BUILDERS, build
from pipeline_lib.train.rows.tables import MAIN_TABLE, BuildContext, TrainData
from tests.unit.train.rows.synthetic_groups import make_group

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
