"""The report of a control, ``control.json`` in its folder; it is read without torch."""

import pathlib
from dataclasses import dataclass

from pipeline_lib.store.files import read_checked

REPORT_NAME = "control.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlReport:
    """The data of the control, and the checkpoint that was kept."""

    is_base: bool
    """True without worked problems: nothing was trained, no weights are saved, the base is the control."""
    base_is_given: bool = False
    """The base was given, not made here: its training is unknown."""
    train_problems: int = 0
    train_rows: int = 0
    validation_problems: int = 0
    budget_tokens: int = 0
    """Planned compute of the loop, in trained tokens."""
    steps: int = 0
    """Of all schedules."""
    kept_phase: str | None = None
    """The schedule of the checkpoint that was kept; None if the base was best."""
    kept_step: int = 0
    validation_loss: float | None = None
    """Of the checkpoint that was kept."""
    base_validation_loss: float | None = None


def read_control_report(folder: pathlib.Path) -> ControlReport:
    """Read the report of a control's folder.

    Raises:
        BadInputError: there is no report; the stage ``control`` writes it.
    """
    return read_checked(folder / REPORT_NAME, ControlReport, remedy="run the stage control again")
