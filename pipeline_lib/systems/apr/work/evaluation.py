"""The stages that choose the conditions and compare the models."""

from pipeline_lib.study.provenance import provenance
from pipeline_lib.systems.apr.evaluation.evaluate import evaluate_models
from pipeline_lib.systems.apr.evaluation.plans import EvaluationSetting
from pipeline_lib.systems.apr.evaluation.problem_source import read_source
from pipeline_lib.systems.apr.evaluation.study import most_accurate
from pipeline_lib.systems.apr.model_record import (
    ChosenConditions,
    amount_of,
    read_chosen,
    read_record,
    write_chosen,
)
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import step_recorder


def choose(run: Run) -> None:
    """Compare the conditions of each model greedily, and write the most accurate one of each."""
    folders = run.workspace.apr
    drawn = evaluate_models(
        {"parallel": folders.parallel, "serial": folders.serial},
        read_source(folders.data, None, "valid"),
        folders.valid_reports,
        EvaluationSetting(
            children=read_record(folders.parallel).trained_amounts,
            tokens=read_record(folders.serial).trained_amounts,
            temperatures=(0,),
            samples=1,
            first_success=False,
            serve=None,
            evaluate=run.params.evaluate,
            seed=run.params.seed,
        ),
        replaces=True,
        on_progress=step_recorder(run.root, "apr-conditions"),
    )
    best = {
        kind: amount_of(most_accurate([one for one in drawn if one.setting.kind == kind]).condition)
        for kind in ("parallel", "serial")
    }
    write_chosen(folders.valid_reports, ChosenConditions.model_validate(best))


def evaluate(run: Run) -> None:
    """Compare the models on the test problems, after reinforcement learning as well if there is any."""
    folders, params = run.workspace.apr, run.params.apr.evaluate
    models = {"parallel": folders.parallel, "serial": folders.serial}
    if run.params.apr.rl.steps:
        models |= {"parallel-rl": folders.parallel_rl, "serial-rl": folders.serial_rl}
    chosen = read_chosen(folders.valid_reports, children=params.children, tokens=params.tokens)
    evaluate_models(
        models,
        read_source(folders.data, None, "test"),
        folders.reports,
        EvaluationSetting(
            children=(chosen.parallel,),
            tokens=(chosen.serial,),
            temperatures=params.temperatures,
            samples=params.samples,
            first_success=False,
            serve=None,
            evaluate=run.params.evaluate,
            seed=run.params.seed,
            provenance=provenance(run.params),
        ),
        replaces=True,
        on_progress=step_recorder(run.root, "apr-evaluate"),
    )
