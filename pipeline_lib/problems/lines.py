"""Rows as problems by the names of their columns: one's own data, and published sets of mathematics.

A row is of a kind of `kinds`, whose ``read_line`` makes the gold of its fields. Columns that are no part of the problem
go with it, as `Problem.columns`.
"""

import ast
import builtins
import datetime as dt
import decimal
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError

from pipeline_lib.errors import BadInputError, first_fault, reason_of, suggestion
from pipeline_lib.kinds.code import CODE
from pipeline_lib.kinds.kind import Gold, Kind, Text
from pipeline_lib.kinds.math import MATH, last_boxed, without_thousands
from pipeline_lib.kinds.program import PROGRAM
from pipeline_lib.kinds.table import find_kind
from pipeline_lib.params.paths import LINES, ColumnParams, DataParams
from pipeline_lib.problems.data_set import DataSet, RawRow
from pipeline_lib.records import Problem
from pipeline_lib.store.files import digest_json

MARK = "####"
"""Before the answer of a worked solution, as in GSM8K."""
TEXTS: TypeAdapter[list[str]] = TypeAdapter(Annotated[list[str], Field(min_length=1)])
_ID_CHARACTERS = 16
_PUBLISHED = DataParams(dataset=LINES, columns=ColumnParams(id="unique_id"))
"""Rows of MATH, AIME or HMMT."""


class Turn(BaseModel, extra="ignore", frozen=True):
    """One message of a line; further fields are ignored."""

    role: Literal["system", "user", "assistant"]
    content: Annotated[Text, Field(strict=True)]


