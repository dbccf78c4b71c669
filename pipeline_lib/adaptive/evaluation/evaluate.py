"""Evaluation of models on problems: rollouts.jsonl, metrics.json and report.html; a killed one continues."""

import asyncio
import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pipeline_lib.adaptive.countdown.data_folder import ProblemLine
from pipeline_lib.adaptive.evaluation.figures import (
    Comparison,
    ModelFigures,
    Row,
    compare_models,
    evaluated_row,
    model_figures,
)
from pipeline_lib.adaptive.evaluation.open_draws import ThreadModel
from pipeline_lib.adaptive.evaluation.page import write_page
from pipeline_lib.adaptive.evaluation.problem_source import (
    check_fit,
    choose_condition,
    root_prompt,
)
from pipeline_lib.adaptive.model_record import read_record
from pipeline_lib.adaptive.rollout import Root
from pipeline_lib.adaptive.runtime import Runtime
from pipeline_lib.adaptive.scheduler import run_rollouts
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.serving.identity import model_identity
from pipeline_lib.storage.files import check_output, digest_json, write_json, write_json_lines
from pipeline_lib.storage.journal import Journal, open_journal
from pipeline_lib.storage.shards import split

ROLLOUTS_NAME = "rollouts.jsonl"
METRICS_NAME = "metrics.json"
REPORT_NAME = "report.html"
_TOGETHER = 128
"""Rollouts that are drawn together, and again if they are not all finished: their batches, and with them
the rounding, are those of an unbroken evaluation."""

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSetting:
    """Conditions, sampling and statistics of an evaluation."""

    children: int | None
    """Per spawn, as the condition of parallel models; None: the largest of their training."""
    tokens: int | None
    """Of a sequence, as the condition of serial models; None: the largest of their training."""
    temperature: float
    samples: int
    """Rollouts of each problem."""
    first_success: bool
    serve: ServeParams | None
    """The server of the only model; None: models are drawn in process."""
    evaluate: EvaluateParams
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """Figures of the models, and their comparisons."""

    models: Sequence[ModelFigures]
    paired: Sequence[Comparison]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The rollouts of one model, checked."""

    name: str
    model: ThreadModel
    condition: str
    problems: Sequence[ProblemLine]
    setting: EvaluationSetting

    @property
    def groups(self) -> Sequence[Sequence[ProblemLine]]:
        """Problems whose rollouts are drawn together."""
        return split(self.problems, max(1, _TOGETHER // self.setting.samples))

    def roots(self, problems: Sequence[ProblemLine]) -> list[Root]:
        """The parents of ``problems``."""
        return [
            Root(
                problem_id=problem.id,
                sample=sample,
                prompt=root_prompt(problem, self.model.record, self.condition),
            )
            for problem in problems
            for sample in range(self.setting.samples)
        ]

    @property
    def key(self) -> str:
        """Digest of everything that the rollouts depend on."""
        setting, serve = self.setting, self.setting.serve
        return digest_json(
            {
                "model": model_identity(str(self.model.folder)),
                "record": self.model.record.model_dump(mode="json"),
                "condition": self.condition,
                "problems": [problem.model_dump(mode="json") for problem in self.problems],
                "samples": setting.samples,
                "temperature": setting.temperature,
                "first_success": setting.first_success,
                "seed": setting.seed,
                "url": serve.url if serve else None,
            }
        )


def evaluate_models(  # noqa: PLR0913 - what an evaluation depends on
    models: Mapping[str, pathlib.Path],
    problems: Sequence[ProblemLine],
    output: pathlib.Path,
    setting: EvaluationSetting,
    *,
    style: str | None = None,
    replaces: bool = False,
    on_progress: OnProgress = lambda _done, _total: None,
) -> Evaluated:
    """Evaluate each model on ``problems`` with the same seeds; finished groups of rollouts are kept.

    Args:
        models: folders by the names that the files give them.
        problems: each with as many numbers as the models know.
        output: folder of the three files.
        setting: conditions, temperature, samples, server.
        style: of the data folder that the problems are from, if they are from one.
        replaces: rollouts of another input, model or setting in ``output`` are dropped, not refused.
        on_progress: called with finished and all rollouts.

    Raises:
        BadInputError: unusable models, problems or output; nothing has been drawn then.
        ReasonloopError: the server does not answer, or no rollout of a model succeeded.
    """
    for name in (ROLLOUTS_NAME, METRICS_NAME, REPORT_NAME):
        check_output(output / name)
    plans = [_plan(name, folder, problems, setting, style=style) for name, folder in models.items()]
    _check_conditions({plan.model.record.kind for plan in plans}, setting)
    journals = [
        open_journal(
            output / f"rollouts-{place + 1}.journal", key=plan.key, replaces_other=replaces
        )
        for place, plan in enumerate(plans)
    ]
    total = len(plans) * len(problems) * setting.samples
    rows: dict[str, list[Row]] = {}
    for plan, journal in zip(plans, journals, strict=True):
        before = sum(map(len, rows.values()))

        def moved(done: int, before: int = before) -> None:
            on_progress(before + done, total)

        rows[plan.name] = asyncio.run(_draw(plan, journal, moved))
    evaluated = _estimate(plans, rows, setting)
    write_json_lines(
        output / ROLLOUTS_NAME,
        [{"model": name, **row} for name, own in rows.items() for row in own],
    )
    write_json(
        output / METRICS_NAME,
        {
            "models": [one.row() for one in evaluated.models],
            "paired": [one.row() for one in evaluated.paired],
            "temperature": setting.temperature,
            "samples": setting.samples,
        },
    )
    write_page(output / REPORT_NAME, evaluated.models, evaluated.paired, rows)
    return evaluated


def _plan(
    name: str,
    folder: pathlib.Path,
    problems: Sequence[ProblemLine],
    setting: EvaluationSetting,
    *,
    style: str | None,
) -> _Plan:
    record = read_record(folder)
    check_fit(folder, record, problems, style=style)
    condition = choose_condition(folder, record, children=setting.children, tokens=setting.tokens)
    model = ThreadModel.read(folder, record, setting.serve)
    plan = _Plan(name=name, model=model, condition=condition, problems=problems, setting=setting)
    model.check_room(plan.roots(problems))
    return plan


def _check_conditions(kinds: Collection[str], setting: EvaluationSetting) -> None:
    for name, kind in (("children", "parallel"), ("tokens", "serial")):
        if getattr(setting, name) is not None and kind not in kinds:
            raise BadInputError(
                f"{name}={getattr(setting, name)}: is for {kind} models, and none is given; leave it out"
            )


async def _draw(plan: _Plan, journal: Journal, moved: Callable[[int], None]) -> list[Row]:
    """The rows of all rollouts of a model, in the order of the problems."""
    groups = plan.groups
    names = [str(place) for place in range(len(groups))]

    def report() -> None:
        moved(sum(len(piece["rows"]) for piece in journal.pieces.values()))

    report()
    if any(name not in journal.pieces for name in names):
        setting = plan.setting
        async with plan.model.open_runtime(
            temperature=setting.temperature,
            seed=setting.seed,
            first_success=setting.first_success,
        ) as runtime:
            for name, group in zip(names, groups, strict=True):
                if name not in journal.pieces:
                    journal.add(name, {"rows": await _draw_group(plan, runtime, group)})
                    report()
    return [row for name in names for row in journal.pieces[name]["rows"]]


async def _draw_group(plan: _Plan, runtime: Runtime, group: Sequence[ProblemLine]) -> list[Row]:
    golds = {problem.id: problem.gold for problem in group}
    rollouts = await run_rollouts(runtime, plan.roots(group))
    return [evaluated_row(one, golds[one.root.problem_id]) for one in rollouts]


def _estimate(
    plans: Sequence[_Plan], rows: dict[str, list[Row]], setting: EvaluationSetting
) -> Evaluated:
    for plan in plans:
        errors = [row["error"] for row in rows[plan.name] if "error" in row]
        if len(errors) == len(rows[plan.name]):
            raise ReasonloopError(f"{plan.name}: every rollout failed; the first: {errors[0]}")
    figures = [
        model_figures(
            plan.name,
            plan.model.record.kind,
            plan.condition.strip(),
            rows[plan.name],
            setting.evaluate,
            seed=setting.seed,
        )
        for plan in plans
    ]
    return Evaluated(
        models=figures, paired=compare_models(rows, setting.evaluate, seed=setting.seed)
    )


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
