"""The conditions that a run has chosen on the valid problems."""

import pathlib

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from pipeline_lib.store.files import read_checked, write_json

_NAME = "conditions.json"


class ChosenConditions(BaseModel):
    """One for each kind of model; 0 is no condition."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
