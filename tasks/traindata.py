"""Training data from judged paths."""

import pathlib
import shutil
from dataclasses import dataclass

from prefect import task

from pipeline_lib.params.paths import BuildParams
from pipeline_lib.params.train import Method
from pipeline_lib.problems.worked import worked_problems
from pipeline_lib.records import Problem, Row
from pipeline_lib.sampling.prompts import render
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.serving.chat_model import ChatFormat
from pipeline_lib.serving.embedded import load_chat_format
from pipeline_lib.storage import manifests, shards
from pipeline_lib.storage.files import write_json, write_text
from pipeline_lib.storage.stages import stage_key
from pipeline_lib.storage.workspace import RoundFolders, Workspace
from pipeline_lib.telemetry import record_work
from pipeline_lib.traindata.builders import build
from pipeline_lib.traindata.groups import read_groups
from pipeline_lib.traindata.tables import BuildContext
from pipeline_lib.verification.version import VERIFIER_VERSION
from tasks.policies import PLAN

KIND = "traindata"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildJob:
    """What is built from what."""

    workspace: Workspace
    folders: RoundFolders
    method: Method
    model: pathlib.Path
    """The policy that drew the paths."""
    validation_fraction: float
    """Of the worked problems: they choose the control's checkpoint, and give no rows here."""


@task(**PLAN, task_run_name="build-{job.method}")
def build_traindata(job: BuildJob, params: BuildParams, *, seed: int) -> None:
    """Write the tables that ``job.method`` trains on, unless they are there already."""
    folders, problems = job.folders, job.workspace.problems("train")
    worked = job.workspace.problems("bootstrap")
    tables = {"problems": problems, "paths": folders.paths, "verdicts": folders.verdicts}
    tables |= {"worked": worked} if params.worked_solutions else {}
    key = stage_key(
        __name__,
        params={
            **params.model_dump(),
            "method": job.method,
            "validation_fraction": job.validation_fraction,
            "seed": seed,
        },
        inputs={name: manifests.read_manifest(path).digest for name, path in tables.items()},
    )
    if manifests.current(folders.traindata, kind=KIND, key=key):
        return
    groups = read_groups(problems, folders.paths, folders.verdicts)
    chat_format = load_chat_format(str(job.model))
    context = BuildContext(
        params=params,
        render=lambda problem: render(problem, chat_format),
        seed=seed,
        verifier_version=VERIFIER_VERSION,
        worked=_worked_rows(job, chat_format, seed=seed) if params.worked_solutions else (),
    )
    data = build(job.method, groups, context)
    # Tables of another method would be part of the digest.
    shutil.rmtree(folders.traindata, ignore_errors=True)
    for name, rows in data.rows_by_table.items():
        shards.write_table(folders.traindata / name, rows, kind=name, key=key)
    write_text(folders.traindata / "card.md", data.card)
    write_json(folders.traindata / "counts.json", dict(data.counts))
    manifests.seal(folders.traindata, kind=KIND, key=key)
    record_work(job.workspace.root, "build", done=1, total=1)


def _worked_rows(job: BuildJob, chat_format: ChatFormat | None, *, seed: int) -> list[Row]:
    rows = shards.iter_table(job.workspace.problems("bootstrap"))
    worked = worked_problems(
        map(Problem.from_row, rows), validation_fraction=job.validation_fraction, seed=seed
    )
    return solution_rows(worked.train, chat_format)
