"""HumanEval+, MBPP+, LiveCodeBench and APPS in their published formats: loaded, judged, refused."""

import base64
import gzip
import json
import os
import pickle
import zlib

import pytest

from benchmarks.siege_code import FORGERIES
from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.code import MAX_TESTS
from pipeline_lib.params.evaluate import EvaluationSet
from pipeline_lib.params.paths import DataParams, VerifyParams
from pipeline_lib.problems.code_cases import apps_problem, evalplus_problem
from pipeline_lib.problems.data_set import RawRow
from pipeline_lib.problems.loading import check_data_set, load_splits
from pipeline_lib.sampling.splits import checked_problems
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.dispatch import Item, open_verifier
from tests.unit.problems.code_rows import (
    FORMATS,
    apps,
    humaneval_plus,
    livecodebench,
    mbpp_plus,
    packed,
    write_rows,
)


@pytest.fixture(scope="module")
def verifier():
    with open_verifier(VerifyParams()) as opened:
        yield opened


@pytest.mark.parametrize("form", FORMATS)
def test_right_programs_pass_and_wrong_ones_never_do(form, tmp_path, verifier):
    """20 rows; each wrong program agrees with the right one on what the question shows."""
    file, make = FORMATS[form]
    rows = make()
    write_rows(tmp_path / file, [row for row, *_ in rows])
    problems = load_splits(form.partition(",")[0], str(tmp_path))["test"]
    assert len(problems) == len({problem.question for problem in problems}) == 20
    items = [
        Item(gold=problem.gold, text=text)
        for problem, (_, *texts) in zip(problems, rows, strict=True)
        for text in texts
    ]
    verdicts = verifier.judge(items)
    right, wrong = verdicts[::2], verdicts[1::2]
    assert {(one.status, one.detail) for one in right} == {(Status.CORRECT, None)}
    assert not any(one.lenient for one in wrong)
    assert {one.status for one in wrong} <= {Status.WRONG, Status.CRASHED}


def test_ids_and_solutions(tmp_path):
    """Ids are those of the original sets, so that a problem has the same one; solutions are whole programs."""
    ids = {}
    for name in ("humaneval-plus", "mbpp-plus", "livecodebench", "apps"):
        file, make = FORMATS[name]
        write_rows(tmp_path / name / file, [row for row, *_ in make()])
        problem = load_splits(name, str(tmp_path / name))["test"][11]
        ids[name] = problem.id
        assert problem.solution is None or "def place(" in problem.solution
    assert ids == {
        "humaneval-plus": "HumanEval/11",
        "mbpp-plus": "mbpp-2011",
        "livecodebench": "made_11",
        "apps": "apps-test-11",
    }


