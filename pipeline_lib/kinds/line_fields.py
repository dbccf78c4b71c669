"""Types of fields in JSONL lines, and the error of a line, shared by the kinds and by line formats."""

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, StrictStr, ValidationError

from pipeline_lib.errors import BadInputError


def _number_as_text(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a string or a finite number, got {value}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else value


Name = Annotated[StrictStr, BeforeValidator(_number_as_text)]
"""A string; a finite number counts as its text, so that ids and answers may lack quotes."""


def line_error(error: ValidationError, *, where: str, unnamed: str = "") -> BadInputError:
    """The first fault of a line as one message: place, key and fault; ``unnamed`` is the key of one without."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"]) or unnamed
    fault = first["msg"].removeprefix("Value error, ")
    return BadInputError(f"{where}: {f'{key}: ' if key else ''}{fault}")
