"""The stage that compares the model with its control."""

from pipeline_lib.systems.prr.evaluation_folder import evaluate_on
from pipeline_lib.systems.prr.settings import control_params, puzzles_of
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import step_recorder


def evaluate(run: Run) -> None:
    """Write the study, pictures and, for ARC, a submission, unless they exist with the same key."""
    folders = run.workspace.prr
    evaluate_on(
        puzzles_of(run),
        [folders.model],
        folders.reports,
        run.params,
        control=None if control_params(run.params.prr) is None else folders.control,
        progress=step_recorder(run.root, "prr-evaluate"),
    )
