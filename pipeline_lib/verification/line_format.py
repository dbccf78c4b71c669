"""The lines that `reasonloop verify`, `build` and `evaluate` read, checked before anything is judged.

A line is a JSON object with ``text`` (what a model wrote; null if nothing came) and what decides
about it: ``gold`` or, as in GSM8K, a ``reference`` that ends in the answer; ``numbers`` and
``target``; ``entry_point`` and ``tests``; or, for ARC, a ``gold`` that is a grid (rows of colours).
``kind`` is "math" where it is left out. ``id``, ``problem_id``, ``question``, ``model``,
``finish_reason``, ``prompt_tokens``, ``completion_tokens`` and a publisher's ``label`` are optional;
other keys are ignored, so files can be verified as they were published.
"""

import math
import pathlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)
from typing_extensions import override

from pipeline_lib.errors import BadInputError
from pipeline_lib.grids import grid_of
from pipeline_lib.records import (
    ArcGold,
    CodeGold,
    CountdownGold,
    FinishReason,
    Gold,
    Kind,
    MathGold,
)
from pipeline_lib.storage.files import numbered_json_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One answer to be judged."""

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
    """What the publisher of the file says, where it says so."""


def _written(value: Any) -> Any:
    # pydantic's own str refuses lone surrogates, which model output may hold.
    if not isinstance(value, str):
        raise ValueError(f"expected a string, got {type(value).__name__}")  # noqa: TRY004 - pydantic
    return value


def _as_written(value: Any) -> Any:
    """Numbers as strings: an id or an answer may stand without quotes."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a string or a finite number, got {value}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else value


def _text(value: Any) -> Any:
    return value if value is None else _written(value)


_Written = Annotated[Any, AfterValidator(_written)]
_Text = Annotated[Any, AfterValidator(_text)]
_Name = Annotated[StrictStr, BeforeValidator(_as_written)]
_Count = Annotated[StrictInt, Field(ge=0)]


class _LineModel(BaseModel, ABC):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: _Name | None = None
    problem_id: _Name | None = None
    question: _Written = ""
    model: StrictStr | None = None
    text: _Text
    finish_reason: FinishReason = FinishReason.STOP
    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    label: StrictBool | None = Field(
        default=None, validation_alias=AliasChoices("label", "label_by_source")
    )

    @abstractmethod
    def decides(self) -> Gold:
        """What the text is judged against."""


class _MathLine(_LineModel):
    kind: Literal["math"] = "math"
    gold: _Name | None = None
    reference: StrictStr | None = None

    @model_validator(mode="after")
    def _some_gold(self) -> "_MathLine":
        if self.gold is None and self.reference is None:
            raise ValueError("Field required (or a reference)")
        return self

    @override
    def decides(self) -> MathGold:
        return MathGold(answer=self.gold or reference_answer(self.reference or ""))


class _CountdownLine(_LineModel):
    kind: Literal["countdown"]
    numbers: Annotated[tuple[StrictInt, ...], Field(min_length=1)]
    target: StrictInt

    @override
    def decides(self) -> CountdownGold:
        return CountdownGold(numbers=self.numbers, target=self.target)


class _CodeLine(_LineModel):
    kind: Literal["code"]
    entry_point: StrictStr
    tests: StrictStr

    @override
    def decides(self) -> CodeGold:
        return CodeGold(entry_point=self.entry_point, tests=self.tests)


class _ArcLine(_LineModel):
    kind: Literal["arc"]
    gold: Annotated[Any, AfterValidator(grid_of)]

    @override
    def decides(self) -> ArcGold:
        return ArcGold(output=self.gold)


_MODELS: Mapping[str, type[_LineModel]] = {
    Kind.MATH: _MathLine,
    Kind.COUNTDOWN: _CountdownLine,
    Kind.CODE: _CodeLine,
    Kind.ARC: _ArcLine,
}


def reference_answer(reference: str) -> str:
    """The answer at the end of a worked solution: ``#### 18`` or ``A: 18``, else its last line."""
    last = reference.strip().rpartition("\n")[2].strip()
    for mark in ("####", "A:"):
        if last.startswith(mark):
            return last.removeprefix(mark).strip()
    return last


def read_lines(path: pathlib.Path) -> Iterator[Line]:
    """Yield the lines of a file, each checked.

    A line without ``id`` gets its problem's id and its number among the lines of that problem.

    Raises:
        BadInputError: no such file, or a line that cannot be used; with file, line and key.
    """
    seen: dict[str, int] = {}
    for number, row in numbered_json_lines(path):
        parsed = _parsed(row, where=f"{path}:{number}")
        problem_id = parsed.problem_id or parsed.id or f"line-{number}"
        index = seen.get(problem_id, 0)
        seen[problem_id] = index + 1
        yield Line(
            id=parsed.id or f"{problem_id}#{index}",
            problem_id=problem_id,
            question=parsed.question,
            model=parsed.model,
            gold=parsed.decides(),
            text=parsed.text,
            finish_reason=parsed.finish_reason,
            prompt_tokens=parsed.prompt_tokens,
            completion_tokens=parsed.completion_tokens,
            label=parsed.label,
        )


def _parsed(row: Mapping[str, Any], *, where: str) -> _LineModel:
    kind = row.get("kind", Kind.MATH.value)
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise BadInputError(f"{where}: kind={kind!r}; expected one of {', '.join(_MODELS)}")
    try:
        return model.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "gold"
        message = first["msg"].removeprefix("Value error, ")
        raise BadInputError(f"{where}: {key}: {message}") from error
