"""Data sets of code whose tests are cases: HumanEval+, MBPP+, LiveCodeBench and APPS.

Of evalplus the canonical solution, which gives the expected outputs, is part of the tests: it runs in the sandbox alone.
Source: ``evalplus.data.mbpp`` (types of arguments), ``evalplus.eval`` (comparison); of LiveCodeBench
``lcb_runner.benchmarks.code_generation``; of hendrycks/apps ``eval/testing_util.py``.
"""

import ast
import base64
import datetime as dt
import json
import pickletools
import re
import zlib
from collections.abc import Sequence
from typing import Any

from pydantic import Json, TypeAdapter

from pipeline_lib.errors import reason_of
from pipeline_lib.kinds.code import MAX_TESTS, CodeGold, given_beside
from pipeline_lib.kinds.kind import Gold
from pipeline_lib.kinds.program import ProgramGold
from pipeline_lib.problems.data_set import BY_SPLIT, DataSet, RawRow
from pipeline_lib.problems.row_parsers import humaneval_problem, mbpp_problem
from pipeline_lib.records import Problem

_RULES = {
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
    "set(out) == set(exp)": "similar_elements find_char_long common_in_nested_lists extract_singly larg_nnum "
    "intersection_array find_dissimilar Diff",
    "(out if isinstance(out, bool) else out is not None) == (exp is not None)": "check_str text_match_three "
    "text_starta_endb",
    "abs(sum(c * out**n for n, c in enumerate(exp))) <= atol": "find_zero",
}
"""Arguments of tasks of MBPP+, by number, made of ``args`` in JSON, and what decides for functions of evalplus, by name,
in place of ``out == exp``. Of ``find_zero`` the coefficients are expected."""
_RULE_OF = {word: rule for rule, words in _RULES.items() for word in words.split()}
_TESTS = """\
{given}import builtins, json
atol, names = {atol!r}, {{"__name__": "canonical", "__builtins__": builtins}}
exec({source!r}, names)
def tuples(value): return tuple(map(tuples, value)) if isinstance(value, list) else value
def numbered(one):
    has_numbers = isinstance(one, dict) and all(key.lstrip("-").isdecimal() for key in one)
    return {{int(key): one[key] for key in one}} if has_numbers else one
def arguments(case):
    args = json.loads(case)
    return {arguments}
def near(out, exp, most):
    if isinstance(exp, (list, tuple)):
        return len(out) == len(exp) and all(near(*pair, most) for pair in zip(out, exp))
    return out == exp or abs(out - exp) <= most + 1e-7 * abs(exp) < float("inf")
def agree(out, exp):
    most = atol or 1e-6 * all(isinstance(one, float) for one in (exp if exp and type(exp) in (list, tuple) else [exp]))
    return {agree} or (most > 0 and type(out) == type(exp) and near(out, exp, most))
CASES = {cases!r}
def check(candidate):
    for case in CASES.split("\\n"):
        try:
            given, args = arguments(case), arguments(case)
            exp = {expected}
        except Exception as error:
            raise OSError("the canonical solution fails: " + repr(error)) from error
        assert agree(candidate(*given), exp)
"""
"""A case is read twice: a program that changes its arguments changes nothing that is expected."""
_DECIMAL = re.compile(r"(?<!\S)-?\d+\.\d+(?!\S)")
_FRAME = {"PROTO", "FRAME", "MEMOIZE", "BINPUT", "STOP"}
"""Opcodes around the text in a pickle of one."""
_PAIRS: TypeAdapter[list[dict[str, str]]] = TypeAdapter(Json[list[dict[str, str]]])
_TEXTS: TypeAdapter[list[str]] = TypeAdapter(Json[list[str]])
_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(Json[dict[str, Any]])
_INPUTS, _ATOL, _DATE = TypeAdapter(list[list[Any]]), TypeAdapter(float), TypeAdapter(dt.datetime)


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
    keys = [key for key in ("base_input", "plus_input") if row.fields.get(key)]
    cases = [case for key in keys for case in row.read(_INPUTS, key)]
    gold = _function(
        name,
        cases,
        given=given,
        source=solution,
        arguments=_RULE_OF.get(task.removeprefix("Mbpp/"), "args"),
        expected="args[0]" if name == "find_zero" else f"names[{name!r}](*args)",
        agree=_RULE_OF.get(name, "out == exp"),
        atol=row.read(_ATOL, "atol"),
    )
    name = task.replace("Mbpp/", "mbpp-")
    return Problem(id=name, question=prompt, gold=gold, source=source, solution=solution)


