"""The stage that compares synthesis with votes."""

from pipeline_lib.systems.pacore.evaluation import (
    draw_trials,
    evaluate_models,
)
from pipeline_lib.systems.pacore.policy_messages import read_problems
from pipeline_lib.systems.pacore.retries import MODEL
from pipeline_lib.systems.pacore.scratch import has_retries, on_own_task
from pipeline_lib.systems.pacore.trials import make_strategies
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import step_recorder


def evaluate(run: Run) -> None:
    """Compare the policy, the synthesizer and the control, each by its votes and its syntheses."""
    run = on_own_task(run)
    evaluate_models(
        evaluated_models(run),
        read_problems(run, "test"),
        run.workspace.pacore.reports,
        run.params,
        about="synthesizer",
        plain=_plain(run),
        replaces=True,  # models that were trained anew replace those that were evaluated before
        workers=run.params.execution.workers,
        on_progress=step_recorder(run.root, "pacore-evaluate"),
    )


def evaluated_models(run: Run) -> dict[str, str]:
    """Folders of the models that `evaluate` compares, by name; random weights are none."""
    folders = run.workspace.pacore
    models = {"policy": folders.base, "synthesizer": folders.model}
    if run.params.pacore.start == "scratch":
        del models["policy"]
    if run.params.pacore.train.control:
        models["control"] = folders.control
    if has_retries(run):
        models[MODEL] = folders.retries
    return {name: str(folder) for name, folder in models.items()}


def _plain(run: Run) -> set[str]:
    """Models from scratch that never saw references."""
    return {"control", MODEL} if run.params.pacore.start == "scratch" else set()


def draw_evaluated(run: Run, name: str) -> None:
    """Draw the trials of one model, which `evaluate` then reads."""
    run = on_own_task(run)
    models, problems = evaluated_models(run), read_problems(run, "test")
    progress = step_recorder(run.root, "pacore-evaluate", label=f"pacore-evaluate {name}")
    strategies = make_strategies(
        run.params.pacore, problems=len(problems), synthesizes=name not in _plain(run)
    )
    total = len(problems) * len(strategies)
    draw_trials(
        models[name],
        problems,
        run.workspace.pacore.reports,
        run.params,
        place=list(models).index(name),
        strategies=strategies,
        replaces=True,
        moved=lambda done: progress(done, total),
    )
