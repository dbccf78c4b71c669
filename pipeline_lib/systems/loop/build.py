"""Training data from judged paths."""

import pathlib

from pipeline_lib.engines.chat_model import ChatFormat
from pipeline_lib.engines.pretrained import load_chat_format
from pipeline_lib.problems.worked import read_worked
from pipeline_lib.records import Row
from pipeline_lib.sampling.prompts import render
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import write_json, write_text
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.reuse import Unit, make_folder
from pipeline_lib.systems.stage import Run
from pipeline_lib.train.rows import builders
from pipeline_lib.train.rows.builders import BuildContext
from pipeline_lib.train.rows.groups import read_groups
from pipeline_lib.verify import VERIFIER_VERSION

KIND = "traindata"


def build(run: Run) -> None:
    """Write the tables of the run's method, unless they exist under the same key."""
    params, method, folders = run.params.build, run.params.train.method, run.folders
    problems = run.workspace.problems("train")
    tables = {"problems": problems, "paths": folders.paths, "verdicts": folders.verdicts}
    if params.worked_solutions:
        tables["worked"] = run.workspace.problems("bootstrap")
    key = stage_key(
        __name__,
        params={
            **params.model_dump(),
            "method": method,
            "validation_fraction": run.params.bootstrap.validation_fraction,
            "seed": run.params.seed,
        },
        inputs={name: manifests.read_manifest(path).digest for name, path in tables.items()},
    )

    def fill(fresh: pathlib.Path) -> None:
        chat_format = load_chat_format(str(run.start))
        context = BuildContext(
            params=params,
            render=lambda problem: render(problem, chat_format),
            seed=run.params.seed,
            verifier_version=VERIFIER_VERSION,
            worked=_worked_rows(run, chat_format) if params.worked_solutions else (),
        )
        groups = read_groups(problems, folders.paths, folders.verdicts)
        data = builders.build(method, groups, context)
        for name, rows in data.rows_by_table.items():
            shards.write_table(fresh / name, rows, kind=name, key=key)
        write_text(fresh / "card.md", data.card)
        write_json(fresh / "counts.json", dict(data.counts))

    make_folder(
        Unit(workspace=run.root, stage="build", key=key), folders.traindata, kind=KIND, fill=fill
    )


def _worked_rows(run: Run, chat_format: ChatFormat | None) -> list[Row]:
    """Rows of the worked solutions, without those that select the control's checkpoint."""
    worked = read_worked(
        run.workspace.problems("bootstrap"),
        validation_fraction=run.params.bootstrap.validation_fraction,
        seed=run.params.seed,
    )
    return solution_rows(worked.train, chat_format)
