"""Problem sets of an evaluation: the test split of the run, and the further sets of its params."""

import pathlib

from pipeline_lib.own.code import Function, code_of
from pipeline_lib.params.evaluate import EvaluationSet
from pipeline_lib.problems.data_set import source_identity
from pipeline_lib.problems.loading import source_of, task_in
from pipeline_lib.problems.own_task import PROBLEMS
from pipeline_lib.records import Problem
from pipeline_lib.sampling.splits import checked_problems
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.reuse import Unit, record_unit
from pipeline_lib.study.attempts import MAIN
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import record_event

_KIND = "problems"


def problems_of(run: Run, name: str) -> pathlib.Path:
    """Table of the problems of a set by its name."""
    workspace = run.workspace
    return workspace.problems("test") if name == MAIN else workspace.evaluation_problems(name)


def read_problems(run: Run, name: str) -> list[Problem]:
    """The problems of a set."""
    return [Problem.from_row(row) for row in shards.iter_table(problems_of(run, name))]


def write_sets(run: Run) -> None:
    """Write the tables of the further sets, unless they exist under the same key.

    Raises:
        BadInputError: a data set cannot be used.
    """
    for one in run.params.evaluate.sets:
        _write_set(run, one)


def _write_set(run: Run, params: EvaluationSet) -> None:
    table, seed = problems_of(run, params.dataset), run.params.seed
    key = stage_key(
        __name__,
        params={**params.model_dump(), "seed": seed},
        inputs={"code": code_of(Function(source=task, name=PROBLEMS))}
        if (task := task_in(params))
        else source_identity(source_of(params.dataset, params.source)),
    )
    if manifests.current(table, kind=_KIND, key=key):
        return
    with record_unit(Unit(workspace=run.root, stage="evaluate", key=key)):
        problems, note = checked_problems(params, seed=seed)
        rows = [problem.row() for problem in problems]
        shards.write_table(table, rows, kind=_KIND, key=key)
    if note is not None:
        record_event(run.root, "note", text=note)
