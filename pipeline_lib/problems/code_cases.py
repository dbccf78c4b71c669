"""Data sets of code whose tests are cases: HumanEval+, MBPP+, LiveCodeBench and APPS.

Of evalplus the canonical solution, which gives the expected outputs, is part of the tests: it runs in the sandbox alone.
Source: evalplus/evalplus, ``data/mbpp.py`` (types of arguments), ``eval/__init__.py`` (comparison);
LiveCodeBench/LiveCodeBench, ``benchmarks/code_generation.py``; hendrycks/apps, ``eval/testing_util.py``.
"""

import ast
import base64
import datetime as dt
import json
import pickletools
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Json, StrictStr, TypeAdapter

from pipeline_lib.errors import reason_of
from pipeline_lib.kinds.code import MAX_TESTS, CodeGold, given_beside
from pipeline_lib.kinds.program import ProgramGold
from pipeline_lib.problems.data_set import BY_SPLIT, DataSet, RawRow
from pipeline_lib.problems.row_parsers import humaneval_problem, mbpp_problem
from pipeline_lib.records import Problem

_ARGUMENTS = {
    "[tuple(a) for a in args]": "2 116 132 143 222 261 273 394 399 421 424 429 470 560 579 596 616 630 726 740 744 809",
    "[[tuple(b) for b in a] for a in args]": "63 64 70 94 120 237 272 299 400 409 417 438 473 614 780",
    "[[tuple(b) for b in args[0]], *args[1:]]": "75 413 444 753",
    "[args[0], tuple(args[1])]": "106 750",
    "[[set(b) if b else {} for b in args[0]]]": "115",
    "[float(args[0]), complex(args[1])]": "124",
    "[tuple(args[0]), *args[1:]]": "250 307 405 446 617 720 763 808",
    "[complex(args[0])]": "252",
    "[tuple(tuple(b) for b in a) for a in args]": "259 401 445",
    "[tuple(tuple(b) if isinstance(b, list) else b for b in args[0])]": "278",
    "[tuples(a) for a in args]": "580 615 791",
    "[{key: tuple(b) for key, b in args[0].items()}, *args[1:]]": "722",
}
"""Arguments of tasks of MBPP+, made of ``args``, which JSON holds; by the numbers of the tasks."""
_AGREEMENTS = {
    "set(out) == set(exp)": "similar_elements find_char_long common_in_nested_lists extract_singly larg_nnum "
    "intersection_array find_dissimilar Diff",
    "(out if isinstance(out, bool) else out is not None) == (exp is not None)": "check_str text_match_three "
    "text_starta_endb",
    "abs(sum(c * out**n for n, c in enumerate(exp))) <= atol": "find_zero",
}
"""What decides in place of ``out == exp``, by functions. Of ``find_zero`` the coefficients are expected."""
_CANONICAL = """\
import builtins, json
atol, names = {atol!r}, {{"__name__": "canonical", "__builtins__": builtins}}
exec({source!r}, names)
def tuples(value):
    return tuple(map(tuples, value)) if isinstance(value, list) else value
def arguments(case):
    args = json.loads(case)
    return {arguments}
def expected(case):
    try:
        return {expected}(*arguments(case))
    except Exception as error:
        raise OSError("the canonical solution fails: " + repr(error)) from error
def near(out, exp, most):
    if isinstance(exp, (list, tuple)):
        return len(out) == len(exp) and all(near(*pair, most) for pair in zip(out, exp))
    return out == exp or abs(out - exp) <= most + 1e-7 * abs(exp) < float("inf")
def agree(out, exp):
    floats = exp if isinstance(exp, (list, tuple)) and exp else [exp]
    most = atol or 1e-6 * all(isinstance(one, float) for one in floats)
    return {agree} or (most > 0 and type(out) == type(exp) and near(out, exp, most))
"""
_GIVEN = """\
import json
def lists(value):
    return [lists(one) for one in value] if isinstance(value, (list, tuple)) else value
def numbered(value):
    is_numbered = all(key.lstrip("-").isdecimal() for key in value)
    return {int(key): one for key, one in value.items()} if is_numbered else value
def arguments(case):
    return json.loads(case, object_hook=numbered)[0]
def expected(case):
    return json.loads(case, object_hook=numbered)[1]
def agree(out, exp):
    return lists(out) == exp"""