def _asks(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    if turns[-1].role != "user":
        raise ValueError("the last message must be the user's")
    return turns


Turns = Annotated[tuple[Turn, ...], Field(min_length=1), AfterValidator(_asks)]
_TURNS: TypeAdapter[tuple[Turn, ...]] = TypeAdapter(Turns)


def lines_data_set(form: DataParams) -> DataSet:
    """The data set of rows of that form, in a train and a test split or a single one."""
    return DataSet(
        parse=functools.partial(problem_of_row, form=form),
        checked=functools.partial(_with_columns, form=form),
        splits=("train", "test"),
        published_splits={"train": form.splits.train, "test": form.splits.test},
        many_editions=True,
    )


def _columns(columns: ColumnParams) -> dict[str, list[str]]:
    """Columns of each part of a problem, of which the first with a value is used."""
    parts = {
        "question": columns.messages or columns.question,
        "answer": columns.answer,
        "id": columns.id,
        "tests": columns.tests,
        "kind": columns.kind,
        "solution": columns.solution,
    }
    return {part: names.split("|") for part, names in parts.items()}


def _with_columns(rows: Iterable[RawRow], *, form: DataParams) -> Sequence[RawRow]:
    """``rows``; BadInputError names a column that no row has once, not for every row."""
    rows = [*rows]
    there = {name for row in rows for name in row.fields}
    columns, usual = _columns(form.columns), _columns(ColumnParams())
    wanted = {part: names for part, names in columns.items() if names != usual[part]}
    wanted.setdefault("question", columns["question"])
    if not form.kind:
        ways = ("answer", "solution", "tests", "kind")
        wanted.setdefault("answer", [name for part in ways for name in columns[part]])
    for part, names in wanted.items():
        if not there.intersection(names):
            raise BadInputError(
                f"{rows[0].where}: no row has a column {' or '.join(names)}"
                f"{suggestion(names[0], there) or ';'} there are {', '.join(sorted(there))}; set "
                f"prepare.columns.{part} to one of them"
            )
    return rows


def problem_of_row(
    row: RawRow, *, id_prefix: str, source: str, form: DataParams = _PUBLISHED
) -> Problem:
    """The problem of a row; its id, unless it has one, is its number in a published set, else made of its content."""
    columns = _columns(form.columns)
    used = {part: next(filter(row.has, names), names[0]) for part, names in columns.items()}
    further = [name for name in row.fields if row.has(name) and name not in used.values()]
    question, turns = _asked(row, columns["question"], form)
    kind = _kind(row, used, form)
    solution = row.text(used["solution"]) if row.has(used["solution"]) else None
    fields = {name: row.fields[name] for name in further}
    if kind is MATH:
        given = row.has(used["answer"]) or solution is None
        answer = row.text(*columns["answer"]) if given else None
        fields |= {"gold": _final_answer(row, used["answer"], answer, solution)}
        solution = solution or (answer if MARK in str(answer) else None)
    elif kind is CODE:
        fields |= _code_fields(row, used["tests"])
    else:
        fields |= {"gold": row.fields.get(used["answer"]), "tests": row.fields.get(used["tests"])}
    gold = _gold(row, kind, fields, columns["answer"])
    content = [turns or question, kind.name, kind.write_line(gold)]
    made = (
        f"{id_prefix}-{row.index}" if form is _PUBLISHED else digest_json(content)[:_ID_CHARACTERS]
    )
    name = row.text(used["id"]) if row.has(used["id"]) else made
    try:
        kind.split_unit(name)
    except BadInputError as error:
        raise row.error(used["id"], str(error)) from error
    return Problem(
        id=name,
        question=question,
        gold=gold,
        source=source,
        solution=solution,
        columns={name: _json(row, name) for name in further},
        turns=turns,
    )


def _asked(
    row: RawRow, names: Sequence[str], form: DataParams
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The question; and the messages, if there are several."""
    name = next(filter(row.has, names), names[0])
    given = row.fields.get(name)
    if name == (form.columns.messages or "messages"):
        given = _decoded(given)
    elif not isinstance(given, list):
        given = [{"role": "user", "content": row.text(*names)}]
    try:
        turns = tuple((turn.role, turn.content) for turn in _TURNS.validate_python(given))
    except ValidationError as error:
        raise row.error(
            name, f"{first_fault(error)}; a question is a text or a list of {{role, content}}"
        ) from error
    if any(role == "system" for role, _ in turns[1:]):
        raise row.error(name, "a system message behind another one")
    if form.system and turns[0][0] != "system":
        turns = (("system", form.system), *turns)
    question = "\n\n".join(content for role, content in turns if role != "system")
    return question, turns if len(turns) > 1 else ()


def _kind(row: RawRow, used: Mapping[str, str], form: DataParams) -> Kind[Any]:
    if form.kind or row.has(used["kind"]):
        return find_kind(form.kind or row.fields[used["kind"]], where=row.where)
    if not row.has(used["tests"]):
        return MATH
    tests = row.fields[used["tests"]]
    pairs = isinstance(tests, list) and all(isinstance(test, Mapping) for test in tests)
    return PROGRAM if pairs else CODE


def _final_answer(row: RawRow, key: str, answer: str | None, solution: str | None) -> str:
    """The answer, or what a worked answer or solution ends with."""
    text = answer or solution or ""
    if MARK in text:
        final = without_thousands(text.rpartition(MARK)[2].strip(" ,\n"))
    else:
        final = answer.strip() if answer else last_boxed(text) or ""
    if not final:
        raise row.error(key, f"no answer, and none after {MARK} or in a \\boxed of the solution")
    return final


def _code_fields(row: RawRow, name: str) -> dict[str, Any]:
    """The tests, and the function that asserts call unless the row names it."""
    given = isinstance(row.fields.get(name), list)
    listed: list[str] = row.read(TEXTS, name) if given else [row.text(name)]
    tests = "\n".join(listed)
    if row.has("entry_point"):
        return {"tests": tests}
    return {"tests": tests, "entry_point": called_function(row, name, tests)}


def called_function(row: RawRow, key: str, tests: str) -> str:
    """The function under test: the first name that every assert of ``tests``, under ``key``, calls.

    Outer calls come before those in their arguments. A builtin is taken only if every assert calls no
    other function: ``set`` in ``set(f(x)) == {1}`` is skipped, but one problem asks for a ``sum``.

    Raises:
        BadInputError: the tests are not Python, or have no such function.
    """
    try:
        body = ast.parse(tests).body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise row.error(key, f"not Python ({reason_of(error)})") from error
    called = [list(_called_names(node)) for node in body if isinstance(node, ast.Assert)]
    in_all = (
        [name for name in called[0] if all(name in names for names in called)] if called else []
    )
    own = [name for name in in_all if not hasattr(builtins, name)]
    for name in own or in_all:
        return name
    raise row.error(key, "no function is called in every assert")


def _called_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield node.func.id
    for child in ast.iter_child_nodes(node):
        yield from _called_names(child)


def _gold(row: RawRow, kind: Kind[Any], fields: Mapping[str, Any], answers: Sequence[str]) -> Gold:
    """The gold, of an answer under one of ``answers``. Lists and numbers may be JSON in a text, as in a CSV."""
    gold: Gold
    try:
        try:
            gold = kind.read_line(fields)
        except ValidationError:
            gold = kind.read_line({name: _decoded(value) for name, value in fields.items()})
    except ValidationError as error:
        if error.errors()[0]["loc"][:1] == ("gold",) and fields.get("gold") is None:
            raise row.missing(answers) from error
        raise row.error(kind.name, first_fault(error, unnamed="gold")) from error
    return gold


def _decoded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _json(row: RawRow, name: str) -> Any:
    try:
        return json.loads(json.dumps(row.fields[name], allow_nan=False, default=_as_text))
    except (TypeError, ValueError, RecursionError) as error:
        raise row.error(name, f"no JSON value ({reason_of(error)})") from error


def _as_text(value: Any) -> str:
    if isinstance(value, dt.date | dt.time | decimal.Decimal):
        return str(value)
    raise TypeError(type(value).__name__)
