"""Training data from judged paths."""

import shutil

from prefect import task

from pipeline_lib.params.paths import BuildParams
from pipeline_lib.params.train import Method
from pipeline_lib.problems.worked import worked_problems
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.serving.embedded import load_chat_format
from pipeline_lib.storage import manifests, shards
from pipeline_lib.storage.files import write_json, write_text
from pipeline_lib.storage.stages import stage_key
from pipeline_lib.storage.workspace import RoundFolders, Workspace
from pipeline_lib.telemetry import record_work
from pipeline_lib.traindata.builders import build
from pipeline_lib.traindata.groups import read_groups
from pipeline_lib.verification.version import VERIFIER_VERSION
from tasks.policies import PLAN

KIND = "traindata"


@task(**PLAN, task_run_name="build-{method}")
def build_traindata(
    workspace: Workspace,
    folders: RoundFolders,
    params: BuildParams,
    *,
    method: Method,
    model: str,
    validation_fraction: float,
    seed: int,
) -> None:
    """Write the tables that ``method`` trains on, unless they are there already.

    Worked problems that are held apart for the control give no rows here either.
    """
    problems, worked = workspace.problems("train"), workspace.problems("bootstrap")
    tables = {"problems": problems, "paths": folders.paths, "verdicts": folders.verdicts}
    tables |= {"worked": worked} if params.worked_solutions else {}
    key = stage_key(
        __name__,
        params={
            **params.model_dump(),
            "method": method,
            "validation_fraction": validation_fraction,
            "seed": seed,
        },
        inputs={name: manifests.read_manifest(path).digest for name, path in tables.items()},
    )
    if manifests.current(folders.traindata, kind=KIND, key=key):
        return
    groups = read_groups(problems, folders.paths, folders.verdicts)
    chat_format = load_chat_format(model)
    data = build(
        method,
        groups,
        params=params,
        render=lambda problem: render(problem, chat_format),
        seed=seed,
        verifier_version=VERIFIER_VERSION,
        worked=solution_rows(
            worked_problems(
                (Problem.from_row(row) for row in shards.iter_table(worked)),
                validation_fraction=validation_fraction,
                seed=seed,
            ).train
            if params.worked_solutions
            else (),
            chat_format,
        ),
    )
    # Tables of another method would be part of the digest.
    shutil.rmtree(folders.traindata, ignore_errors=True)
    for name, rows in data.rows_by_table.items():
        shards.write_table(folders.traindata / name, rows, kind=name, key=key)
    write_text(folders.traindata / "card.md", data.card)
    write_json(folders.traindata / "counts.json", dict(data.counts))
    manifests.seal(folders.traindata, kind=KIND, key=key)
    record_work(workspace.root, "build", done=1, total=1)
