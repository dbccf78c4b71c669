"""The stages that train a synthesizer and its control."""

import pathlib
from functools import partial
from itertools import groupby

from pipeline_lib.engines.chat_model import ChatFormat
from pipeline_lib.params.whole import Params
from pipeline_lib.sampling.prompts import conversation
from pipeline_lib.store import shards
from pipeline_lib.systems.pacore import scratch
from pipeline_lib.systems.pacore.message_cache import CachedQuestion, cached_paths
from pipeline_lib.systems.pacore.policy_messages import read_problems
from pipeline_lib.systems.pacore.synthesizer import (
    chat_format_for,
    supervised_training,
    train_synthesizer,
)
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import step_recorder


def train(run: Run) -> None:
    """Train the synthesizer."""
    own = run.params.pacore.scratch
    if run.params.pacore.start == "scratch":
        scratch.train(run, run.workspace.pacore.model, own, stage="pacore-train")
        return
    _train(run, run.workspace.pacore.model, run.params, stage="pacore-train")


def train_control(run: Run) -> None:
    """Train a control of the synthesizer: as many steps of SFT on plain prompts, or tokens of solutions.

    With `pacore.scratch.retries` also the policy that retries.
    """
    folder, params = run.workspace.pacore.control, run.params
    retries = run.workspace.pacore.retries
    for made in (folder, retries):
        made.mkdir(parents=True, exist_ok=True)  # dvc.yaml lists it as an output
    settings = params.pacore.train
    if scratch.has_retries(run):
        tries = params.pacore.scratch.model_copy(update={"paths": 1.0})
        scratch.train(run, retries, tries, stage="pacore-control", retries=True)
    if not settings.control:
        return
    if params.pacore.start == "scratch":
        alone = params.pacore.scratch.model_copy(update={"paths": 1.0, "solved": 1.0})
        scratch.train(run, folder, alone, stage="pacore-control")
        return
    plain = params.pacore.episodes.model_copy(update={"plain": 1.0})
    pacore = params.pacore.model_copy(
        update={"episodes": plain, "train": supervised_training(settings)}
    )
    _train(run, folder, params.model_copy(update={"pacore": pacore}), stage="pacore-control")


def _questions(run: Run, chat_format: ChatFormat) -> list[CachedQuestion]:
    problems = {problem.id: problem for problem in read_problems(run, "train")}
    ask = partial(conversation, chat_format=chat_format)
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
