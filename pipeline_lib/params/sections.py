"""Base class of the params sections, and the ranges of their numbers."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """Frozen, without unknown keys, without NaN and infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def check_heads(section: Any) -> Any:
    """A validator of a section with the sizes of a Llama."""
    # Rotary embeddings need an even number of channels per head.
    if section.hidden_size % (2 * section.num_heads):
        raise ValueError(
            f"hidden_size={section.hidden_size} is not a multiple of 2 x num_heads={section.num_heads}"
        )
    return section
