"""Accuracy against compute of a policy, from the tables of its paths and searches."""

import pathlib
import shutil
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.evaluate import EvaluateParams, Strategy
from pipeline_lib.records import Problem
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.folders import replaced
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.reuse import Unit, make_folder
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.curves import estimates
from pipeline_lib.study.curves.estimates import PathTable, Point
from pipeline_lib.study.pages.page import REPORT_NAME, write_page
from pipeline_lib.study.pages.wording import score
from pipeline_lib.study.study import ALL, Study, make_study, write_study
from pipeline_lib.systems.loop.test_time.measures import STAGE, ComputePart
from pipeline_lib.systems.loop.test_time.studies import PAGE, read_curves
from pipeline_lib.train.rows.groups import read_groups

KIND = "compute-curves"


def write_curves(
    drawn: ComputePart, searches: Sequence[ComputePart], evaluate: EvaluateParams
) -> None:
    """Write the curves of one policy, unless they exist under the same key."""
    inputs = {
        f"{part.name} {folder.name}": manifests.read_manifest(folder).digest
        for part in (drawn, *searches)
        for folder in _tables(part)
    }
    inputs["problems"] = manifests.read_manifest(drawn.problems).digest
    key = stage_key(
        __name__,
        params={
            **drawn.run.params.test_time.model_dump(),
            "resamples": evaluate.resamples,
            "level": evaluate.confidence_level,
            "seed": drawn.run.params.seed,
        },
        inputs=inputs,
    )

    def fill(fresh: pathlib.Path) -> None:
        _write_study(fresh, drawn, searches, evaluate)

    unit = Unit(workspace=drawn.run.root, stage=STAGE, key=key, label=f"curves {drawn.policy}")
    folder = Workspace(drawn.run.root).compute_result(drawn.policy)
    make_folder(unit, folder, kind=KIND, fill=fill)


def _tables(part: ComputePart) -> Iterator[pathlib.Path]:
    folders = part.folders
    yield from (folders.paths, folders.verdicts, folders.measures)
    if part.strategy is not None:
        yield folders.costs


def _write_study(
    fresh: pathlib.Path,
    drawn: ComputePart,
    searches: Sequence[ComputePart],
    evaluate: EvaluateParams,
) -> None:
    points = estimates.curve_points(drawn.run.params.test_time)
    found = {(part.strategy, part.budget): _table(part) for part in searches}
    by_point: dict[Point, PathTable] = {
        (strategy, budget): found[
            strategy,
            budget if strategy is Strategy.BEAM else max(drawn.run.params.test_time.budgets),
        ]
        for strategy, budget in points
        if strategy in estimates.SEARCHES
    }
    paths = _table(drawn)
    problems = estimates.read_candidates(
        paths, by_point, num_paths=max(drawn.run.params.test_time.budgets)
    )
    curves = estimates.curve_series(
        problems, points, drawn.run.params.test_time, seed=drawn.run.params.seed
    )
    study = make_study(
        f"test-time compute of {drawn.policy}",
        series := [one for pair in curves.values() for one in pair],
        estimates.against_majority(curves),
        evaluate=evaluate,
        seed=drawn.run.params.seed,
        provenance={"version": version("reasonloop"), "model": model_identity(drawn.model)},
        left_out={"a required path failed": len(paths.groups) - len(problems)},
        compute={"settings": drawn.run.params.test_time.model_dump(mode="json")},
    )
    asked = [Problem.from_row(row) for row in shards.iter_table(drawn.problems)]
    write_study(fresh, study.with_claims(_claims(study)), series, asked)


def _claims(study: Study) -> Iterator[str]:
    bounds = {one.name for one in study.arms if one.upper_bound}
    points = [one for one in study.points if one.subset == ALL]
    first = points[0]
    best = max((one for one in points if one.arm not in bounds), key=lambda one: one.value)
    if not any(one.value for one in points):
        yield "Nothing was solved, so nothing is claimed."
        return
    yield f"The most accurate strategy without labels is {best.arm}, with {score(best.interval)}"
    yield f"{first.arm} has {score(first.interval)}, on the same {first.n} problems."


def write_pages(workspace: Workspace) -> list[pathlib.Path]:
    """Copy the studies of test-time compute to ``reports/compute-POLICY``, each with its page.

    Returns:
        The folders.

    Raises:
        BadInputError: there are no curves.
    """
    studies = read_curves(workspace)
    if not studies:
        raise BadInputError(
            f"{workspace.root}: no curves of test-time compute; run `reasonloop compute-curves`"
        )
    written = []
    for policy, study in studies.items():
        output = workspace.reports / f"compute-{policy}"
        with replaced(output) as fresh:
            shutil.copytree(workspace.compute_result(policy), fresh, dirs_exist_ok=True)
            write_page(fresh / REPORT_NAME, study, PAGE)
        written.append(output)
    return written


def _table(part: ComputePart) -> PathTable:
    folders = part.folders
    return estimates.join_tables(
        read_groups(part.problems, folders.paths, folders.verdicts),
        shards.iter_table(folders.measures),
        shards.iter_table(folders.costs) if part.strategy is not None else (),
    )
