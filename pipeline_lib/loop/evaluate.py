"""Evaluation: the figures of base, control and trained policy, and what the differences are worth."""

import pathlib
from collections.abc import Mapping

from prefect import task

from pipeline_lib.evaluation.result import RESULT_NAME, evaluate_policies
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.storage import manifests
from pipeline_lib.storage.files import write_text
from pipeline_lib.storage.stages import stage_key
from pipeline_lib.storage.workspace import Workspace
from pipeline_lib.telemetry import record_work
from pipeline_lib.traindata.groups import read_groups
from pipeline_lib.training.control_report import read_control_report
from tasks.policies import PLAN

KIND = "evaluation"
BASE, CONTROL, TRAINED = "base", "control", "trained"


def policies_to_draw(
    workspace: Workspace, *, rounds: int, control: bool
) -> Mapping[str, pathlib.Path]:
    """The folders of the policies by name. A control that is the base itself is not drawn again."""
    drawn = {BASE: workspace.base, TRAINED: workspace.policy(rounds, rounds=rounds)}
    if control and not read_control_report(workspace.control).is_base:
        drawn[CONTROL] = workspace.control
    return drawn


@task(**PLAN, task_run_name="compare-policies")
def compare_policies(
    workspace: Workspace, params: EvaluateParams, *, control: bool, seed: int
) -> None:
    """Write the result of the evaluation, unless it is there already."""
    output = workspace.evaluation_result
    problems = workspace.problems("test")
    names = {BASE: BASE, TRAINED: TRAINED}
    if control:
        is_base = read_control_report(workspace.control).is_base
        names[CONTROL] = BASE if is_base else CONTROL
    folders = {name: workspace.evaluation(drawn) for name, drawn in names.items()}
    tables = {"problems": problems}
    for name, folder in folders.items():
        tables |= {f"{name} paths": folder.paths, f"{name} verdicts": folder.verdicts}
    key = stage_key(
        __name__,
        params={**params.model_dump(), "seed": seed},
        inputs={name: manifests.read_manifest(table).digest for name, table in tables.items()},
    )
    if manifests.current(output, kind=KIND, key=key):
        return
    groups = {
        name: read_groups(problems, folder.paths, folder.verdicts)
        for name, folder in folders.items()
    }
    result = evaluate_policies(
        groups[BASE], groups[TRAINED], params, seed=seed, control=groups.get(CONTROL)
    )
    write_text(output / RESULT_NAME, result.to_json())
    manifests.seal(output, kind=KIND, key=key)
    record_work(workspace.root, "evaluate", done=1, total=1)