"""JSON has no tuples, and no keys that are numbers."""
_OR_FIRST = " or (isinstance(exp, list) and exp[:1] == [lists(out)])\n"
_CHECK = """
CASES = {cases!r}
def check(candidate):
    for case in CASES.split("\\n"):
        assert agree(candidate(*arguments(case)), expected(case))
"""
"""A case is read twice: a program that changes its arguments changes nothing that is expected."""
_DECIMAL = re.compile(r"(?<!\S)-?\d+\.\d+(?!\S)")
_FRAME = {"PROTO", "FRAME", "MEMOIZE", "BINPUT", "STOP"}
"""Opcodes around the text in a pickle of one."""


class _Test(BaseModel):
    input: StrictStr
    output: StrictStr
    testtype: StrictStr


class _Cases(BaseModel):
    inputs: list[Any] = []
    outputs: list[Any] = []
    fn_name: StrictStr | None = None


_TESTS: TypeAdapter[list[_Test]] = TypeAdapter(Json[list[_Test]])
_CASES: TypeAdapter[_Cases] = TypeAdapter(Json[_Cases])
_TEXTS: TypeAdapter[list[str]] = TypeAdapter(Json[list[str]])
_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(Json[dict[str, Any]])
_INPUTS, _NUMBER, _DATE = map(TypeAdapter, (list[list[Any]], float, dt.datetime))


def evalplus_problem(row: RawRow, *, id_prefix: str, source: str) -> Problem:
    """A row of evalplus, whose inputs fulfil ``contract``, or of the hub, with the tests of HumanEval or MBPP."""
    if not row.has("base_input"):
        parse = mbpp_problem if row.has("test_list") else humaneval_problem
        return parse(row, id_prefix=id_prefix, source=source)
    task, name, prompt = row.text("task_id"), row.text("entry_point"), row.text("prompt")
    is_mbpp, solution = task.startswith("Mbpp/"), prompt + row.text("canonical_solution")
    try:
        ast.parse(solution)
        given = "" if is_mbpp else given_beside(prompt, name)
    except SyntaxError as error:
        raise row.error("prompt and canonical_solution", f"not Python ({error.msg})") from error
    tests = given + _CANONICAL.format(
        atol=row.read(_NUMBER, "atol"),
        source=solution,
        arguments=_by_word(_ARGUMENTS, task[5:] if is_mbpp else "", "args"),
        expected="list" if name == "find_zero" else f"names[{name!r}]",
        agree=_by_word(_AGREEMENTS, name, "out == exp"),
    )
    keys = [key for key in ("base_input", "plus_input") if row.fields.get(key)]
    gold = _function(name, tests, [case for key in keys for case in row.read(_INPUTS, key)])
    name = task.replace("Mbpp/", "mbpp-")
    return Problem(id=name, question=prompt, gold=gold, source=source, solution=solution)


def _by_word(table: Mapping[str, str], word: str, default: str) -> str:
    return next((rule for rule, words in table.items() if word in words.split()), default)


def livecodebench_problem(row: RawRow, *, id_prefix: str, source: str) -> Problem:
    """A row of LiveCodeBench, with its public and private tests; a program must print the expected lines."""
    del id_prefix  # rows have ids
    name, starter = row.read(_OBJECT, "metadata").get("func_name"), row.text("starter_code")
    tests, wanted = _all_tests(row), "functional" if name else "stdin"
    if not all(test.testtype == wanted for test in tests):
        raise row.error("testtype", f"expected {wanted}, since metadata has func_name={name}")
    cases: list[Any] = [(test.input, test.output) for test in tests]
    try:
        if name:
            cases = [([*map(json.loads, a.split("\n"))], json.loads(b)) for a, b in cases]
    except ValueError as error:
        raise row.error("tests", f"input or output of a function is no JSON ({error})") from error
    gold = _gold(name, starter, cases, exact=True)
    question = _question(row.text("question_content"), starter)
    return Problem(id=row.text("question_id"), question=question, gold=gold, source=source)


