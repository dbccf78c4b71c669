"""The stages of PaCoRe after its data: a synthesizer, its control, an evaluation."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import user_message
from pipeline_lib.store import shards
from pipeline_lib.systems.pacore.evaluation.evaluate import (
    draw_trials,
    evaluate_models,
)
from pipeline_lib.systems.pacore.evaluation.trials import make_strategies
from pipeline_lib.systems.pacore.message_cache import CachedQuestion, cached_paths
from pipeline_lib.systems.pacore.policy_messages import source_of
from pipeline_lib.systems.pacore.synthesizer import (
    chat_format_for,
    supervised_training,
    train_synthesizer,
)
from pipeline_lib.telemetry import record_work, step_recorder

if TYPE_CHECKING:  # Run: no part of the stage's code, as params of other stages change no result
    import pathlib

    from pipeline_lib.engines.chat_model import ChatFormat
    from pipeline_lib.params.whole import Params
    from pipeline_lib.systems.stage import Run


def train(run: Run) -> None:
    """Train the synthesizer."""
    _train(run, run.workspace.pacore.model, run.params, stage="pacore-train")


def train_control(run: Run) -> None:
    """Train a control of the synthesizer: as many steps of SFT, on plain prompts."""
    folder, params = run.workspace.pacore.control, run.params
    folder.mkdir(parents=True, exist_ok=True)  # dvc.yaml lists it as an output
    settings = params.pacore.train
    if not settings.control:
        return
    plain = params.pacore.episodes.model_copy(update={"plain": 1.0})
    pacore = params.pacore.model_copy(
        update={"episodes": plain, "train": supervised_training(settings)}
    )
    _train(run, folder, params.model_copy(update={"pacore": pacore}), stage="pacore-control")


def evaluate(run: Run) -> None:
    """Compare the policy, the synthesizer and the control, each by its votes and its syntheses."""
    evaluate_models(
        evaluated_models(run),
        _test_problems(run),
        run.workspace.pacore.reports,
        run.params,
        about="synthesizer",
        replaces=True,  # models that were trained anew replace those that were evaluated before
        workers=run.params.execution.workers,
        on_progress=step_recorder(run.root, "pacore-evaluate"),
    )


def evaluated_models(run: Run) -> dict[str, str]:
    """Folders of the models that `evaluate` compares, by name."""
    folders = run.workspace.pacore
    models = {"policy": folders.base, "synthesizer": folders.model}
    if run.params.pacore.train.control:
        models["control"] = folders.control
    return {name: str(folder) for name, folder in models.items()}


def draw_evaluated(run: Run, name: str) -> None:
    """Draw the trials of one model, which `evaluate` then reads."""
    models, problems = evaluated_models(run), _test_problems(run)
    total = len(problems) * len(make_strategies(run.params.pacore))
    draw_trials(
        models[name],
        problems,
        run.workspace.pacore.reports,
        run.params,
        place=list(models).index(name),
        replaces=True,
        moved=lambda done: record_work(
            run.root,
            "pacore-evaluate",
            done=done,
            total=total,
            unit="step",
            label=f"pacore-evaluate {name}",
        ),
    )


def _test_problems(run: Run) -> list[Problem]:
    return [Problem.from_row(row) for row in shards.iter_table(source_of(run).problems("test"))]


def _questions(run: Run, chat_format: ChatFormat) -> list[CachedQuestion]:
    problems = {
        problem.id: problem
        for problem in map(Problem.from_row, shards.iter_table(source_of(run).problems("train")))
    }
    ask = partial(user_message, chat_format=chat_format)
    found = []
    rows = shards.iter_table(run.workspace.pacore.messages)
    for name, group in groupby(rows, key=lambda row: row["problem_id"]):
        drawn = [row for row in group if row["text"] is not None]
        texts = [row["text"] for row in drawn]
        right = [row["strict"] for row in drawn]
        found.append(cached_paths(problems[name], texts, ask, right=right))
    return found


def _train(run: Run, output: pathlib.Path, params: Params, *, stage: str) -> None:
    base = str(run.workspace.pacore.base)
    questions = _questions(run, chat_format_for(base))
    train_synthesizer(base, questions, output, params, progress=step_recorder(run.root, stage))
