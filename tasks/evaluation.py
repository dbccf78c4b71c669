"""Evaluation: the figures of base and trained policy, and what the difference is worth."""

from prefect import task

from pipeline_lib.evaluation.result import RESULT_NAME, evaluate_policies
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.storage import manifests
from pipeline_lib.storage.files import write_text
from pipeline_lib.storage.stages import stage_key
from pipeline_lib.storage.workspace import Workspace
from pipeline_lib.telemetry import record_work
from pipeline_lib.traindata.groups import read_groups
from tasks.policies import PLAN

KIND = "evaluation"


@task(**PLAN, task_run_name="compare-base-and-trained")
def compare_policies(workspace: Workspace, params: EvaluateParams, *, seed: int) -> None:
    """Write the result of the evaluation, unless it is there already."""
    output = workspace.evaluation_result
    problems = workspace.problems("test")
    base, trained = workspace.evaluation("base"), workspace.evaluation("trained")
    tables = {
        "problems": problems,
        "base paths": base.paths,
        "base verdicts": base.verdicts,
        "trained paths": trained.paths,
        "trained verdicts": trained.verdicts,
    }
    key = stage_key(
        __name__,
        params={**params.model_dump(), "seed": seed},
        inputs={name: manifests.read_manifest(table).digest for name, table in tables.items()},
    )
    if manifests.current(output, kind=KIND, key=key):
        return
    result = evaluate_policies(
        read_groups(problems, base.paths, base.verdicts),
        read_groups(problems, trained.paths, trained.verdicts),
        params,
        seed=seed,
    )
    write_text(output / RESULT_NAME, result.to_json())
    manifests.seal(output, kind=KIND, key=key)
    record_work(workspace.root, "evaluate", done=1, total=1)
