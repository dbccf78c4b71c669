"""Evaluation: scores of base, control and trained policy, and their paired differences."""

import pathlib
from functools import partial

from pipeline_lib.problems.trained import seen_in_training
from pipeline_lib.records import Group, Problem
from pipeline_lib.store import manifests, shards
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.reuse import Unit, make_folder
from pipeline_lib.study.plan import (
    BASE,
    CONTROL,
    TRAINED,
    baselines,
    evaluation_draws,
    folder_name,
    sampling_of,
)
from pipeline_lib.study.study import write_study
from pipeline_lib.systems.loop.draw import Draw
from pipeline_lib.systems.loop.study import loop_study
from pipeline_lib.systems.stage import Run
from pipeline_lib.train.control_report import read_control_report
from pipeline_lib.train.rows.groups import read_groups

KIND = "evaluation"


def policy_draws(run: Run) -> list[Draw]:
    """The draws of the evaluation, with the folders of their policies."""
    return _policy_draws(run, control_is_base=_control_is_base(run))


def draws_without_control(run: Run) -> list[Draw]:
    """The draws of `policy_draws` that need no control, which may still be in training."""
    return _policy_draws(run, control_is_base=True)


def _policy_draws(run: Run, *, control_is_base: bool) -> list[Draw]:
    models, params = _models(run), run.params
    draws = []
    for policy, temperature in evaluation_draws(params, control_is_base=control_is_base):
        folder = folder_name(policy, temperature, params)
        draws.append(
            Draw(
                run=run,
                name=f"evaluate-{folder}",
                seed_name="evaluate",
                problems=run.workspace.problems("test"),
                model=models[policy],
                folders=run.workspace.evaluation(folder),
                sample=sampling_of(policy, temperature, params),
                stage="evaluate",
            )
        )
    return draws


def compare(run: Run) -> None:
    """Write the study of the evaluation, unless it exists under the same key."""
    params, workspace = run.params, run.workspace
    tables = {"problems": workspace.problems("test")}
    for draw in policy_draws(run):
        tables |= {
            f"{draw.name} paths": draw.folders.paths,
            f"{draw.name} verdicts": draw.folders.verdicts,
        }
    key = stage_key(
        __name__,
        params={
            **params.evaluate.model_dump(),
            "temperature": params.sample.temperature,
            "seed": params.seed,
        },
        inputs={name: manifests.read_manifest(table).digest for name, table in tables.items()},
    )

    def fill(fresh: pathlib.Path) -> None:
        problems = [Problem.from_row(row) for row in shards.iter_table(workspace.problems("test"))]
        study, series = loop_study(
            params,
            partial(_groups, run),
            provenance={},
            seen={name: seen_in_training(model, problems) for name, model in _models(run).items()},
        )
        write_study(fresh, study, series, problems)

    unit = Unit(workspace=run.root, stage="evaluate", key=key)
    make_folder(unit, workspace.evaluation_result, kind=KIND, fill=fill)


def _groups(run: Run, policy: str, temperature: float) -> list[Group]:
    drawn = BASE if policy == CONTROL and _control_is_base(run) else policy
    folders = run.workspace.evaluation(folder_name(drawn, temperature, run.params))
    return read_groups(run.workspace.problems("test"), folders.paths, folders.verdicts)


def _models(run: Run) -> dict[str, str]:
    return {
        BASE: str(run.workspace.base),
        CONTROL: str(run.workspace.control),
        TRAINED: str(run.workspace.policy(run.params.rounds, rounds=run.params.rounds)),
        **dict.fromkeys(baselines(run.params), run.params.bootstrap.model or ""),
    }


def _control_is_base(run: Run) -> bool:
    return run.params.train.control and read_control_report(run.workspace.control).is_base
