"""Problems of one's own: rows of any source, read by the names of their columns.

A row is of a kind of `kinds`, whose ``read_line`` makes the gold of its fields. Columns that are no part of the problem
go with it, as `Problem.columns`.
"""

import ast
import datetime as dt
import decimal
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError

from pipeline_lib.errors import BadInputError, first_fault, reason_of, suggestion
from pipeline_lib.kinds.code import CODE
from pipeline_lib.kinds.kind import Gold, Kind, Text
from pipeline_lib.kinds.math import MATH, last_boxed
from pipeline_lib.kinds.program import PROGRAM
from pipeline_lib.kinds.table import find_kind
from pipeline_lib.params.paths import LinesParams
from pipeline_lib.problems.data_set import DataSet, RawRow
from pipeline_lib.problems.row_parsers import entry_point
from pipeline_lib.records import Problem
from pipeline_lib.store.files import digest_json

_MESSAGES = "messages"
_USUAL: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "problem", "prompt", _MESSAGES),
    "answer": ("answer", "gold"),
    "id": ("id", "unique_id"),
    "tests": ("tests",),
    "kind": ("kind",),
    "solution": ("solution",),
}
"""Columns of each part of a problem where the params name none; the first that has a value."""
_DECIDING = ("answer", "solution", "tests", "kind")
"""Parts of which one is needed where the params name no kind."""
_MARK = "####"
"""Before the answer of a worked solution, as in GSM8K."""
_ID_CHARACTERS = 16


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


def lines_data_set(form: LinesParams) -> DataSet:
    """The data set of rows of that form, in a train and a test split or a single one."""
    return DataSet(
        parse=functools.partial(_problem, form=form),
        splits=("train", "test"),
        published_splits={"train": form.splits.train, "test": form.splits.test},
        check=functools.partial(_check_columns, form=form),
        many_editions=True,
    )


def _columns(form: LinesParams) -> dict[str, tuple[str, ...]]:
    """Columns of each part of a problem, the first of which that has a value is used."""
    given = {
        "question": form.columns.question or form.columns.messages,
        "answer": form.columns.answer,
        "id": form.columns.id,
        "tests": form.columns.tests,
        "kind": form.columns.kind,
        "solution": form.columns.solution,
    }
    columns = {part: (name,) if name else _USUAL[part] for part, name in given.items()}
    return columns | {"kind": ()} if form.kind and not form.columns.kind else columns


def _check_columns(rows: Sequence[RawRow], *, form: LinesParams) -> None:
    """Name a column that no row has once, not for every row."""
    there = {name for row in rows for name in row.fields}
    columns = _columns(form)
    wanted = {part: names for part, names in columns.items() if names not in {(), _USUAL[part]}}
    wanted.setdefault("question", columns["question"])
    if not form.kind:
        wanted.setdefault("answer", tuple(name for part in _DECIDING for name in columns[part]))
    for part, names in wanted.items():
        if not there.intersection(names):
            raise BadInputError(
                f"{rows[0].where}: no row has a column {' or '.join(names)}"
                f"{suggestion(names[0], there) or ';'} there are {', '.join(sorted(there))}; set "
                f"prepare.columns.{part} to one of them"
            )


def _problem(row: RawRow, *, id_prefix: str, source: str, form: LinesParams) -> Problem:
    del id_prefix  # an id of question and gold is the same in every format and order
    columns = _columns(form)
    used = {part: next(filter(row.has, names), None) for part, names in columns.items()}
    further = [name for name in row.fields if row.has(name) and name not in used.values()]
    question, turns = _asked(row, columns["question"], form)
    kind = _kind(row, used, form)
    solution = row.text(used["solution"]) if used["solution"] else None
    answer = row.fields[used["answer"]] if used["answer"] else None
    if used["answer"] and isinstance(answer, str):
        answer = _filled(row, used["answer"])
        if kind is MATH and _MARK in answer:
            solution, answer = solution or answer, None
    gold = _gold(
        row,
        kind,
        {name: row.fields[name] for name in further}
        | (_math_fields(answer, solution) if kind is MATH else {"gold": answer})
        | (_test_fields(row, used["tests"], kind) if used["tests"] else {}),
        names=[used["answer"]] if used["answer"] else columns["answer"],
    )
    made = digest_json([turns or question, kind.name, kind.write_line(gold)])[:_ID_CHARACTERS]
    name = _filled(row, used["id"]) if used["id"] else made
    try:
        kind.split_unit(name)
    except BadInputError as error:
        raise row.error(used["id"] or columns["id"][0], str(error)) from error
    return Problem(
        id=name,
        question=question,
        gold=gold,
        source=source,
        solution=solution,
        columns={name: _json(row, name) for name in further},
        turns=turns,
    )


