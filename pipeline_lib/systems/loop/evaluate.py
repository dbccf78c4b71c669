"""Evaluation: scores of base, control and trained policy, and their paired differences."""

import itertools
import pathlib
from functools import partial

from pipeline_lib.problems.trained import seen_in_training
from pipeline_lib.records import Group
from pipeline_lib.store import manifests
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.reuse import Unit, make_folder
from pipeline_lib.study.attempts import MAIN
from pipeline_lib.study.plan import (
    BASE,
    CONTROL,
    TEACHER,
    TRAINED,
    Case,
    baselines,
    evaluation_draws,
)
from pipeline_lib.study.study import write_study
from pipeline_lib.systems.loop.draw import Draw
from pipeline_lib.systems.loop.evaluated_sets import problems_of, read_problems, write_sets
from pipeline_lib.systems.loop.study import loop_study
from pipeline_lib.systems.stage import Run
from pipeline_lib.train.control_report import read_control_report
from pipeline_lib.train.rows.groups import read_groups

KIND = "evaluation"


def policy_draws(run: Run) -> list[Draw]:
    """The draws of the evaluation, with the folders of their policies; writes the tables of further sets."""
    return _policy_draws(run, control_is_base=_control_is_base(run))


def draws_without_control(run: Run) -> list[Draw]:
    """The draws of `policy_draws` that need no control, which may still be in training."""
    return _policy_draws(run, control_is_base=True)


def _policy_draws(run: Run, *, control_is_base: bool) -> list[Draw]:
    write_sets(run)
    models, params = _models(run), run.params
    draws = []
    for case in evaluation_draws(params, control_is_base=control_is_base):
        folder = case.folder(params)
        draws.append(
            Draw(
                run=run,
                name=f"evaluate-{folder.replace('/', '-')}",
                seed_name="evaluate",
                problems=problems_of(run, case.set),
                model=models[case.policy],
                folders=run.workspace.evaluation(folder),
                sample=case.sampling(params),
                stage="evaluate",
            )
        )
    return draws


def compare(run: Run) -> None:
    """Write the study of the evaluation, unless it exists under the same key."""
    params, workspace = run.params, run.workspace
    names = [one.dataset for one in params.evaluate.sets]
    tables = {"problems": workspace.problems("test")}
    tables |= {f"problems of {name}": problems_of(run, name) for name in names}
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
        main, *others = (read_problems(run, name) for name in (MAIN, *names))
        problems = [*itertools.chain(main, *others)]
        study, series = loop_study(
            params,
            partial(_groups, run),
            provenance={},
            seen={name: seen_in_training(model, problems) for name, model in _models(run).items()},
        )
        write_study(fresh, study, series, main, further=dict(zip(names, others, strict=True)))

    unit = Unit(workspace=run.root, stage="evaluate", key=key)
    make_folder(unit, workspace.evaluation_result, kind=KIND, fill=fill)


def _groups(run: Run, case: Case) -> list[Group]:
    drawn = BASE if case.policy == CONTROL and _control_is_base(run) else case.policy
    folders = run.workspace.evaluation(case._replace(policy=drawn).folder(run.params))
    return read_groups(problems_of(run, case.set), folders.paths, folders.verdicts)


def _models(run: Run) -> dict[str, str]:
    return {
        BASE: str(run.workspace.base),
        CONTROL: str(run.workspace.control),
        TRAINED: str(run.workspace.policy(run.params.rounds, rounds=run.params.rounds)),
        **dict.fromkeys(baselines(run.params), run.params.bootstrap.model or ""),
        **({TEACHER: name} if (name := run.params.sample.server.model) else {}),
    }


def _control_is_base(run: Run) -> bool:
    return run.params.train.control and read_control_report(run.workspace.control).is_base
