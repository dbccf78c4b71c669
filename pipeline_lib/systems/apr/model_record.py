"""The record of a thread model: a file in its folder with its grammar, window and training conditions."""

import pathlib
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline_lib.errors import BadInputError
from pipeline_lib.store.files import read_checked
from pipeline_lib.systems.apr.countdown import lines

RECORD_NAME = "threads.json"


class ThreadModelRecord(BaseModel):
    """Grammar, window and conditions of a model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["parallel", "serial"]
    style: Literal["compact", "published"]
    num_numbers: int
    """Numbers of a problem; they determine the tokenizer."""
    window: int
    """Most tokens of a sequence, prompt and end token included."""
    conditions: Annotated[tuple[str, ...], Field(min_length=1)]
    """The conditions of root threads that it was trained on, as written before a prompt; without
    conditions the empty one."""
    data: str | None = None
    """Digest of the data folder; None: it was trained elsewhere."""
    sequences: int = 0
    """Sequences that it was trained on."""
    dropped: int = 0
    """Sequences of the traces that exceed the window."""

    @model_validator(mode="after")
    def _conditions(self) -> "ThreadModelRecord":
        name = lines.SUB_CALL_BUDGET if self.kind == "parallel" else lines.TOKEN_BUDGET
        for condition in self.conditions:
            if condition and not lines.is_condition(condition, name):
                raise ValueError(
                    f"condition {condition!r} of a {self.kind} model is not of the form '{name}: N ', with its "
                    "last space"
                )
        return self


def read_record(model: pathlib.Path) -> ThreadModelRecord:
    """The record of a model.

    Raises:
        BadInputError: the folder holds no model of threads, or its record is damaged.
    """
    path = model / RECORD_NAME
    if not path.is_file():
        raise BadInputError(f"{model}: no model of threads; train one with `reasonloop apr train`")
    return read_checked(path, ThreadModelRecord, remedy="mend it, or train the model again")