def _filled(row: RawRow, name: str) -> str:
    text = row.text(name).strip()
    if not text:
        raise row.error(name, "it is empty")
    return text


def _asked(
    row: RawRow, names: Sequence[str], form: LinesParams
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The question; and the messages, if there are several."""
    name = next(filter(row.has, names), names[0])
    given = row.fields.get(name)
    if name in {_MESSAGES, form.columns.messages}:
        given = _decoded(given)
    elif not isinstance(given, list):
        given = [{"role": "user", "content": row.text(*names)}]
    try:
        turns = tuple((turn.role, turn.content) for turn in _TURNS.validate_python(given))
    except ValidationError as error:
        fault = first_fault(error)
        raise row.error(
            name, f"{fault}; a question is a text or a list of role, content"
        ) from error
    if any(role == "system" for role, _ in turns[1:]):
        raise row.error(name, "a system message behind another one")
    if form.system and turns[0][0] != "system":
        turns = (("system", form.system), *turns)
    question = "\n\n".join(content for role, content in turns if role != "system")
    return question, turns if len(turns) > 1 else ()


def _kind(row: RawRow, used: Mapping[str, str | None], form: LinesParams) -> Kind[Any]:
    if used["kind"] or form.kind:
        return find_kind(row.fields[used["kind"]] if used["kind"] else form.kind, where=row.where)
    tests = row.fields[used["tests"]] if used["tests"] else None
    if tests is None:
        return MATH
    pairs = isinstance(tests, list) and all(isinstance(test, Mapping) for test in tests)
    return PROGRAM if pairs else CODE


def _math_fields(answer: Any, solution: str | None) -> dict[str, Any]:
    """The fields of a gold of mathematics: an answer, or the one of a worked solution."""
    if answer is not None or solution is None:
        return {"gold": answer}
    return {"reference": solution} if _MARK in solution else {"gold": last_boxed(solution)}


def _test_fields(row: RawRow, name: str, kind: Kind[Any]) -> dict[str, Any]:
    """The tests, and the function that asserts call unless the row names it."""
    tests = row.fields[name]
    if kind is not CODE:
        return {"tests": tests}
    tests = "\n".join(row.texts(name)) if isinstance(tests, list) else row.text(name)
    try:
        parsed = ast.parse(tests).body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise row.error(name, f"not Python ({reason_of(error)})") from error
    if row.has("entry_point"):
        return {"tests": tests}
    asserts = [ast.unparse(node) for node in parsed if isinstance(node, ast.Assert)]
    called = entry_point(asserts) if asserts else None
    if called is None:
        raise row.error(name, "no function is called in every assert, and no entry_point is given")
    return {"tests": tests, "entry_point": called}


def _gold(row: RawRow, kind: Kind[Any], fields: Mapping[str, Any], *, names: Sequence[str]) -> Gold:
    """The gold; ``names`` are the columns of the answer. Lists and numbers may be JSON in a text, as in a CSV."""
    gold: Gold
    try:
        try:
            gold = kind.read_line(fields)
        except ValidationError:
            gold = kind.read_line({name: _decoded(value) for name, value in fields.items()})
    except ValidationError as error:
        first = error.errors()[0]
        name, *place = first["loc"] or ("gold",)
        message = first["msg"].removeprefix("Value error, ")
        if name == "gold" and not fields.get("gold"):
            raise row.missing(names) from error
        key = ".".join(map(str, [names[0] if name == "gold" else name, *place]))
        raise row.error(key, f"{message} (kind {kind.name})") from error
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
