"""The record of a thread model: a file in its folder with its grammar, window and training conditions."""

import pathlib
from typing import Annotated, Literal

from pydantic import BaseModel, Field, NonNegativeInt, model_validator

from pipeline_lib.errors import BadInputError
from pipeline_lib.store.files import read_checked, write_json
from pipeline_lib.systems.apr.countdown import lines

RECORD_NAME = "threads.json"


class ThreadModelRecord(BaseModel, extra="forbid", frozen=True):
    """Grammar, window and conditions of a model."""

    kind: Literal["parallel", "serial"]
    style: Literal["compact", "published", "parts", "tags", "tries"]
    """parts: a language model whose spawn blocks name parts of the question; tags: one that is merely told of tags;
    tries: a model of a task of one's own."""
    num_numbers: int | None = None
    """Numbers of a problem of Countdown; they determine the tokenizer."""
    whole_question: bool = False
    """parts: a child reads the whole question."""
    examples: str = ""
    """parts: turns with worked examples before the question, for a model without training."""
    child_examples: str = ""
    """The same for children."""
    grammar: dict[str, str] = {}
    """tries: further fields of `PointerGrammar`."""
    window: int
    """Most tokens of a sequence, prompt and end token included."""
    most_tokens: int | None = None
    """Of one draw; None: as the window has room for."""
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
        for condition in self.conditions:
            found = lines.CONDITION.fullmatch(condition)
            if condition and (found is None or found["name"] != self.budget):
                raise ValueError(
                    f"condition {condition!r} of a {self.kind} model is not of the form '{self.budget}: N ', with "
                    "its last space"
                )
        return self

    @property
    def budget(self) -> str:
        """The name of its conditions: children per spawn, or tokens of a sequence."""
        return lines.SUB_CALL_BUDGET if self.kind == "parallel" else lines.TOKEN_BUDGET

    @property
    def trained_amounts(self) -> list[int]:
        """The amounts of its conditions, in order; 0 is no condition."""
        return sorted(map(amount_of, self.conditions))


def read_record(model: pathlib.Path) -> ThreadModelRecord:
    """The record of a model.

    Raises:
        BadInputError: the folder holds no model of threads, or its record is damaged.
    """
    path = model / RECORD_NAME
    if not path.is_file():
        raise BadInputError(f"{model}: no model of threads; train one with `reasonloop apr train`")
    return read_checked(path, ThreadModelRecord, remedy="mend it, or train the model again")


def choose_condition(model: pathlib.Path, record: ThreadModelRecord, amount: int | None) -> str:
    """The condition of a model's prompts, as written before them.

    ``amount`` is of children or tokens; 0: no condition. None: no condition if the model was trained without one as
    well, else the largest of its training.

    Raises:
        BadInputError: the model was not trained on it.
    """
    if amount is None:
        return "" if "" in record.conditions else max(record.conditions, key=amount_of)
    condition = lines.condition(record.budget, amount) if amount else ""
    if condition not in record.conditions:
        trained = ", ".join(map(_shown, sorted(record.conditions, key=amount_of)))
        raise BadInputError(
            f"{model}: was never trained on {_shown(condition)}, but on {trained}; choose one of these"
        )
    return condition


def amount_of(condition: str) -> int:
    """Children or tokens of a condition."""
    return int("".join(filter(str.isdigit, condition)) or 0)


def _shown(condition: str) -> str:
    return repr(condition.strip()) if condition else "no condition"


_NAME = "conditions.json"


class ChosenConditions(BaseModel, extra="forbid", frozen=True):
    """One for each kind of model; 0 is no condition."""

    parallel: NonNegativeInt
    """Children per spawn."""
    serial: NonNegativeInt
    """Tokens of a sequence."""


def write_chosen(folder: pathlib.Path, chosen: ChosenConditions) -> None:
    """Write the choice into the folder of its evaluation."""
    write_json(folder / _NAME, chosen.model_dump())


def read_chosen(
    folder: pathlib.Path, *, children: int | None, tokens: int | None
) -> ChosenConditions:
    """The given conditions, and the choice where none is given.

    Raises:
        CorruptArtifactError: the file is damaged.
    """
    chosen = read_checked(folder / _NAME, ChosenConditions, remedy="delete it and run again")
    return ChosenConditions(
        parallel=chosen.parallel if children is None else children,
        serial=chosen.serial if tokens is None else tokens,
    )