def test_a_packed_file_of_evalplus_is_read(tmp_path):
    """As its release has it."""
    text = "".join(json.dumps(row) + "\n" for row, *_ in humaneval_plus())
    (tmp_path / "HumanEvalPlus.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    assert len(load_splits("humaneval-plus", str(tmp_path))["test"]) == 20


def raw(fields):
    return RawRow(fields=fields, where="set.jsonl:7", index=6)


def task(number, name, source, inputs, atol=0):
    """The gold of a task of MBPP+."""
    fields = {
        "task_id": f"Mbpp/{number}",
        "prompt": '"""\nMade up.\n"""\n',
        "entry_point": name,
        "canonical_solution": source,
        "base_input": inputs,
        "plus_input": {},
        "atol": atol,
    }
    return evalplus_problem(raw(fields), id_prefix="", source="made").gold


TYPES = {
    116: ([[1, 2]], "[(1, 2)]"),
    63: ([[[1, 2], [3]]], "[[(1, 2), (3,)]]"),
    75: ([[[1, 2]], 3], "[[(1, 2)], 3]"),
    106: ([[1], [2]], "[[1], (2,)]"),
    115: ([[[1], []]], "[[{1}, {}]]"),
    124: (["1.5", "2+3j"], "[1.5, (2+3j)]"),
    250: ([[1], 2], "[(1,), 2]"),
    307: ([[1], 2, [3]], "[(1,), 2, [3]]"),
    252: (["1j"], "[1j]"),
    259: ([[[1, 2]], [[3]]], "[((1, 2),), ((3,),)]"),
    278: ([[1, [2]]], "[(1, (2,))]"),
    580: ([[1, [2, [3]]]], "[(1, (2, (3,)))]"),
    722: ([{"a": [1]}, 2], "[{'a': (1,)}, 2]"),
    2000: ([[1, [2]]], "[[1, [2]]]"),
}
"""Arguments in JSON, and as evalplus makes them, by the number of a task."""


def test_arguments_of_mbpp_have_their_types(verifier):
    """JSON has no tuples, sets and complex numbers; which arguments are some is known by task."""
    source = "def shown(*args): return repr(list(args))"
    items = [
        Item(gold=task(number, "shown", source, [args]), text=f"def shown(*args): return {text!r}")
        for number, (args, text) in TYPES.items()
    ]
    assert [one.detail for one in verifier.judge(items)] == [None] * len(TYPES)


THIRD = "def f(x): return x / 3"
COMPARED = {
    # name: canonical solution, arguments, right and wrong programs, atol
    "f": (THIRD, [[1], [2]], ["return x / 3 + 1e-7"], ["return x / 3 + 1e-4"], 0),
    "g": (
        "def g(x): return x / 3",
        [[1]],
        ["return round(x / 3, 5)"],
        ["return .3", "return 0"],
        1e-4,
    ),
    "pair": ("def pair(x): return x, 1", [[0]], ["return (x, 1)"], ["return [x, 1]"], 0),
    "floats": (
        *("def floats(x): return [x + .1]", [[0.2]], ["return [.3]"]),
        *(
            [
                "return [.3, 0]",
                "return (.3,)",
                "return ['a']",
                "return []",
                "return [float('nan')]",
            ],
            0,
        ),
    ),
    "most": (
        "def most(x): return float('inf')",
        [[1]],
        ["return float('inf')"],
        ["return 1e300"],
        0,
    ),
    "Diff": (
        "def Diff(x): return x",
        [[[1, 2]]],
        ["return (2, 1, 1)"],
        ["return [1]", "return 3"],
        0,
    ),
    "check_str": (
        *("import re\ndef check_str(x): return re.match('[ab]', x)", [["a"], ["c"]]),
        *(["return x < 'c'", "import re; return re.match('a', x)"], ["return x", "return None"], 0),
    ),
    "find_zero": (
        *("def find_zero(x): return 1 / 0", [[[-2, 1]], [[0, 4]]]),
        *(["return -x[0] / x[1] + 1e-6"], ["return 2.0", "return float('nan')"], 1e-4),
    ),
}


@pytest.mark.parametrize("name", COMPARED)
def test_results_are_compared_as_evalplus_does(name, verifier):
    """By tolerance, as sets, by whether there is one, or by what a zero of a polynomial is."""
    source, inputs, right, wrong, atol = COMPARED[name]
    gold = task(2000, name, source, inputs, atol)
    texts = [f"def {name}(x): {body}" for body in (*right, *wrong)]
    verdicts = verifier.judge([Item(gold=gold, text=text) for text in texts])
    assert [one.lenient for one in verdicts] == [True] * len(right) + [False] * len(wrong)


def test_a_canonical_solution_that_fails_gives_no_score(verifier):
    """The fault is not the program's; nor is it if arguments do not have the form of their task."""
    golds = [task(2000, "f", "def f(x): return 1 / x", [[0]]), task(116, "f", THIRD, [[1]])]
    verdicts = verifier.judge([Item(gold=gold, text="def f(x): return 0") for gold in golds])
    assert [(one.status, one.lenient) for one in verdicts] == [(Status.VERIFIER_ERROR, None)] * 2
    assert "the canonical solution fails: ZeroDivisionError" in verdicts[0].detail


def test_no_forgery_passes(verifier):
    """Nor does a program that looks for the canonical solution."""
    golds = [
        load(row, "made").gold
        for load, row in ((evalplus, mbpp_plus()[0][0]), (of_apps, apps()[0][0]))
    ]
    looks = "import sys\ndef {name}(*a): return sys._getframe(1).f_globals['names']['{name}'](*a)"
    texts = [
        text.format(name=gold.entry_point)
        for gold in golds
        for text in (*FORGERIES.values(), looks)
    ]
    half = len(texts) // 2
    items = [Item(gold=golds[n // half], text=text) for n, text in enumerate(texts)]
    assert not any(one.lenient for one in verifier.judge(items))


def evalplus(row, source):
    return evalplus_problem(raw(row), id_prefix="", source=source)


def of_apps(row, source):
    return apps_problem(raw(row), id_prefix="apps-test", source=source)


def apps_row(tests, **changes):
    return {**apps()[0][0], "input_output": json.dumps(tests), **changes}


def test_apps_has_keys_that_are_numbers_lines_and_decimals(verifier):
    """A dict has whole keys; a text may be a list of lines; decimals may differ, whole numbers may not."""
    counts = apps_row(
        {"fn_name": "f", "inputs": [[{"1": 2, "-1": 5}, {"a": 1}]], "outputs": [{"1": 4, "-1": 3}]},
        starter_code="",
    )
    mean = apps_row({"inputs": [["1", "2"]], "outputs": [["0.500000", "3"]]}, solutions="")
    whole = apps_row({"inputs": ["1"], "outputs": ["1000000"]})
    method = apps_row(
        {"fn_name": "f", "inputs": [[3]], "outputs": [[[3, 3]]]}, starter_code="class Solution:"
    )
    judged = [
        (counts, "def f(x, y): return {k: v + 2 * k * y['a'] for k, v in x.items()}", True),
        (counts, "def f(x, y): return x", False),
        (mean, "a, b = int(input()), int(input())\nprint(a / b, a + b)", True),
        (mean, "a, b = int(input()), int(input())\nprint(a / b + 1e-4, a + b)", False),
        (whole, "input()\nprint(1000001)", False),
        (method, "class Solution:\n    def f(self, x): return x, x", True),
        (method, "def f(x): return x, x", False),
    ]
    items = [Item(gold=of_apps(row, "apps").gold, text=text) for row, text, _ in judged]
    assert [one.lenient for one in verifier.judge(items)] == [right for *_, right in judged]


def test_days_are_a_window(tmp_path):
    """Two rows a month, on the 15th, from January on; the first and the last day belong to it."""
    write_rows(tmp_path / "test.jsonl", [row for row, *_ in livecodebench()])

    def ids(window):
        return [one.id for one in load_splits(f"livecodebench@{window}", str(tmp_path))["test"]]

    assert ids("2024-01-15..2024-02-15") == ["made_0", "made_1", "made_2", "made_3"]
    assert ids("2024-01-16..2024-03-14") == ["made_2", "made_3"]
    with pytest.raises(BadInputError, match=r"none of its rows is of livecodebench@2025-01-01"):
        ids("2025-01-01..2025-12-31")


@pytest.mark.parametrize(
    "window",
    [
        "",
        "2024",
        "2024-02-30..2024-03-01",
        "2024-02-01..2024-01-31",
        "2024-01-01..2024-01-02..2024-01-03",
    ],
)
def test_what_is_no_window_is_refused(window):
    """When params are read, with an example."""
    with pytest.raises(
        BadInputError, match=r"give two.*as in livecodebench@2024-08-01\.\.2025-01-31"
    ):
        check_data_set(DataParams(dataset=f"livecodebench@{window}"))
    with pytest.raises(BadInputError, match="give two"):
        check_data_set(DataParams(dataset="apps@2024-01-01..2024-02-01"))


class Evil:
    """Its pickle runs a command."""

    def __reduce__(self):
        return os.mkdir, ("EXECUTED",)


def packed_as(data):
    return base64.b64encode(data).decode()


TEST = {"input": "1", "output": "1", "testtype": "stdin"}
PACKED = base64.b64decode(packed(json.dumps([TEST])))
DAMAGE = {
    "humaneval-plus": [
        ({"canonical_solution": "    return ("}, "'prompt and canonical_solution': not Python"),
        ({"base_input": [1]}, "'base_input': 0: Input should be a valid list"),
        ({"plus_input": "[]"}, "'plus_input': Input should be a valid list"),
        ({"atol": "low"}, "'atol': "),
        ({"entry_point": None}, "'entry_point': it is empty"),
    ],
    "mbpp-plus": [
        ({"canonical_solution": "def f("}, "not Python"),
        ({"prompt": None}, "'prompt': it is empty"),
    ],
    "livecodebench": [
        ({"private_test_cases": "[{]"}, "'private_test_cases': not as published"),
        ({"private_test_cases": "?"}, "'private_test_cases': not as published"),
        ({"private_test_cases": packed_as(b"1")}, "'private_test_cases': not as published"),
        ({"private_test_cases": packed_as(PACKED[:-20])}, "'private_test_cases': not as published"),
        (
            {"private_test_cases": packed_as(zlib.compress(pickle.dumps(Evil())))},
            "not as published",
        ),
        (
            {"private_test_cases": packed_as(zlib.compress(pickle.dumps(["[]"])))},
            "not as published",
        ),
        ({"private_test_cases": packed_as(zlib.compress(pickle.dumps(1)))}, "not as published"),
        ({"private_test_cases": packed("[1]")}, "'private_test_cases': not as published"),
        ({"private_test_cases": '[{"input": "1"}]'}, "'private_test_cases': not as published"),
        ({"public_test_cases": "{}"}, "'public_test_cases': "),
        ({"metadata": "{}"}, "'testtype': expected stdin, since metadata has func_name=None"),
        (
            {"public_test_cases": json.dumps([{**TEST, "testtype": "functional", "input": "("}])},
            "not as published",
        ),
    ],
    "apps": [
        ({"input_output": "{"}, "'input_output': Invalid JSON"),
        ({"input_output": '{"inputs": ["1"], "outputs": []}'}, "'input_output': expected as many"),
        (
            {"input_output": '{"inputs": [1], "outputs": [1], "fn_name": "f"}'},
            "'input_output': expected as many",
        ),
        ({"solutions": '"f"'}, "'solutions': Input should be a valid list"),
        ({"problem_id": None}, "'problem_id': it is empty"),
    ],
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_names_file_row_and_remedy(name, tmp_path, monkeypatch):
    """Nothing of a row is executed."""
    monkeypatch.chdir(tmp_path)
    file, make = FORMATS[name]
    rows = [row for row, *_ in make()]
    for number, (changes, complaint) in enumerate(DAMAGE[name]):
        write_rows(tmp_path / file, [*rows[1:4], {**rows[0], **changes}])
        with pytest.raises(BadInputError) as caught:
            load_splits(name, str(tmp_path))
        said = str(caught.value)
        assert f"{file}:4: " in said, number
        assert complaint in said, number
        assert said.endswith("; correct or remove the row"), number
        assert "\n" not in said, number
    assert not (tmp_path / "EXECUTED").exists()


def test_a_damaged_date_is_named(tmp_path):
    """Where days are asked for."""
    write_rows(tmp_path / "test.jsonl", [{**livecodebench()[0][0], "contest_date": "May"}])
    with pytest.raises(BadInputError, match=r"test\.jsonl:1: 'contest_date': .*remove the row"):
        load_splits("livecodebench@2024-01-01..2024-12-31", str(tmp_path))


LONG = json.dumps([{"input": "1" * MAX_TESTS, "output": "1", "testtype": "stdin"}])


WITHOUT = {
    "apps": [{"input_output": ""}, {"input_output": '{"inputs": [], "outputs": []}'}],
    "livecodebench": [
        {"private_test_cases": packed(LONG), "public_test_cases": "[]", "metadata": "{}"},
        {"private_test_cases": LONG, "public_test_cases": "[]", "metadata": "{}"},
    ],
    "humaneval-plus": [{"plus_input": [[["1" * MAX_TESTS]]]}],
}


@pytest.mark.parametrize("name", WITHOUT)
def test_problems_without_usable_tests_are_left_out_and_counted(name, tmp_path):
    """No tests, or more than the sandbox reads."""
    file, make = FORMATS[name]
    rows = [row for row, *_ in make()]
    changed = [{**row, **changes} for row, changes in zip(rows, WITHOUT[name], strict=False)]
    write_rows(tmp_path / file, [*changed, *rows[10:13]])
    problems, note = checked_problems(EvaluationSet(dataset=name, source=str(tmp_path)), seed=1)
    assert len(problems) == 3
    assert f"{len(changed)} problems are left out" in note
    assert "it has no tests, or more than 8 MiB of them" in note
