"""Types of fields in JSONL lines, shared by the kinds and by the line format itself."""

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, StrictStr


def _number_as_text(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a string or a finite number, got {value}")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else value


Name = Annotated[StrictStr, BeforeValidator(_number_as_text)]
"""A string; a finite number counts as its text, so that ids and answers may lack quotes."""
