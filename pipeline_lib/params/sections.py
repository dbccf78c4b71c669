"""Base class of the params sections, and the ranges of their numbers."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Fraction = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """Frozen, without unknown keys, without NaN and infinity; no ``..low`` is above its ``..high``."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, low in self:
            upper = f"{name.removesuffix('low')}high"
            if name.endswith("low") and low > (high := getattr(self, upper, low)):
                raise ValueError(f"{name}={low} is above {upper}={high}")
        for fault in self.faults():
            raise ValueError(fault)
        return self

    def faults(self) -> Iterator[str]:
        """Why the values cannot be used together, though each is possible alone."""
        yield from ()


def head_faults(hidden_size: int, num_heads: int) -> Iterator[str]:
    """The fault of sizes of a Llama: rotary embeddings need an even number of channels per head."""
    if hidden_size % (2 * num_heads):
        yield f"hidden_size={hidden_size} is not a multiple of 2 x num_heads={num_heads}"


def repetition(**values: Sequence[object]) -> Iterator[str]:
    """The fault of lists, by name, of which one has a value twice."""
    for name, listed in values.items():
        if len(set(listed)) < len(listed):
            yield f"{name}=[{', '.join(map(str, listed))}]; each may be given once"
