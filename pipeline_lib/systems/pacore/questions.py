"""Input lines of `reasonloop pacore batch`: ``{"id", "messages"}`` and optionally ``"responses"``.

All are checked before the first call.
"""

import pathlib
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.line_fields import DistinctIds, Name, line_error
from pipeline_lib.records import Row
from pipeline_lib.store.files import numbered_json_lines
from pipeline_lib.systems.pacore.conversation_fields import Texts, Turns, messages_of
from pipeline_lib.systems.pacore.solution import Question

OUTPUT_FIELDS = frozenset(
    {
        *("request_id", "status", "error", "final_response", "final_reasoning_content"),
        *("round_responses", "rounds", "usage", "critical_tokens"),
    }
)
"""Fields of an output line; no further field of an input line may have one of these names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLine:
    """A question with the further fields of its line, which the output carries over."""

    question: Question
    request_id: str | float
    """The id as given."""
    further: Row


class _Line(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    id: Name
    messages: Turns
    responses: Texts | None = None
    """Texts of the first round, from elsewhere."""


def read_questions(path: pathlib.Path) -> list[QuestionLine]:
    """The questions of a file, in order.

    Raises:
        BadInputError: no such file, no line, an id twice, or a line that cannot be used; with its number.
    """
    ids = DistinctIds()
    lines: list[QuestionLine] = []
    for number, row in numbered_json_lines(path):
        where = f"{path}:{number}"
        line = _parsed(row, where)
        ids.add(line.id, path=path, number=number)
        further: dict[str, Any] = line.model_extra or {}
        if taken := sorted(OUTPUT_FIELDS & further.keys()):
            raise BadInputError(
                f"{where}: {taken[0]}: the output has a field of this name; rename it"
            )
        lines.append(
            QuestionLine(
                question=Question(
                    id=line.id,
                    conversation=messages_of(line.messages),
                    responses=line.responses or (),
                ),
                request_id=row["id"],
                further=further,
            )
        )
    if not lines:
        raise BadInputError(f'{path}: no questions; give lines {{"id", "messages"}}')
    return lines


def _parsed(row: Row, where: str) -> _Line:
    try:
        return _Line.model_validate(row)
    except ValidationError as error:
        raise line_error(error, where=where) from None
