"""Every kind in the table is complete: rows, lines, prompts, judge and votes work for it."""

import json
import pathlib
import pkgutil

import pytest

from pipeline_lib.kinds.kind import Kind
from pipeline_lib.kinds.table import KINDS, gold_check_modules, judge_modules, kind_of
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.dispatch import AnswerBook, Item, open_verifier
from pipeline_lib.verify.golds import open_gold_check
from pipeline_lib.verify.lines import read_lines
from tests.unit.kinds.examples import EXAMPLES
from tests.unit.own.tasks_environment import TASKS, needs_tasks

HOSTILE = pathlib.Path(__file__).parents[1] / "own" / "hostile.py"
each_kind = pytest.mark.parametrize("name", KINDS)
each_judged_kind = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[needs_tasks] if name == "gym" else [])
        for name in KINDS
        if name != "verifiers"  # sets are installed: tests/unit/own/test_verifiers.py
    ],
)


@pytest.fixture(scope="module")
def verifier():
    """Of a task as well, whose verifier is for its own problems alone."""
    own = VerifyParams(verifier=f"{HOSTILE}:verify", of_task=True)
    with pytest.MonkeyPatch.context() as patch, open_verifier(own) as opened:
        patch.setenv("REASONLOOP_TASKS", str(TASKS))
        yield opened


def problem_of(name: str, **fields: str) -> Problem:
    return Problem(id="p", question="Which?", gold=EXAMPLES[name].gold, source="made", **fields)


def test_the_table_and_the_examples_name_the_same_kinds():
    """In the order in which errors list them."""
    assert list(KINDS) == list(EXAMPLES)
    assert all(kind.name == name for name, kind in KINDS.items())


@each_kind
def test_the_type_of_a_gold_determines_its_kind(name):
    """No two kinds share a gold type, so a problem need not name its kind."""
    assert kind_of(EXAMPLES[name].gold) is KINDS[name]


@each_kind
def test_rows_round_trip(name):
    """A problem comes back equal from its row, which names the kind."""
    problem = problem_of(name)
    row = problem.row()
    assert row["kind"] == name
    assert Problem.from_row(row) == problem


@each_kind
def test_lines_round_trip(name, tmp_path):
    """A gold is written as the fields from which a line of a JSONL file is read."""
    kind, example = KINDS[name], EXAMPLES[name]
    assert kind.write_line(example.gold) == example.line
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps({"kind": name, "text": "?", **example.line}) + "\n", "utf-8")
    assert [line.gold for line in read_lines(path)] == [example.gold]


@each_kind
def test_golds_are_shown(name):
    """The report and the Inspect log print this text."""
    assert KINDS[name].show_gold(EXAMPLES[name].gold) == EXAMPLES[name].shown


@each_kind
def test_prompts_keep_the_gold_out(name):
    """A chat model gets question and instruction; no prompt holds the right answer."""
    problem = problem_of(name)
    prompt = render(problem, None)
    assert prompt.strip()
    assert EXAMPLES[name].right not in prompt


@each_judged_kind
def test_judges_accept_the_right_text_and_refuse_the_wrong_one(name, verifier):
    """The judge that the kind names opens, and scores both in the requested format."""
    example = EXAMPLES[name]
    texts = (example.right, example.wrong, example.no_answer)
    right, wrong, silent = verifier.judge([Item(gold=example.gold, text=text) for text in texts])
    assert (right.status, right.strict, right.lenient) == (Status.CORRECT, True, True)
    assert (wrong.status, wrong.strict, wrong.lenient) == (Status.WRONG, False, False)
    assert (silent.strict, silent.lenient) == (False, False)


@each_judged_kind
def test_answers_are_told_apart(name, verifier):
    """Right and wrong are two answers; the same text again is the same answer if the kind votes."""
    example = EXAMPLES[name]
    book = AnswerBook(kind=KINDS[name], verifier=verifier)
    texts = (example.right, example.wrong, example.right, example.no_answer)
    again = 0 if KINDS[name].votable else 2
    assert [book.number(text) for text in texts] == [0, 1, again, None]


@each_kind
def test_golds_that_can_be_judged_pass_the_check(name):
    """A kind without a check of its own accepts every gold."""
    with open_gold_check() as gold_problem:
        assert gold_problem(EXAMPLES[name].gold) is None


@each_kind
def test_names_of_functions_resolve(name):
    """Names of judges, answer forms and gold checks are of the form module:function."""
    kind: Kind = KINDS[name]
    named = [n for n in (kind.judge, kind.answer_form, kind.gold_check) if isinstance(n, str)]
    assert all(callable(pkgutil.resolve_name(n)) for n in named)
    modules = {n.partition(":")[0] for n in named}
    assert modules <= {*judge_modules(), *gold_check_modules()}
