"""GRPO for a model that spawns threads: rollouts on the training problems become token sequences with one reward.

Every sequence is trained on from its first sampled token to its end token. The runtime writes the joins, and a spawn in
the place of a join that the model wrote itself. This text is in the prefix of the next sequence, so it has no loss.
"""

import pathlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.engines.tokens import encode_completion, encode_prompt
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.apr import AprRlParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import LoraParams
from pipeline_lib.records import Problem
from pipeline_lib.seeding import child_seed
from pipeline_lib.store.checkpoints import work_folder
from pipeline_lib.store.files import digest_json
from pipeline_lib.store.folders import check_output_folder
from pipeline_lib.store.keys import stage_key
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.apr.evaluation.problem_source import ProblemSource, check_fit, read_source
from pipeline_lib.systems.apr.model_record import RECORD_NAME, ThreadModelRecord, choose_condition
from pipeline_lib.systems.apr.rollouts import check_room
from pipeline_lib.systems.apr.task import Row, ThreadTask, load_named
from pipeline_lib.systems.apr.tasks import record_of, task_of
from pipeline_lib.systems.apr.threads import Role, Root
from pipeline_lib.systems.apr.training_draws import ThreadDraws, open_engine
from pipeline_lib.train.offline.bucketed_sft import TokenRow
from pipeline_lib.train.phases import Phase, Progress, Schedule, TrainContext
from pipeline_lib.train.rollout_grpo.rollouts import RewardedRollout, RolloutSource
from pipeline_lib.train.rollout_grpo.trainer import trainer_factory
from pipeline_lib.train.sequence import finished_training, run_phases
from pipeline_lib.train.tracking.trackers import Trackers
from pipeline_lib.train.weights import policies

