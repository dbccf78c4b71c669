"""Golds and ids of problems with a short final answer."""

import ast
import json
import pathlib

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.problems.data_set import RawRow
from pipeline_lib.problems.lines import called_function, problem_of_row
from pipeline_lib.problems.row_parsers import gsm8k_problem, humaneval_problem, mbpp_problem


def row_of(**fields: object) -> RawRow:
    return RawRow(fields=fields, where="set.jsonl:7", index=6)


def test_gsm8k_gold_is_what_follows_the_mark():
    """The gold is the last line's number without thousands separators; the solution stays raw."""
    answer = "He has 900 + 180 = <<900+180=1080>>1080.\n#### 1,080"
    problem = gsm8k_problem(
        row_of(question="How many?", answer=answer), id_prefix="gsm8k-train", source="gsm8k"
    )
    assert problem.gold == MathGold(answer="1080")
    assert problem.id == "gsm8k-train-6"
    assert problem.solution == answer


@pytest.mark.parametrize(
    ("written", "gold"),
    [("2,3", "2,3"), ("12,5", "12,5"), ("1,234,567", "1234567"), ("$1,080", "$1080")],
)
def test_only_commas_of_thousands_are_dropped(written: str, gold: str):
    """A list or a decimal comma is another number without its comma."""
    row = row_of(question="How many?", answer=f"so\n#### {written}")
    problem = gsm8k_problem(row, id_prefix="gsm8k-train", source="gsm8k")
    assert problem.gold == MathGold(answer=gold)


@pytest.mark.parametrize("answer", ["1080", "#### ", "#### ,"])
def test_gsm8k_without_an_answer_is_refused(answer: str):
    """No mark, or nothing after it, is an error of the data, not an empty gold."""
    with pytest.raises(BadInputError, match=r"set\.jsonl:7: 'answer'"):
        gsm8k_problem(row_of(question="?", answer=answer), id_prefix="g", source="g")


@pytest.mark.parametrize(
    ("fields", "gold"),
    [
        ({"answer": " 204 "}, "204"),
        ({"answer": 204}, "204"),
        ({"solution": r"Hence \boxed{\frac{1}{2}}."}, r"\frac{1}{2}"),
        ({"answer": r"\frac12", "solution": r"Hence \boxed{0.5}."}, r"\frac12"),
    ],
)
def test_contest_gold(fields: dict, gold: str):
    """``answer`` is the gold, as text or number; without it, the last box of the solution."""
    problem = problem_of_row(row_of(problem="?", **fields), id_prefix="aime24-test", source="a")
    assert problem.gold == MathGold(answer=gold)


def test_publisher_id_is_kept():
    """A row with an id keeps it, others are numbered in file order."""
    named = problem_of_row(
        row_of(problem="?", answer="1", unique_id="math500/3"), id_prefix="math-test", source="m"
    )
    unnamed = problem_of_row(row_of(problem="?", answer="1"), id_prefix="math-test", source="m")
    assert (named.id, unnamed.id) == ("math500/3", "math-test-6")


@pytest.mark.parametrize("fields", [{}, {"answer": " "}, {"solution": "no box"}])
def test_contest_without_an_answer_is_refused(fields: dict):
    """A row without any final answer names its place."""
    with pytest.raises(BadInputError, match=r"set\.jsonl:7: 'answer"):
        problem_of_row(row_of(problem="?", **fields), id_prefix="a", source="a")


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
    ],
)
def test_entry_point(asserts: list[str], name: str):
    """The first name that every assert calls; a builtin only if there is no other."""
    assert called_function(row_of(), "tests", "\n".join(asserts)) == name


@pytest.mark.parametrize("tests", ["assert f(1) == 2\nassert g(1) == 2", "assert True", "x = 1"])
def test_no_entry_point(tests: str):
    """No function is called in every assert."""
    with pytest.raises(BadInputError, match=r"set\.jsonl:7: 'tests': no function is called"):
        called_function(row_of(), "tests", tests)


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
