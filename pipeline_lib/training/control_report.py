"""How a control came about: ``control.json`` of its folder, for whatever reads it without torch."""

import pathlib
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter

from pipeline_lib.storage.files import read_json, write_json

REPORT_NAME = "control.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlReport:
    """What the control was trained on, and which of its checkpoints was kept."""

    is_base: bool
    """There was nothing to train on without the loop, so the control is the base policy itself."""
    base_is_given: bool = False
    """The base was not made here, so nothing is known of how long it was trained."""
    train_problems: int = 0
    train_rows: int = 0
    validation_problems: int = 0
    budget_tokens: int = 0
    """What the loop was planned to take, in trained tokens."""
    steps: int = 0
    """Of all schedules together."""
    kept_phase: str | None = None
    """The schedule of the checkpoint that was kept; None if none was better than the base."""
    kept_step: int = 0
    validation_loss: float | None = None
    """Of the checkpoint that was kept."""
    base_validation_loss: float | None = None


def write_control_report(folder: pathlib.Path, report: ControlReport) -> None:
    """Write the report into the control's folder."""
    write_json(folder / REPORT_NAME, asdict(report))


def read_control_report(folder: pathlib.Path) -> ControlReport:
    """Read the report of a control's folder.

    Raises:
        BadInputError: there is none; the stage ``control`` writes it.
    """
    return TypeAdapter(ControlReport).validate_python(read_json(folder / REPORT_NAME))
