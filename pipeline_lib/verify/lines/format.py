"""Input lines of `reasonloop verify`, `build` and `evaluate`, validated before anything is judged.

A line is a JSON object with ``text`` (a model's answer; null if there is none), ``kind`` ("math" by
default) and the fields of that kind's gold (``read_line`` in its module of `kinds`): ``gold`` or,
as in GSM8K, a ``reference`` that ends in the answer; ``numbers`` and ``target``; ``entry_point``
and ``tests``; or, for ARC, a ``gold`` that is a grid (rows of colours). ``id``, ``problem_id``,
``question``, ``model``, ``finish_reason``, ``prompt_tokens``, ``completion_tokens`` and a
publisher's ``label`` are optional; other keys are ignored, so published files can be verified as
they are.
"""

import contextlib
import json
import pathlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    SkipValidation,
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
from pipeline_lib.store.files import numbered_json_lines


def _written(value: Any) -> Any:
    # pydantic's str refuses lone surrogates, which model output may contain.
    if not isinstance(value, str):
        raise ValueError(f"expected a string, got {type(value).__name__}")  # noqa: TRY004 - pydantic
    return value


_Id = Annotated[Name, BeforeValidator(lambda value: "" if value is None else value)]
_Written = Annotated[str, PlainValidator(_written)]
_Count = Annotated[StrictInt, Field(ge=0)]


class Line(BaseModel):
    """One answer to judge."""

    model_config = ConfigDict(extra="ignore", frozen=True, arbitrary_types_allowed=True)

    id: _Id = ""
    problem_id: _Id = ""
    question: _Written = ""
    model: StrictStr | None = None
    gold: SkipValidation[Gold]
    """Read by its kind, after the other fields."""
    text: _Written | None
    finish_reason: FinishReason = FinishReason.STOP
    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    label: StrictBool | None = Field(
        default=None, validation_alias=AliasChoices("label", "label_by_source")
    )
    """The publisher's judgement, if the file has one."""

    @property
    def failure(self) -> str | None:
        """Why the model was not sampled, if its request failed."""
        return "not sampled" if self.finish_reason is FinishReason.ERROR else None


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
    seen: Counter[str] = Counter()
    ids = DistinctIds()
    with faults.kept():
        for number, row in numbered_json_lines(path):
            with faults.kept():
                line = parse_line(row, where=f"{path}:{number}")
                problem_id = line.problem_id or line.id or f"line-{number}"
                name = line.id or f"{problem_id}#{seen[problem_id]}"
                seen[problem_id] += 1
                ids.add(name, path=path, number=number)
                yield line.model_copy(update={"id": name, "problem_id": problem_id})
    faults.raise_any()


_BEGINNING_BYTES = 1 << 20


def _refuse_logs(path: pathlib.Path) -> None:
    """Name the format of a log of another program, instead of the fields that it lacks."""
    if not path.is_file():
        return
    with path.open("rb") as stream:
        first, rest = stream.readline(_BEGINNING_BYTES), stream.read(_BEGINNING_BYTES)
    keys: set[str] = set()
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        keys = set(json.loads(first))
    if "text" in keys:
        return
    is_zip = first.startswith(b"PK\3\4") and b"_journal/" in first
    if is_zip or b'"eval_id"' in first + rest:
        what, source = "a log of Inspect", "id, target and output (`inspect log dump` prints them)"
    elif {"doc", "resps"} <= keys:
        what, source = "a file of samples of lm-evaluation-harness", "doc_id, target and resps"
    else:
        return
    raise BadInputError(
        f'{path}: is {what}, which is not read yet; write a line {{"problem_id", "gold", "text"}} for each '
        f"answer, from its {source}"
    )


def parse_line(row: Mapping[str, Any], *, where: str) -> Line:
    """The line of one JSON object; an id that it lacks is empty.

    Raises:
        BadInputError: it cannot be used; with ``where`` and the key.
    """
    name = row.get("kind", MATH.name)
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise BadInputError(f"{where}: kind={name!r}; expected one of {', '.join(KINDS)}")
    try:
        line = Line.model_validate({"gold": None, **row})
        return line.model_copy(update={"gold": kind.read_line(row)})
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
