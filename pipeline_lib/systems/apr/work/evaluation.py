"""The stages that choose the conditions and compare the models."""

import pathlib
from dataclasses import replace

from pipeline_lib.study.provenance import provenance
from pipeline_lib.systems.apr.data_folder import trace_kinds
from pipeline_lib.systems.apr.evaluation.evaluate import evaluate_models
from pipeline_lib.systems.apr.evaluation.limits import gates_of
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
from pipeline_lib.systems.apr.own_data import on_own_task
from pipeline_lib.systems.apr.words.task import GATES
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import record_event, step_recorder

_UNTRAINED_DRAW = 128
"""Tokens of one draw of the model that was not trained; it repeats itself where it fails."""


def choose(run: Run) -> None:
    """Compare the conditions of each model greedily, and write the most accurate one of each."""
    params, folders = on_own_task(run.params), run.workspace.apr
    trained = [read_record(one).trained_amounts for one in (folders.parallel, folders.serial)]
    if trained == [[0], [0]]:
        write_chosen(folders.valid_reports, ChosenConditions(parallel=0, serial=0))
        return
    drawn = evaluate_models(
        {"parallel": folders.parallel, "serial": folders.serial},
        read_source(folders.data, None, "valid"),
        folders.valid_reports,
        EvaluationSetting(
            children=trained[0],
            tokens=trained[1],
            temperatures=(0,),
            samples=1,
            batch_size=params.apr.evaluate.batch_size,
            first_success=False,
            serve=None,
            evaluate=params.evaluate,
            verify=params.verify,
            seed=params.seed,
            workers=params.execution.workers,
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
    folders, whole = run.workspace.apr, on_own_task(run.params)
    params, base, data = whole.apr.evaluate, whole.apr.model.base, whole.apr.data
    has_terse = "terse" in trace_kinds(data)
    models = {} if base is None else {"untrained": pathlib.Path(base)}
    models |= {"parallel": folders.parallel, "serial": folders.serial}
    models |= {"terse": folders.terse} if has_terse else {}
    if whole.apr.rl.steps:
        models |= {"parallel-rl": folders.parallel_rl, "serial-rl": folders.serial_rl}
        models |= {"terse-rl": folders.terse_rl} if has_terse else {}
    chosen = read_chosen(folders.valid_reports, children=params.children, tokens=params.tokens)
    setting = EvaluationSetting(
        children=(chosen.parallel,),
        tokens=(chosen.serial,),
        temperatures=params.temperatures,
        samples=params.samples,
        serial_samples=params.serial_samples,
        batch_size=params.batch_size,
        first_success=False,
        serve=None,
        evaluate=whole.evaluate,
        verify=whole.verify,
        max_tokens=_UNTRAINED_DRAW,
        seed=whole.seed,
        provenance=provenance(whole),
        workers=whole.execution.workers,
    )
    progress = step_recorder(run.root, "apr-evaluate")
    source = read_source(folders.data, None, "test")
    drawn = evaluate_models(
        models, source, folders.reports, setting, replaces=True, on_progress=progress
    )
    if data.form == "parts":
        evaluate_models(
            models,
            read_source(folders.data, None, "wordings"),
            folders.reports / "wordings",
            replace(setting, temperatures=(0.0,)),
            replaces=True,
            on_progress=progress,
        )
    for sentence in gates_of(drawn, GATES):
        record_event(run.root, "note", text=sentence)