_TEMPERATURE = 1.0
"""Of sampling, and of the log-probabilities in the loss."""
_MOST_TOKENS = 512
"""Of one draw of a language model that was not trained on threads, as in an evaluation."""
_SPEED_WEIGHT = 0.5
_SPEED_LIMIT = 0.2
"""Share of tokens off the critical path above which the reward `speed` grows no more."""
_LENGTH_UNIT = 100
"""Tokens that the reward `length` takes one penalty for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRollouts:
    """A `RolloutSource` that calls a function such as `ThreadDraws`."""

    rollouts_of: Callable[..., list[Row]]
    """Samples with the current weights of the model, its first argument; the others are as of `rollouts.rollout_fun`. Each
    sequence of a row has ``output_ids``."""
    rl: AprRlParams
    window: int
    seed: int
    encode: Callable[[Any, str], list[int]] = encode_prompt
    """From the tokenizer and a prefix to its token ids."""

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[RewardedRollout]:
        """One rollout for each prompt.

        Raises:
            ReasonloopError: every rollout failed, or the engine gives no token ids.
        """
        rows = self.rollouts_of(
            model,
            prompts,
            temperature=_TEMPERATURE,
            tokenizer=tokenizer,
            window=self.window,
            seed=child_seed(self.seed, "rl draw", step),
        )
        errors = [reason for row in rows if (reason := _failure(row)) is not None]
        if len(errors) == len(rows):
            raise ReasonloopError(f"step {step + 1}: every rollout failed; the first: {errors[0]}")
        sequences = [one for row in rows for one in row["seqs"]]
        if not any("output_ids" in one for one in sequences):
            raise ReasonloopError(
                "the engine gives no token ids, and training needs those that were drawn; draw in process"
            )
        return [self._rewarded(row, tokenizer) for row in rows]

    def _rewarded(self, row: Row, tokenizer: Any) -> RewardedRollout:
        if _failure(row) is not None:
            return RewardedRollout(sequences=(), reward=None, counts={})
        trained = [one for one in row["seqs"] if one.get("output_ids")]
        counts = count_row(row, tokenizer)
        right = row["is_correct"]
        return RewardedRollout(
            sequences=[
                TokenRow(
                    ids_L=np.array([*prefix, *one["output_ids"]], dtype=np.int32),
                    loss_from=len(prefix),
                )
                for one in trained
                for prefix in [self.encode(tokenizer, one["prefix"])]
            ],
            reward=row["reward"]
            if "reward" in row
            else (reward_of(self.rl, **counts) if right else 0.0),
            counts={
                "accuracy": float(right),
                **counts,
                # Their text was cut within a token, so the sampled ids are unknown; they are not trained on.
                "lost_sequences": sum("output_ids" not in one for one in row["seqs"]),
            },
        )


def _failure(row: Row) -> str | None:
    """Why a rollout has no reward: it failed, or one of its children did, without whom its answer may be missing."""
    reason: str | None = row.get("error") or row.get("child_error")
    return reason


def reward_of(rl: AprRlParams, *, children: int, drawn_tokens: int, critical_tokens: int) -> float:
    """The reward of a right answer. A wrong answer has 0, else the model would learn the bonus in place of the answer.

    binary: 1. speed: up to 1.1, by the share of tokens off the critical path. threads: less ``penalty`` for each child.
    length: less ``penalty`` for each 100 tokens.

    ``drawn_tokens`` are the sampled tokens of all threads with their end tokens, ``critical_tokens`` the tokens of the
    parent and of each round's longest child.
    """
    saved = 1 - critical_tokens / drawn_tokens
    rewards = {
        "binary": 1.0,
        "speed": 1 + _SPEED_WEIGHT * min(saved, _SPEED_LIMIT),
        "threads": max(0.0, 1 - rl.penalty * children),
        "length": max(0.0, 1 - rl.penalty * drawn_tokens / _LENGTH_UNIT),
    }
    return rewards[rl.reward]


def count_row(row: Row, tokenizer: Any) -> dict[str, int]:
    """Children, drawn and critical tokens of a rollout that did not fail."""
    parent, drawn = 0, 0
    children: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for one in row["seqs"]:
        known = "output_ids" in one
        size = len(one["output_ids"] if known else encode_completion(tokenizer, one["output"]))
        drawn += size
        if one["role"] == Role.PARENT:
            parent += size
        else:
            children[one["round"]][one["child"]] += size
    return {
        "children": sum(map(len, children.values())),
        "drawn_tokens": drawn,
        "critical_tokens": parent + sum(max(sizes.values()) for sizes in children.values()),
    }


_PHASE = "rl"


def train_by_rl(  # noqa: PLR0913 - what a training depends on
    model: pathlib.Path,
    data: pathlib.Path | ProblemSource,
    output: pathlib.Path,
    rl: AprRlParams,
    *,
    seed: int,
    verify: VerifyParams,
    lora: LoraParams = policies.FULL,
    serve: ServeParams = ServeParams(),  # noqa: B008 - frozen
    max_seconds: float | None = None,
    progress: Progress | None = None,
    trackers: Trackers | None = None,
    replaces: bool = False,
) -> Manifest:
    """Train ``model`` on rollouts of the training problems in ``data``, or of those given; a finished one is reused.

    ``model`` is written by `reasonloop apr train`, or by this function, or is any language model. An interrupted training resumes; after
    ``max_seconds`` it stops once a checkpoint is written. With ``replaces`` the model of another training in ``output`` is replaced, not refused.

    Raises:
        BudgetReachedError: the time limit was reached; the same call resumes.
        BadInputError: there are no steps, model and data do not fit, the condition was never trained,
            there are too few problems, or ``output`` holds something else.
    """
    start = time.perf_counter()
    if not rl.steps:
        raise BadInputError("apr.rl.steps=0: nothing to train; give at least 1")
    check_output_folder(output, kind=policies.KIND)
    record = record_of(model, None, most_tokens=_MOST_TOKENS)
    source = read_source(data, None, "train") if isinstance(data, pathlib.Path) else data
    problems = source.problems
    check_fit(model, record, problems, style=source.style)
    if len(problems) < rl.prompts:
        raise BadInputError(
            f"apr.rl.prompts={rl.prompts}: there are {len(problems)} training problems; give more, or lower it"
        )
    grammar = None if rl.grammar is None else load_named(rl.grammar, key="apr.rl.grammar")
    of_tokenizer = partial(task_of, record, verify=verify, grammar=grammar)
    task = of_tokenizer(load_tokenizer(str(model)))
    rows = prompt_rows(model, record, problems, rl, task)
    own = None if rl.rollout is None else load_named(rl.rollout, key="apr.rl.rollout")
    drawn_by = {"name": serve.engine, "options": serve.options}
    key = stage_key(
        __name__,
        params={
            "rl": rl.model_dump(mode="json"),
            "lora": lora.model_dump(),
            "verify": verify.model_dump(),
            "engine": drawn_by if rl.rollouts == "endpoint" else None,
            "seed": seed,
        },
        inputs={
            "problems": digest_json([one.row() for one in problems]),
            "model": model_identity(str(model)),
        },
    )
    finished = finished_training(output, key=key, replaces=replaces)
    if finished is not None:
        return finished
    by_prompt = {row["prompt"]: problem for row, problem in zip(rows, problems, strict=True)}
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
    with ExitStack() as stack:
        draws = ThreadDraws(
            problems=by_prompt, task_of=of_tokenizer, most_tokens=record.most_tokens
        )
        if rl.rollouts == "endpoint":
            adapter = open_engine(stack, str(model), serve, lora, context.work)
            draws = replace(draws, at=adapter, concurrency=serve.concurrency)
        rollouts = ThreadRollouts(
            rollouts_of=draws if own is None else partial(own, problems=by_prompt),
            rl=rl,
            window=record.window,
            seed=seed,
            encode=lambda _tokenizer, text: task.tokens.encode(task.wire(text)),
        )
        return run_phases(
            [make_phase(rows, rollouts, rl, lora, kind=record.kind)],
            str(model),
            output,
            context=context,
            records={RECORD_NAME: record.model_dump(mode="json")},
        )


def make_phase(
    rows: Sequence[Row],
    source: RolloutSource,
    rl: AprRlParams,
    lora: LoraParams = policies.FULL,
    *,
    kind: str,
) -> Phase:
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
        make_trainer=trainer_factory(rows, rl, lora, source=source, kl_coef=kl_coef),
        lora=lora,
    )


def prompt_rows(
    model: pathlib.Path,
    record: ThreadModelRecord,
    problems: Sequence[Problem],
    rl: AprRlParams,
    task: ThreadTask,
) -> list[Row]:
    """The prompts of all problems, with one condition: the budget of children or tokens that a prompt states.

    Raises:
        BadInputError: the model was not trained on the condition, or its window has no room for a prompt.
    """
    budget = rl.children if record.kind == "parallel" else rl.tokens
    condition = choose_condition(model, record, budget)
    rows: list[Row] = [
        {"problem_id": one.id, "prompt": task.prompt(one, condition)} for one in problems
    ]
    check_room(
        [Root(problem_id=row["problem_id"], sample=0, prompt=row["prompt"]) for row in rows],
        task.tokens,
        window=record.window,
        wire=task.wire,
    )
    return rows
