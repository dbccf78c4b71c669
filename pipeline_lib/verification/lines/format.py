"""Input lines of `reasonloop verify`, `build` and `evaluate`, validated before anything is judged.

A line is a JSON object with ``text`` (a model's answer; null if there is none), ``kind`` ("math" by
default) and the fields of that kind's gold (``read_line`` in its module of `kinds`): ``gold`` or,
as in GSM8K, a ``reference`` that ends in the answer; ``numbers`` and ``target``; ``entry_point``
and ``tests``; or, for ARC, a ``gold`` that is a grid (rows of colours). ``id``, ``problem_id``,
``question``, ``model``, ``finish_reason``, ``prompt_tokens``, ``completion_tokens`` and a
publisher's ``label`` are optional; other keys are ignored, so published files can be verified as
they are.
"""

import json
import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
)

from pipeline_lib.errors import BadInputError, Faults
from pipeline_lib.kinds.kind import Gold
from pipeline_lib.kinds.line_fields import DistinctIds, Name, line_error
from pipeline_lib.kinds.math import MATH
from pipeline_lib.kinds.table import KINDS
from pipeline_lib.records import FinishReason, Path, Problem, Row
from pipeline_lib.storage.files import numbered_json_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One answer to judge."""

    id: str
    problem_id: str
    question: str
    model: str | None
    gold: Gold
    text: str | None
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    label: bool | None
    """The publisher's judgement, if the file has one."""


def _written(value: Any) -> Any:
    # pydantic's str refuses lone surrogates, which model output may contain.
    if not isinstance(value, str):
        raise ValueError(f"expected a string, got {type(value).__name__}")  # noqa: TRY004 - pydantic
    return value


def _text(value: Any) -> Any:
    return value if value is None else _written(value)


_Written = Annotated[Any, AfterValidator(_written)]
_Text = Annotated[Any, AfterValidator(_text)]
_Count = Annotated[StrictInt, Field(ge=0)]


class _CommonFields(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: Name | None = None
    problem_id: Name | None = None
    question: _Written = ""
    model: StrictStr | None = None
    text: _Text
    finish_reason: FinishReason = FinishReason.STOP
    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    label: StrictBool | None = Field(
        default=None, validation_alias=AliasChoices("label", "label_by_source")
    )


_DEFAULT_KIND = MATH.name


def read_lines(path: pathlib.Path) -> Iterator[Line]:
    """Yield the lines of a file, each validated.

    A line without ``id`` gets its problem's id and its number among the lines of that problem.

    Args:
        path: JSON lines, plain or ``.gz``.

    Raises:
        BadInputError: no such file, lines that cannot be used, or an id twice; with file, line and key of
            up to 20 lines.
    """
    _refuse_logs(path)
    faults = Faults()
    with faults.kept():
        yield from _distinct_lines(path, faults)
    faults.raise_any()


_BEGINNING_BYTES = 1 << 20


def _refuse_logs(path: pathlib.Path) -> None:
    """Name the format of a log of another program, instead of the fields that it lacks."""
    if not path.is_file():
        return
    with path.open("rb") as stream:
        first, rest = stream.readline(_BEGINNING_BYTES), stream.read(_BEGINNING_BYTES)
    try:
        keys = set(json.loads(first))
    except (ValueError, TypeError, RecursionError):
        keys = set()
    is_zip = first.startswith(b"PK\3\4") and b"_journal/" in first
    if is_zip or ("text" not in keys and b'"eval_id"' in first + rest):
        what, source = "a log of Inspect", "id, target and output (`inspect log dump` prints them)"
    elif "text" not in keys and {"doc", "resps"} <= keys:
        what, source = "a file of samples of lm-evaluation-harness", "doc_id, target and resps"
    else:
        return
    raise BadInputError(
        f'{path}: is {what}, which is not read yet; write a line {{"problem_id", "gold", "text"}} for each '
        f"answer, from its {source}"
    )


def _distinct_lines(path: pathlib.Path, faults: Faults) -> Iterator[Line]:
    seen: dict[str, int] = {}
    ids = DistinctIds()
    for number, row in numbered_json_lines(path):
        line = None
        with faults.kept():
            common, gold = _parsed(row, where=f"{path}:{number}")
            problem_id = common.problem_id or common.id or f"line-{number}"
            index = seen.get(problem_id, 0)
            seen[problem_id] = index + 1
            name = common.id or f"{problem_id}#{index}"
            ids.add(name, path=path, number=number)
            line = _line(common, gold, name=name, problem_id=problem_id)
        if line is not None:
            yield line


def parse_line(row: Mapping[str, Any], *, where: str, unnamed: str) -> Line:
    """The line of one JSON object; ``unnamed`` is its id if it has none.

    Raises:
        BadInputError: it cannot be used; with ``where`` and the key.
    """
    common, gold = _parsed(row, where=where)
    name = common.id or unnamed
    return _line(common, gold, name=name, problem_id=common.problem_id or name)


def _line(common: _CommonFields, gold: Gold, *, name: str, problem_id: str) -> Line:
    return Line(gold=gold, **{**dict(common), "id": name, "problem_id": problem_id})


def _parsed(row: Mapping[str, Any], *, where: str) -> tuple[_CommonFields, Gold]:
    name = row.get("kind", _DEFAULT_KIND)
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise BadInputError(f"{where}: kind={name!r}; expected one of {', '.join(KINDS)}")
    try:
        return _CommonFields.model_validate(row), kind.read_line(row)
    except ValidationError as error:
        raise line_error(error, where=where, unnamed="gold") from error


def path_line(path: Path, problem: Problem) -> Row:
    """A path with its problem, as a line that `reasonloop verify`, `build` and `evaluate` read."""
    return {
        "id": path.id,
        "problem_id": problem.id,
        "kind": problem.kind.name,
        "question": problem.question,
        **problem.kind.write_line(problem.gold),
        **asdict(path.provenance),
        "finish_reason": path.finish_reason.value,
        "prompt_tokens": path.prompt_tokens,
        "completion_tokens": path.completion_tokens,
        "logprob": path.logprob,
        "text": path.text if path.error is None else None,
    }
