"""Types of fields in JSONL lines, their ids, and the error of a line, shared by kinds and line formats."""

import math
import pathlib
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, StrictStr, ValidationError

from pipeline_lib.errors import BadInputError, first_fault
from pipeline_lib.terminal_text import one_line

_SHOWN_CHARACTERS = 60


def _number_as_text(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a string or a finite number, got {value}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else value


Name = Annotated[StrictStr, BeforeValidator(_number_as_text)]
"""A string; a finite number counts as its text, so that ids and answers may lack quotes."""


def line_error(error: ValidationError, *, where: str, unnamed: str = "") -> BadInputError:
    """The first fault of a line as one message: place, key and fault; ``unnamed`` is the key of one without."""
    return BadInputError(f"{where}: {first_fault(error, unnamed=unnamed)}")


@dataclass(frozen=True, slots=True)
class DistinctIds:
    """The ids of a file's lines so far, each with its line. A line that is there twice would count twice."""

    _places: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, *, path: pathlib.Path, number: int) -> None:
        """Add the id of line ``number``.

        Raises:
            BadInputError: an earlier line has it.
        """
        if self._places.setdefault(name, number) != number:
            shown = one_line(repr(name), most=_SHOWN_CHARACTERS)
            raise BadInputError(
                f"{path}:{number}: id: {shown} is also at line {self._places[name]}; remove one line, or "
                "give each an id of its own (answers to one problem share its problem_id)"
            )
