"""Accuracy against compute of a policy, from the tables of its paths and searches."""

import pathlib
from collections.abc import Iterator, Sequence

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.params.evaluate import EvaluateParams, Strategy
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.files import write_checked
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.reuse import Unit, make_folder
from pipeline_lib.store.workspace import Workspace
from pipeline_lib.study.curves import estimates
from pipeline_lib.study.curves.estimates import CurveContext
from pipeline_lib.study.curves.inputs import PathTable, build_curve_input, join_tables
from pipeline_lib.study.curves.result import CURVES_NAME, ComputeCurves, Point
from pipeline_lib.systems.loop.test_time.parts import STAGE, ComputePart
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
            **drawn.test_time.model_dump(),
            "resamples": evaluate.resamples,
            "level": evaluate.confidence_level,
            "seed": drawn.seed,
        },
        inputs=inputs,
    )

    def fill(fresh: pathlib.Path) -> None:
        write_checked(fresh / CURVES_NAME, _curves(drawn, searches, evaluate))

    unit = Unit(workspace=drawn.workspace, stage=STAGE, key=key, label=f"curves {drawn.policy}")
    folder = Workspace(drawn.workspace).compute_result(drawn.policy)
    make_folder(unit, folder, kind=KIND, fill=fill)


def _tables(part: ComputePart) -> Iterator[pathlib.Path]:
    folders = part.folders
    yield from (folders.paths, folders.verdicts, folders.measures)
    if part.strategy is not None:
        yield folders.costs


def _curves(
    drawn: ComputePart, searches: Sequence[ComputePart], evaluate: EvaluateParams
) -> ComputeCurves:
    points = estimates.curve_points(drawn.test_time)
    found = {(part.strategy, part.budget): _table(part) for part in searches}
    by_point: dict[Point, PathTable] = {
        (strategy, budget): found[
            strategy, budget if strategy is Strategy.BEAM else max(drawn.test_time.budgets)
        ]
        for strategy, budget in points
        if strategy in estimates.SEARCHES
    }
    source = build_curve_input(
        _table(drawn), by_point, points, num_paths=max(drawn.test_time.budgets)
    )
    return estimates.estimate_curves(
        source.problems,
        source.labels,
        points,
        drawn.test_time,
        CurveContext(
            policy=drawn.policy,
            model=model_identity(drawn.model),
            num_left_out=source.num_left_out,
            evaluate=evaluate,
            seed=drawn.seed,
        ),
    )


def _table(part: ComputePart) -> PathTable:
    folders = part.folders
    return join_tables(
        read_groups(part.problems, folders.paths, folders.verdicts),
        shards.iter_table(folders.measures),
        shards.iter_table(folders.costs) if part.strategy is not None else (),
    )