def livecodebench_problem(row: RawRow, *, id_prefix: str, source: str) -> Problem:
    """A row of LiveCodeBench, with its public and private tests."""
    del id_prefix  # rows have ids
    name, starter = row.read(_OBJECT, "metadata").get("func_name"), _starter(row)
    try:
        tests, wanted = _all_tests(row), "functional" if name else "stdin"
        is_of_type = all(test["testtype"] == wanted for test in tests)
        cases: list[Any] = [(test["input"], test["output"]) for test in tests]
        if name:
            cases = [([*map(json.loads, a.split("\n"))], json.loads(b)) for a, b in cases]
    except (ValueError, KeyError, zlib.error) as error:
        raise row.error("private_test_cases", f"not as published ({reason_of(error)})") from error
    if not is_of_type:
        raise row.error("testtype", f"expected {wanted}, since metadata has func_name={name}")
    gold = _gold(name, starter, cases, exact=True)
    question = _question(row.text("question_content"), starter)
    return Problem(id=row.text("question_id"), question=question, gold=gold, source=source)


def _all_tests(row: RawRow) -> list[dict[str, str]]:
    """Public and private tests; none if they are too long. Of a pickle the opcodes are read, and none is executed."""
    public, text = row.read(_PAIRS, "public_test_cases"), row.text("private_test_cases")
    if not text.startswith("["):
        pickled = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), MAX_TESTS)
        if len(pickled) == MAX_TESTS:
            return []
        opcodes = pickletools.genops(pickled)
        [text] = [str(value) for opcode, value, _ in opcodes if opcode.name not in _FRAME]
    return [*public, *_PAIRS.validate_python(text)]


def apps_problem(row: RawRow, *, id_prefix: str, source: str) -> Problem:
    """A row of APPS. A text that is empty holds nothing."""
    found = row.read(_OBJECT, "input_output") if row.has("input_output") else {}
    solutions = row.read(_TEXTS, "solutions") if row.has("solutions") else []
    name, starter = found.get("fn_name"), _starter(row)
    inputs, outputs = found.get("inputs", []), found.get("outputs", [])
    lists = [inputs, outputs, *(inputs if name else ())]
    if not all(isinstance(one, list) for one in lists) or len(inputs) != len(outputs):
        raise row.error("input_output", "expected as many inputs as outputs, lists of a function")
    cases, beside = [*zip(inputs, outputs, strict=True)], "".join([starter, *solutions[:1]])
    key, question = row.text("problem_id", "id"), _question(row.text("question"), starter)
    gold, solution = _gold(name, beside, cases, exact=False), next(iter(solutions), None)
    key = f"{id_prefix}-{key}"
    return Problem(id=key, question=question, gold=gold, source=source, solution=solution)


def _starter(row: RawRow) -> str:
    return row.text("starter_code") if row.has("starter_code") else ""


def _question(text: str, starter: str) -> str:
    code = f"\n\nBegin with this code:\n\n```python\n{starter.rstrip()}\n```"
    return text.strip() + (code if starter.strip() else "")


def _gold(name: str | None, beside: str, cases: Sequence[Any], *, exact: bool) -> Gold:
    """If not ``exact``, results may be the first of a list, and numbers with a decimal point may differ by 1e-6."""
    if name:
        first = "" if exact else "*(exp[:1] if isinstance(exp, list) else ())"
        return _function(
            f"Solution().{name}" if "class Solution" in beside else name,
            cases,
            arguments="[*map(numbered, args[0])]",
            expected="json.loads(case)[1]",
            agree=f"json.loads(json.dumps(out)) in (exp, {first})",
            atol=-exact,
        )
    tests = tuple((_lines(given), _lines(wanted)) for given, wanted in cases)
    has_decimals = not exact and any(_DECIMAL.search(wanted) for _, wanted in tests)
    kept = tests if sum(len(a) + len(b) for a, b in tests) <= MAX_TESTS else ()
    return ProgramGold(tests=kept, exact=exact, tolerance=1e-6 * has_decimals)


def _lines(value: object) -> str:
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _function(name: str, cases: Sequence[Any], **parts: object) -> CodeGold:
    lines = "\n".join(map(json.dumps, cases))
    tests = _TESTS.format(**{"cases": lines, "source": "", "given": "", **parts})
    return CodeGold(entry_point=name, tests=tests if cases and len(tests) <= MAX_TESTS else "")


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
