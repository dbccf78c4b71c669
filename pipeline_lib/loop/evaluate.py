"""Evaluation: scores of base, control and trained policy, and their paired differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_lib.evaluation.result import RESULT_NAME, evaluate_policies
from pipeline_lib.stages.keys import stage_key
from pipeline_lib.stages.once import Unit, make_folder
from pipeline_lib.storage import manifests
from pipeline_lib.storage.files import write_text
from pipeline_lib.traindata.groups import GroupTable
from pipeline_lib.training.control_report import read_control_report

if TYPE_CHECKING:  # not in the stage's code digest: other stages' params change no result
    import pathlib
    from collections.abc import Mapping

    from pipeline_lib.stages.stage import Run

KIND = "evaluation"
BASE, CONTROL, TRAINED = "base", "control", "trained"


def policies_to_draw(run: Run) -> Mapping[str, pathlib.Path]:
    """Folders of the policies to sample, by name. A control equal to the base is not sampled again."""
    rounds = run.params.rounds
    drawn = {BASE: run.workspace.base, TRAINED: run.workspace.policy(rounds, rounds=rounds)}
    if run.params.train.control and not _control_is_base(run):
        drawn[CONTROL] = run.workspace.control
    return drawn


def compare(run: Run) -> None:
    """Write the result of the evaluation, unless it exists under the same key."""
    params, workspace, seed = run.params.evaluate, run.workspace, run.params.seed
    problems = workspace.problems("test")
    names = {BASE: BASE, TRAINED: TRAINED}
    if run.params.train.control:
        names[CONTROL] = BASE if _control_is_base(run) else CONTROL
    folders = {name: workspace.evaluation(drawn) for name, drawn in names.items()}
    tables = {"problems": problems}
    for name, folder in folders.items():
        tables |= {f"{name} paths": folder.paths, f"{name} verdicts": folder.verdicts}
    key = stage_key(
        __name__,
        params={**params.model_dump(), "seed": seed},
        inputs={name: manifests.read_manifest(table).digest for name, table in tables.items()},
    )

    def fill(fresh: pathlib.Path) -> None:
        groups = {
            name: GroupTable(problems=problems, paths=folder.paths, verdicts=folder.verdicts)
            for name, folder in folders.items()
        }
        result = evaluate_policies(
            groups[BASE], groups[TRAINED], params, seed=seed, control=groups.get(CONTROL)
        )
        write_text(fresh / RESULT_NAME, result.to_json())

    unit = Unit(workspace=run.root, stage="evaluate", key=key)
    make_folder(unit, workspace.evaluation_result, kind=KIND, fill=fill)


def _control_is_base(run: Run) -> bool:
    return read_control_report(run.workspace.control).is_base
