"""Entry points, tests and ids of problems that ask for a function."""

import ast
import json
import pathlib

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.problems.data_set import RawRow
from pipeline_lib.problems.python_code import (
    entry_point,
    humaneval_problem,
    mbpp_problem,
)


def mbpp_row(**changes: object) -> RawRow:
    fields = {
        "task_id": 11,
        "text": "Write a function to double a number.",
        "code": "def double(x):\r\n    return 2 * x",
        "test_setup_code": "",
        "test_list": ["assert double(2) == 4 ", "assert double(0) == 0"],
        "challenge_test_list": ["assert double(-1) == -2"],
    }
    return RawRow(fields=fields | changes, where="mbpp.jsonl:11", index=10)


@pytest.mark.parametrize(
    ("asserts", "name"),
    [
        (["assert f(1) == 2"], "f"),
        (["assert set(f((1, 2))) == set((1,))"], "f"),
        (["assert abs(f(g(1)) - 0.5) < 1e-3", "assert f(2) == 1"], "f"),
        (["assert g(Pair(1, 2)) == h(1)", "assert h(2) == Pair(3, 4)"], "Pair"),
        (["assert sum(10, 15) == 6"], "sum"),
        (["assert f(1) == 2", "assert g(1) == 2"], None),
        (["assert True"], None),
    ],
)
def test_entry_point(asserts: list[str], name: str | None):
    """The first name that every assert calls; a builtin only if there is no other."""
    assert entry_point(asserts) == name


def test_mbpp_problem_shows_its_asserts():
    """The question shows the asserts that judge it; challenge tests are not used."""
    problem = mbpp_problem(mbpp_row(), id_prefix="mbpp-test", source="mbpp")
    asserts = "assert double(2) == 4\nassert double(0) == 0"
    assert problem.question == (
        f"Write a function to double a number.\nYour code should pass these tests:\n\n{asserts}"
    )
    assert problem.gold == CodeGold(entry_point="double", tests=f"{asserts}\n")
    assert problem.id == "mbpp-11"
    assert problem.solution == "def double(x):\n    return 2 * x"


def test_mbpp_setup_comes_before_the_asserts():
    """Setup code comes first, with Unix line ends."""
    problem = mbpp_problem(
        mbpp_row(test_setup_code="a = 2\r\nb = 4", test_list=["assert double(a) == b"]),
        id_prefix="mbpp-test",
        source="mbpp",
    )
    assert problem.gold.tests == "a = 2\nb = 4\nassert double(a) == b\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"test_list": ["assert double(2) =="]},
        {"test_list": ["assert 1 == 1"]},
        {"test_list": None},
    ],
)
def test_mbpp_row_without_usable_asserts_is_refused(changes: dict):
    """Asserts that are missing, not Python or without a call are refused with file, line and key."""
    with pytest.raises(BadInputError, match=r"mbpp\.jsonl:11: 'test_list'"):
        mbpp_problem(mbpp_row(**changes), id_prefix="mbpp-test", source="mbpp")


def test_humaneval_solution_is_a_whole_program():
    """The worked solution is head and body together."""
    row = RawRow(
        fields={
            "task_id": "HumanEval/0",
            "prompt": "def one():\n",
            "entry_point": "one",
            "canonical_solution": "    return 1\n",
            "test": "def check(candidate):\n    assert candidate() == 1\n",
        },
        where="HumanEval.jsonl:1",
        index=0,
    )
    problem = humaneval_problem(row, id_prefix="humaneval-test", source="humaneval")
    assert problem.solution == "def one():\n    return 1\n"
    assert problem.question == "def one():\n"
    assert problem.gold.entry_point == "one"


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
def test_every_mbpp_entry_point_is_defined_by_its_reference(data_folder: pathlib.Path):
    """On all rows, 974 of the public ones, the derived name is one that the reference code defines."""
    lines = (data_folder / "mbpp" / "mbpp.jsonl").read_text().splitlines()
    for fields in map(json.loads, lines):
        row = RawRow(fields=fields, where=f"task {fields['task_id']}", index=0)
        gold = mbpp_problem(row, id_prefix="mbpp", source="mbpp").gold
        defined = {
            node.name
            for node in ast.parse(fields["code"]).body
            if isinstance(node, ast.FunctionDef)
        }
        assert gold.entry_point in defined, row.where
