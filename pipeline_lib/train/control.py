"""The control: the base policy trained without the loop, with as much compute as the loop takes.

SFT on worked solutions. The budget is divided over schedules of increasing length, each from the base,
since one long schedule on few solutions overfits and ends below a short one. The checkpoint with the
lowest loss on held-out worked problems is kept, or the base if none has a lower one.
"""

import math
import pathlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from pipeline_lib.engines.pretrained import load_chat_format
from pipeline_lib.params.train import LoraParams
from pipeline_lib.problems.worked import WorkedProblems
from pipeline_lib.sampling.worked import solution_rows
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.train.control_report import REPORT_NAME, ControlReport
from pipeline_lib.train.devices import present_devices
from pipeline_lib.train.offline import sft
from pipeline_lib.train.phases import VALIDATION_LOSS, Phase, Row, Schedule, TrainContext, run_phase
from pipeline_lib.train.sequence import publish
from pipeline_lib.train.weights import policies

SHARES = (1, 2, 4)
"""Relative lengths of the schedules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRequest:
    """The control of one base policy."""

    base: pathlib.Path
    base_is_given: bool
    """The base was given, not made here: its training is unknown."""
    output: pathlib.Path
    worked: WorkedProblems
    budget_tokens: int
    schedule: Schedule
    """Rates and batches; ``steps`` are set from the budget."""
    lora: LoraParams
    context: TrainContext


def train_control(request: ControlRequest) -> Manifest:
    """Train, select, save and seal the control; an interrupted training is resumed.

    Without worked problems for both training and validation the folder holds a report and no weights:
    the control is then the base itself.
    """
    chat_format = load_chat_format(str(request.base))
    rows = solution_rows(request.worked.train, chat_format)
    validation = solution_rows(request.worked.validation, chat_format)
    if not rows or not validation:
        return _publish(request, ControlReport(is_base=True), weights=None, trained=[])
    phases = _phases(request, rows, validation)
    folders = {phase.name: run_phase(phase, str(request.base), request.context) for phase in phases}
    log = [
        row for folder in folders.values() for row in read_json_lines(folder / policies.LOG_NAME)
    ]
    validated = [row for row in log if VALIDATION_LOSS in row]
    kept = min(validated, key=lambda row: row[VALIDATION_LOSS])
    report = ControlReport(
        is_base=False,
        base_is_given=request.base_is_given,
        train_problems=len(request.worked.train),
        train_rows=len(rows),
        validation_problems=len(request.worked.validation),
        budget_tokens=request.budget_tokens,
        steps=sum(phase.schedule.steps for phase in phases),
        kept_phase=str(kept["phase"]) if kept["step"] else None,
        kept_step=kept["step"],
        validation_loss=kept[VALIDATION_LOSS],
        base_validation_loss=log[0][VALIDATION_LOSS],
    )
    weights = folders[kept["phase"]] if kept["step"] else request.base
    return _publish(request, report, weights=weights, trained=[*folders.values()])


def _publish(
    request: ControlRequest,
    report: ControlReport,
    *,
    weights: pathlib.Path | None,
    trained: Sequence[pathlib.Path],
) -> Manifest:
    problems = (*request.worked.train, *request.worked.validation)
    return present_devices().from_main(
        lambda: publish(
            weights,
            request.output,
            replace(request.context, problems=problems),
            trained=trained,
            start=str(request.base),
            records={REPORT_NAME: asdict(report)},
        )
    )


def _phases(request: ControlRequest, rows: Sequence[Row], validation: Sequence[Row]) -> list[Phase]:
    tokenizer = policies.load_tokenizer(str(request.base))
    mean = sum(len(sft.tokenize(row, tokenizer)["input_ids"]) for row in rows) / len(rows)
    steps = request.budget_tokens / (mean * request.schedule.batch_size)
    make_trainer = sft.trainer_factory(rows, lora=request.lora, validation=validation)
    return [
        Phase(
            name=f"control-{number}",
            schedule=_with_length(request.schedule, math.ceil(steps * share / sum(SHARES))),
            make_trainer=make_trainer,
            row_tokens=sft.row_tokens(rows),
            lora=request.lora,
        )
        for number, share in enumerate(SHARES, 1)
    ]


def _with_length(schedule: Schedule, steps: int) -> Schedule:
    """``schedule`` with about ``steps``, the last of which is a checkpoint: there the rate is lowest."""
    count = max(1, round(steps / schedule.checkpoint_every))
    every = math.ceil(steps / count)
    return replace(schedule, steps=every * count, checkpoint_every=every)
