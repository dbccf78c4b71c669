"""Evaluation of models on problems: rollouts.jsonl, metrics.json and report.html; a killed one continues."""

import asyncio
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.problems.trained import seen_in_training
from pipeline_lib.store.files import check_output, write_json_lines
from pipeline_lib.store.journal import Journal, open_journal
from pipeline_lib.study.attempts import write_attempts
from pipeline_lib.study.headline import claims_of
from pipeline_lib.study.pages.page import REPORT_NAME
from pipeline_lib.study.study import METRICS_NAME, Study, write_study
from pipeline_lib.systems.apr.countdown.data_folder import ProblemLine
from pipeline_lib.systems.apr.evaluation.drawn import DrawnRows
from pipeline_lib.systems.apr.evaluation.page import write_report
from pipeline_lib.systems.apr.evaluation.plans import EvaluationSetting, Plan, make_plans
from pipeline_lib.systems.apr.evaluation.problem_source import ProblemSource
from pipeline_lib.systems.apr.evaluation.study import apr_study, rollout_attempts
from pipeline_lib.systems.apr.rollouts import Row, evaluated_row
from pipeline_lib.systems.apr.runtime import Runtime
from pipeline_lib.systems.apr.scheduler import run_rollouts

ROLLOUTS_NAME = "rollouts.jsonl"

OnProgress = Callable[[int, int], None]


def evaluate_models(
    models: Mapping[str, pathlib.Path],
    source: ProblemSource,
    output: pathlib.Path,
    setting: EvaluationSetting,
    *,
    replaces: bool = False,
    on_progress: OnProgress = lambda _done, _total: None,
) -> list[DrawnRows]:
    """Evaluate each model under each condition and temperature, with the same seeds; returns the rollouts by setting.

    Finished rollouts of an earlier command are kept; those with a failed parent or child are drawn again.

    ``models`` are folders by the names that the files give them. With ``replaces`` rollouts of another input, model or
    setting in ``output`` are dropped, not refused. ``on_progress`` is called with finished and all rollouts.

    Raises:
        BadInputError: unusable models, problems or output; nothing has been drawn then.
        ReasonloopError: the server does not answer, or no rollout of a setting succeeded.
    """
    for name in (ROLLOUTS_NAME, METRICS_NAME, REPORT_NAME):
        check_output(output / name)
    plans = make_plans(models, source, setting)
    journals = _open_journals(plans, output, replaces=replaces)
    total = sum(len(plan.problems) * plan.samples for plan in plans)
    drawn: list[DrawnRows] = []
    for plan, journal in zip(plans, journals, strict=True):
        before = sum(len(one.rows) for one in drawn)

        def moved(done: int, before: int = before) -> None:
            on_progress(before + done, total)

        rows = asyncio.run(_draw(plan, journal, moved))
        drawn.append(DrawnRows(setting=plan.chosen, rows=rows))
    _check_whole(drawn)
    study, series = apr_study(
        drawn,
        setting.evaluate,
        seed=setting.seed,
        seen={name: seen_in_training(str(at), source.problems) for name, at in models.items()},
        provenance=setting.provenance,
    )
    study = study.with_claims(claims_of(study))
    _write_files(output, study, drawn)
    write_study(output, study, series, source.problems)
    return drawn


def _open_journals(plans: Sequence[Plan], output: pathlib.Path, *, replaces: bool) -> list[Journal]:
    paths = [output / f"rollouts-{place + 1}.journal" for place in range(len(plans))]
    if replaces:
        for left in {*output.glob("rollouts-*.journal")} - {*paths}:
            left.unlink()
    return [
        open_journal(path, key=plan.key, replaces_other=replaces)
        for path, plan in zip(paths, plans, strict=True)
    ]


async def _draw(plan: Plan, journal: Journal, moved: Callable[[int], None]) -> list[Row]:
    """The rows of all rollouts of a plan, in the order of the problems."""
    groups = plan.groups
    names = [str(place) for place in range(len(groups))]
    finished = {name for name in names if _is_finished(journal, name)}

    def report() -> None:
        moved(sum(len(journal.pieces[name]["rows"]) for name in finished))

    report()
    if len(finished) < len(names):
        async with plan.open_runtime() as runtime:
            for name, group in zip(names, groups, strict=True):
                if name not in finished:
                    journal.add(name, {"rows": await _draw_group(plan, runtime, group)})
                    finished.add(name)
                    report()
    return [row for name in names for row in journal.pieces[name]["rows"]]


def _is_finished(journal: Journal, name: str) -> bool:
    """True if the group was drawn, and no parent and no child of it failed."""
    return name in journal.pieces and not any(
        row.keys() & {"error", "child_error"} for row in journal.pieces[name]["rows"]
    )


async def _draw_group(plan: Plan, runtime: Runtime, group: Sequence[ProblemLine]) -> list[Row]:
    golds = {problem.id: problem.gold for problem in group}
    rollouts = await run_rollouts(runtime, plan.roots(group))
    return [evaluated_row(one, golds[one.root.problem_id]) for one in rollouts]


def _check_whole(drawn: Sequence[DrawnRows]) -> None:
    for one in drawn:
        errors = [row["error"] for row in one.rows if "error" in row]
        if len(errors) == len(one.rows):
            raise ReasonloopError(
                f"{one.setting.name}: every rollout failed; the first: {errors[0]}"
            )


def _write_files(output: pathlib.Path, study: Study, drawn: Sequence[DrawnRows]) -> None:
    rows = []
    for one in drawn:
        chosen = asdict(one.setting)
        place = {"model": chosen.pop("name"), **chosen}
        rows += [{**place, **row} for row in one.rows]
    write_json_lines(output / ROLLOUTS_NAME, rows)
    write_attempts(output / "attempts", list(rollout_attempts(study, drawn)))
    write_report(output / REPORT_NAME, study, drawn)


def check_models(models: Sequence[pathlib.Path], url: str | None) -> None:
    """Check that models can be compared.

    Raises:
        BadInputError: one is given twice, or there are several and one server.
    """
    if len(set(models)) < len(models):
        raise BadInputError(f"{' '.join(map(str, models))}: a model is given twice")
    if url is not None and len(models) > 1:
        raise BadInputError(
            f"--url {url}: serves one model, {len(models)} are given; give the folder of that one"
        )
