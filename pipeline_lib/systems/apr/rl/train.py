"""Reinforcement learning of a model of threads on the training problems of a data folder."""

import pathlib
import time
from collections.abc import Sequence
from functools import partial

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.apr import AprRlParams
from pipeline_lib.store.checkpoints import work_folder
from pipeline_lib.store.folders import check_output_folder
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.apr.countdown.data_folder import (
    ProblemLine,
    check_data,
    problem_file,
    read_problems,
    read_settings,
)
from pipeline_lib.systems.apr.evaluation.problem_source import check_fit, root_prompt
from pipeline_lib.systems.apr.model_record import (
    RECORD_NAME,
    ThreadModelRecord,
    choose_condition,
    read_record,
)
from pipeline_lib.systems.apr.rl.source import InProcessRollouts, ThreadRollouts
from pipeline_lib.systems.apr.rollouts import check_room
from pipeline_lib.systems.apr.runtime import TextTokens
from pipeline_lib.systems.apr.threads import Root
from pipeline_lib.train.phases import Phase, Progress, Row, Schedule, TrainContext
from pipeline_lib.train.rollout_grpo.rollouts import RolloutSource
from pipeline_lib.train.rollout_grpo.trainer import trainer_factory
from pipeline_lib.train.sequence import finished_training, run_phases
from pipeline_lib.train.tracking.trackers import Trackers
from pipeline_lib.train.weights import policies

_PHASE = "rl"


def train_by_rl(  # noqa: PLR0913 - what a training depends on
    model: pathlib.Path,
    data: pathlib.Path,
    output: pathlib.Path,
    rl: AprRlParams,
    *,
    seed: int,
    max_seconds: float | None = None,
    progress: Progress | None = None,
    trackers: Trackers | None = None,
    replaces: bool = False,
) -> Manifest:
    """Train ``model`` on rollouts of the training problems in ``data``; a finished training is reused.

    ``model`` is of `reasonloop apr train`, or of this training. An interrupted training resumes; after ``max_seconds``
    it stops behind a checkpoint. With ``replaces`` the model of another training in ``output`` is replaced, not refused.

    Raises:
        BudgetReachedError: the time limit was reached; the same call resumes.
        BadInputError: there are no steps, model and data do not fit, the condition was never trained,
            there are too few problems, or ``output`` holds something else.
    """
    start = time.perf_counter()
    if not rl.steps:
        raise BadInputError("apr.rl.steps=0: nothing to train; give at least 1")
    check_output_folder(output, kind=policies.KIND)
    record = read_record(model)
    digest = check_data(data).digest
    problems = read_problems(problem_file(data, "train"))
    check_fit(model, record, problems, style=read_settings(data).data.style)
    if len(problems) < rl.prompts:
        raise BadInputError(
            f"apr.rl.prompts={rl.prompts}: {data} has {len(problems)} training problems; "
            "generate more, or lower it"
        )
    rows = prompt_rows(model, record, problems, rl)
    key = stage_key(
        __name__,
        params={"rl": rl.model_dump(mode="json"), "seed": seed},
        inputs={"data": digest, "model": model_identity(str(model))},
    )
    finished = finished_training(output, key=key, replaces=replaces)
    if finished is not None:
        return finished
    source = ThreadRollouts(
        rollouts_of=partial(InProcessRollouts, style=record.style),
        rl=rl,
        window=record.window,
        seed=seed,
    )
    context = TrainContext(
        work=work_folder(output, key),
        key=key,
        seed=seed,
        threads=rl.threads,
        progress=progress,
        trackers=trackers,
        problems=problems,
        deadline=None if max_seconds is None else start + max_seconds,
    )
    return run_phases(
        [make_phase(rows, source, rl, kind=record.kind)],
        str(model),
        output,
        context=context,
        records={RECORD_NAME: record.model_dump(mode="json")},
    )


def make_phase(rows: Sequence[Row], source: RolloutSource, rl: AprRlParams, *, kind: str) -> Phase:
    """The phase that trains a model of ``kind`` on the rollouts of ``source``."""
    rollouts = rl.prompts * rl.group_size
    kl_coef = rl.serial_kl_coef if kind == "serial" else rl.kl_coef
    return Phase(
        name=_PHASE,
        schedule=Schedule(
            steps=rl.steps,
            lr=rl.lr,
            batch_size=rollouts,
            micro_batch_size=rollouts,
            checkpoint_every=rl.checkpoint_every,
            gradient_checkpointing=False,
        ),
        make_trainer=trainer_factory(rows, rl, source=source, kl_coef=kl_coef),
    )


def prompt_rows(
    model: pathlib.Path,
    record: ThreadModelRecord,
    problems: Sequence[ProblemLine],
    rl: AprRlParams,
) -> list[Row]:
    """The prompts of all problems, under one condition.

    Raises:
        BadInputError: the model was not trained on the condition, or its window has no room for a prompt.
    """
    amount = rl.children if record.kind == "parallel" else rl.tokens
    condition = choose_condition(model, record, amount)
    rows: list[Row] = [
        {"problem_id": one.id, "prompt": root_prompt(one, record, condition)} for one in problems
    ]
    check_room(
        [Root(problem_id=row["problem_id"], sample=0, prompt=row["prompt"]) for row in rows],
        TextTokens.of(load_tokenizer(str(model))),
        window=record.window,
    )
    return rows