def _all_tests(row: RawRow) -> list[_Test]:
    """Public and private tests; none if they are too long. Of a pickle the opcodes are read, and none is executed."""
    public = row.read(_TESTS, "public_test_cases")
    text: Any = row.text("private_test_cases")
    try:
        if not text.startswith("["):
            packed = base64.b64decode(text, validate=True)
            pickled = zlib.decompressobj().decompress(packed, MAX_TESTS)
            if len(pickled) == MAX_TESTS:
                return []
            opcodes = pickletools.genops(pickled)
            [text] = [value for opcode, value, _ in opcodes if opcode.name not in _FRAME]
        return [*public, *_TESTS.validate_python(text)]
    except (ValueError, zlib.error) as error:
        reason = f"neither JSON nor a pickle of one text of JSON ({reason_of(error)})"
        raise row.error("private_test_cases", reason) from error


def apps_problem(row: RawRow, *, id_prefix: str, source: str) -> Problem:
    """A row of APPS. A text that is empty holds nothing."""
    found = row.read(_CASES, "input_output") if row.text("input_output").strip() else _Cases()
    solutions = row.read(_TEXTS, "solutions") if row.text("solutions").strip() else []
    starter, name = row.text("starter_code"), found.fn_name
    cases = [*zip(found.inputs, found.outputs, strict=False)]
    is_even = len(found.inputs) == len(found.outputs)
    if not is_even or (name and not all(isinstance(given, list) for given, _ in cases)):
        raise row.error("input_output", "expected as many inputs as outputs, lists of a function")
    return Problem(
        id=f"{id_prefix}-{row.text('problem_id', 'id')}",
        question=_question(row.text("question"), starter),
        gold=_gold(name, "".join([starter, *solutions[:1]]), cases, exact=False),
        source=source,
        solution=next(iter(solutions), None),
    )


def _gold(
    name: str | None, source: str, cases: Sequence[Any], *, exact: bool
) -> CodeGold | ProgramGold:
    """Of a function, which is a method if ``source`` has the class ``Solution``, or else of a program.

    If not ``exact``, a result may stand in a list, and numbers with a decimal point may differ by 1e-6.
    """
    if name:
        entry_point = f"Solution().{name}" if "class Solution" in source else name
        return _function(entry_point, _GIVEN + ("\n" if exact else _OR_FIRST), cases)
    tests = tuple((_lines(given), _lines(wanted)) for given, wanted in cases)
    if sum(len(given) + len(wanted) for given, wanted in tests) > MAX_TESTS:
        tests = ()
    has_decimals = not exact and any(_DECIMAL.search(wanted) for _, wanted in tests)
    return ProgramGold(tests=tests, exact=exact, tolerance=1e-6 if has_decimals else 0.0)


def _lines(value: object) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _function(entry_point: str, tests: str, cases: Sequence[object]) -> CodeGold:
    whole = tests + _CHECK.format(cases="\n".join(map(json.dumps, cases)))
    kept = whole if cases and len(whole) <= MAX_TESTS else ""
    return CodeGold(entry_point=entry_point, tests=kept)


def _question(text: str, starter: str) -> str:
    code = f"\n\nBegin with this code:\n\n```python\n{starter.rstrip()}\n```"
    return text.strip() + (code if starter.strip() else "")


HUMANEVAL_PLUS, MBPP_PLUS = (
    DataSet(
        parse=evalplus_problem,
        splits=("test",),
        patterns=(f"{file}*.jsonl", f"{file}*.jsonl.gz", *BY_SPLIT),
        hub_id=f"evalplus/{file.lower()}",
    )
    for file in ("HumanEvalPlus", "MbppPlus")
)
LIVECODEBENCH = DataSet(
    parse=livecodebench_problem,
    splits=("test",),
    patterns=("test*.jsonl", *BY_SPLIT),
    day_of=lambda row: row.read(_DATE, "contest_date").date(),
)
APPS = DataSet(parse=apps_problem, splits=("train", "test"))
