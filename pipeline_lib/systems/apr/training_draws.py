"""Threads that a training draws with its current weights: in its own process, or at a served engine."""

import asyncio
import pathlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipeline_lib.engines.chat_model import ChatModel, Decoding
from pipeline_lib.engines.client.client import OpenAIModel
from pipeline_lib.engines.client.response_parsing import OTHER_MODEL
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.identity import Endpoint
from pipeline_lib.engines.started_engine import connect
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import LoraParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.apr.rollouts import make_roots
from pipeline_lib.systems.apr.runtime import UNBOUNDED, Runtime
from pipeline_lib.systems.apr.scheduler import draw_rollouts
from pipeline_lib.systems.apr.task import Row, ThreadTask, rollout_row
from pipeline_lib.train.online.live_rollouts import eval_mode
from pipeline_lib.train.online.rollouts import StepAdapter, first_engine

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_BATCH = 512
"""Sequences decoded together; more take memory and make a pass no cheaper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadDraws:
    """Rows of `rollout_fun`, drawn with the current weights of a model and judged."""

    problems: Mapping[str, Problem]
    """By their prompts."""
    task_of: Callable[["PreTrainedTokenizerBase"], ThreadTask]
    at: StepAdapter[OpenAIModel] | None = None
    """A served engine; None: the model draws in this process, in its memory."""
    concurrency: int = UNBOUNDED
    """Draws in flight."""
    most_tokens: int | None = None
    """Of one draw; None: as the window has room for."""

    def __call__(
        self,
        model: Any,
        prefix_list: Sequence[str],
        *,
        temperature: float,
        tokenizer: "PreTrainedTokenizerBase",
        window: int,
        seed: int,
    ) -> list[Row]:
        """One row for each prompt; the train or eval mode of ``model`` is restored.

        Raises:
            ReasonloopError: a reply is of another adapter than the step's.
        """
        task = self.task_of(tokenizer)
        engine: ChatModel
        if self.at is not None:
            _, client = self.at.at_step(model, seed)
            engine = replace(client, encode=task.tokens.encode, chat_format=None)
        else:
            # A new engine for each call: its memory layout does not depend on earlier ones, and is free for
            # the loss that follows.
            engine = EmbeddedEngine(
                model=model, tokenizer=tokenizer, identity="in training", batch_size=_BATCH
            )
        with eval_mode(model):
            rollouts = draw_rollouts(
                engine,
                make_roots(prefix_list),
                lambda draws: Runtime(
                    grammar=task.grammar,
                    draws=draws,
                    wire=task.wire,
                    decoding=Decoding(
                        temperature=temperature, max_new_tokens=self.most_tokens or window
                    ),
                    slots=asyncio.Semaphore(self.concurrency),
                    seed=seed,
                    tokens=task.tokens,
                    window=window,
                    limits=task.limits,
                ),
                encode=task.tokens.encode,
            )
        for one in rollouts:
            if OTHER_MODEL in (reason := one.error or one.child_error or ""):
                raise ReasonloopError(f"{reason}: its draws are not of this step's weights")
        judged = task.judge(rollouts, self.problems)
        return [rollout_row(one, its) for one, its in zip(rollouts, judged, strict=True)]


def open_engine(
    stack: ExitStack, model: str, serve: ServeParams, lora: LoraParams, work: pathlib.Path
) -> StepAdapter[OpenAIModel]:
    """The engine of ``serve``, until the end of ``stack``.

    Raises:
        BadInputError: weights are trained, which no engine takes between steps, or the engine cannot be started.
    """
    if not lora.enabled:
        raise BadInputError(
            "apr.rl.rollouts=endpoint: an engine takes adapters alone between steps; set "
            "apr.model.lora.enabled=true, or draw in_process"
        )
    engine = first_engine(stack, serve, model=model, log_folder=work, lora_rank=lora.rank)

    def client(endpoint: Endpoint) -> OpenAIModel:
        return connect(endpoint, serve, model=model)

    return StepAdapter(engine=engine, model_at=client, folder=work / "adapters")
