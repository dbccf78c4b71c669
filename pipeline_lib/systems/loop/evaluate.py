"""Evaluation: scores of base, control and trained policy, and their paired differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline_lib.store import manifests
from pipeline_lib.store.files import write_checked
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.reuse import Unit, make_folder
from pipeline_lib.study.comparison import compare as compare_summaries
from pipeline_lib.study.plan import (
    BASE,
    CONTROL,
    TRAINED,
    baselines,
    evaluation_draws,
    folder_name,
    temperatures,
)
from pipeline_lib.study.result import (
    FURTHER_NAME,
    RESULT_NAME,
    Baseline,
    EvaluationResult,
    FurtherResults,
    evaluate_policies,
)
from pipeline_lib.study.summary import evaluate_groups
from pipeline_lib.train.control_report import read_control_report
from pipeline_lib.train.rows.groups import GroupTable

if TYPE_CHECKING:  # not in the stage's code digest: other stages' params change no result
    import pathlib

    from pipeline_lib.params.paths import SampleParams
    from pipeline_lib.store.workspace import RoundFolders
    from pipeline_lib.systems.stage import Run

KIND = "evaluation"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDraw:
    """Paths of one policy for the test problems: a draw of the evaluation."""

    name: str
    model: str
    """Folder or hub id."""
    folders: RoundFolders
    sampling: SampleParams


def policy_draws(run: Run) -> list[PolicyDraw]:
    """The draws of the evaluation, with the folders of their policies."""
    return _policy_draws(run, control_is_base=_control_is_base(run))


def draws_without_control(run: Run) -> list[PolicyDraw]:
    """Those of `policy_draws` that need no control, which may still be in training."""
    return _policy_draws(run, control_is_base=True)


def _policy_draws(run: Run, *, control_is_base: bool) -> list[PolicyDraw]:
    models = {
        BASE: str(run.workspace.base),
        CONTROL: str(run.workspace.control),
        TRAINED: str(run.workspace.policy(run.params.rounds, rounds=run.params.rounds)),
        **dict.fromkeys(baselines(run.params), run.params.bootstrap.model or ""),
    }
    return [
        PolicyDraw(
            name=draw.folder,
            model=models[draw.policy],
            folders=run.workspace.evaluation(draw.folder),
            sampling=draw.sampling,
        )
        for draw in evaluation_draws(run.params, control_is_base=control_is_base)
    ]


def compare(run: Run) -> None:
    """Write the result of the evaluation, unless it exists under the same key."""
    params, workspace, seed = run.params.evaluate, run.workspace, run.params.seed
    tables = {"problems": workspace.problems("test")}
    for draw in policy_draws(run):
        tables |= {
            f"{draw.name} paths": draw.folders.paths,
            f"{draw.name} verdicts": draw.folders.verdicts,
        }
    key = stage_key(
        __name__,
        params={**params.model_dump(), "temperature": run.params.sample.temperature, "seed": seed},
        inputs={name: manifests.read_manifest(table).digest for name, table in tables.items()},
    )

    def fill(fresh: pathlib.Path) -> None:
        first, *others = temperatures(run.params)
        results = {temperature: _evaluate(run, temperature) for temperature in (first, *others)}
        write_checked(fresh / RESULT_NAME, results[first])
        further = FurtherResults(
            temperatures={temperature: results[temperature] for temperature in others},
            baselines=tuple(
                _baseline(run, name, temperature, trained=result)
                for temperature, result in results.items()
                for name in baselines(run.params)
            ),
        )
        if further != FurtherResults():
            write_checked(fresh / FURTHER_NAME, further)

    unit = Unit(workspace=run.root, stage="evaluate", key=key)
    make_folder(unit, workspace.evaluation_result, kind=KIND, fill=fill)


def _evaluate(run: Run, temperature: float) -> EvaluationResult:
    control = None
    if run.params.train.control:
        drawn = BASE if _control_is_base(run) else CONTROL
        control = _groups(run, drawn, temperature)
    return evaluate_policies(
        _groups(run, BASE, temperature),
        _groups(run, TRAINED, temperature),
        run.params.evaluate,
        seed=run.params.seed,
        control=control,
    )


def _baseline(run: Run, name: str, temperature: float, *, trained: EvaluationResult) -> Baseline:
    params, seed = run.params.evaluate, run.params.seed
    summary = evaluate_groups(list(_groups(run, name, temperature)), params, seed=seed)
    return Baseline(
        name=name,
        temperature=temperature,
        summary=summary,
        comparison=compare_summaries(summary, trained.trained, params, seed=seed),
    )


def _groups(run: Run, policy: str, temperature: float) -> GroupTable:
    folders = run.workspace.evaluation(folder_name(policy, temperature, run.params))
    return GroupTable(
        problems=run.workspace.problems("test"), paths=folders.paths, verdicts=folders.verdicts
    )


def _control_is_base(run: Run) -> bool:
    return run.params.train.control and read_control_report(run.workspace.control).is_base
