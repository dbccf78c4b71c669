"""Path sources of a training step: the protocol, and the source that draws from a served engine.

`live_rollouts` draws from the policy in memory instead. A source computes no reward and no loss.
"""

import itertools
import pathlib
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from pipeline_lib.engines.chat_model import ChatModel, Completion, Decoding, Request
from pipeline_lib.engines.identity import Endpoint
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.engines.tokens import encode_prompt
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.train.devices import present_devices
from pipeline_lib.train.token_budget import BRANCH_TOKENS
from pipeline_lib.train.weights.models import save_model, whole_weights

Client = TypeVar("Client")
ADAPTER = "policy"
"""Name of the adapter of the policy in training; its version is the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPath:
    """One path of a training step."""

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    """At least one token; the last is an end token unless the path was truncated."""
    logprobs: Sequence[float]
    """Natural log-probability of each completion token under the policy that drew it."""
    failed: bool = False
    """Drawing failed: the completion is a single end token, which must get no reward."""
    branch_tokens: int = 0
    """Tokens that were drawn for the prompts of its draw, with their own prompts; at the first path alone."""


class PathSource(Protocol):
    """Draws the paths of a step."""

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[DrawnPath]:
        """One path for each prompt, in order; the prompts of a group are adjacent.

        ``prompts`` are rendered, special tokens included; ``model`` is the policy, unwrapped, with adapters if it has
        any; ``step`` counts optimizer steps. A second draw at one step gives other paths.
        """


RolloutFunc = Callable[[Sequence[str], Any], dict[str, list[Any]]]
"""Called by TRL with the prompts of a step and the trainer."""


def make_rollout_func(source: PathSource) -> RolloutFunc:
    """``source`` as TRL's ``rollout_func``; TRL passes its further columns on to the reward function."""

    def roll_out(prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
        paths = source.draw(
            prompts,
            model=trainer.accelerator.unwrap_model(trainer.model),
            tokenizer=trainer.processing_class,
            step=int(trainer.state.global_step),
        )
        return {
            "prompt_ids": [list(path.prompt_ids) for path in paths],
            "completion_ids": [list(path.completion_ids) for path in paths],
            "logprobs": [list(path.logprobs) for path in paths],
            "failed": [path.failed for path in paths],
            BRANCH_TOKENS: [path.branch_tokens for path in paths],
        }

    return roll_out


@dataclass(slots=True)
class StepPlaces:
    """Places of what is drawn at a step, among the draws of all processes.

    Seeds that follow from them are those of an unbroken training on one process.
    """

    _step: int = -1
    _taken: int = 0

    def take(self, count: int, *, step: int) -> int:
        """The first of the next ``count`` places of this process; every process takes as many."""
        if step != self._step:
            self._step, self._taken = step, 0
        devices = present_devices()
        first = self._taken + devices.rank * count
        self._taken += devices.world * count
        return first


@dataclass(slots=True, kw_only=True)
class StepRequests:
    """Makes the requests of each step, with a seed for every path from the root seed, the step and the place."""

    seed: int
    _places: StepPlaces = field(default_factory=StepPlaces, init=False)

    def make(self, prompts: Sequence[str], *, step: int) -> list[Request]:
        """A request for each group of equal, adjacent prompts."""
        requests, place = [], self._places.take(len(prompts), step=step)
        for prompt, group in itertools.groupby(prompts):
            size = len(list(group))
            seeds = consecutive_seeds(size, self.seed, "rollout", step, place)
            requests.append(Request(prompt=prompt, seeds=seeds))
            place += size
        return requests


class AdapterEngine(Protocol):
    """A running engine that takes LoRA adapters."""

    def load_adapter(self, name: str, folder: pathlib.Path, version: str) -> Endpoint:
        """Serve the adapter of ``folder`` in place of older versions of the same name."""


def first_engine(stack: ExitStack, serve: ServeParams, **options: Any) -> AdapterEngine | None:
    """`serving_engine` until the end of ``stack``, in the first process of a training; None in the others.

    Raises:
        BadInputError: as `serving_engine`, in all of them.
        ReasonloopError: likewise.
    """
    engines: list[AdapterEngine] = []

    def start() -> None:
        engines.append(stack.enter_context(serving_engine(serve, **options)))

    present_devices().from_main(start)
    return engines[0] if engines else None


@dataclass(kw_only=True)
class StepAdapter(Generic[Client]):
    """The adapter of the policy in training at a served engine, loaded once for each step."""

    engine: AdapterEngine | None
    """None in other processes than the first."""
    model_at: Callable[[Endpoint], Client]
    """Makes the client of an endpoint."""
    folder: pathlib.Path
    """For the adapter of each step, which is deleted after the next one is loaded."""
    _served: tuple[int, Endpoint, Client] | None = field(default=None, init=False)

    def at_step(self, model: Any, step: int) -> tuple[Endpoint, Client]:
        """The engine, serving the weights of ``model`` as those of ``step``."""
        if self._served is None or self._served[0] != step:
            # All processes must gather shards, of which the first saves the whole.
            whole = whole_weights(model)
            endpoint = present_devices().from_main(partial(self._load, model, whole, step))
            self._served = step, endpoint, self.model_at(endpoint)
        return self._served[1:]

    def _load(self, model: Any, whole: dict[str, Any] | None, step: int) -> Endpoint:
        assert self.engine is not None
        folder = self.folder / f"step-{step}"
        save_model(model, folder, whole)
        endpoint = self.engine.load_adapter(ADAPTER, folder, str(step))
        if self._served is not None:
            shutil.rmtree(self.folder / f"step-{self._served[0]}", ignore_errors=True)
        return endpoint


@dataclass(kw_only=True)
class EndpointRollouts:
    """Paths drawn by a served engine under the adapter of the step. Implements PathSource.

    For engines on another device, or faster ones. An engine that batches requests by arrival rounds
    differently from run to run, so results are reproducible only as far as the engine is.
    """

    adapter: StepAdapter[ChatModel]
    decoding: Decoding
    seed: int
    _requests: StepRequests = field(init=False)

    def __post_init__(self) -> None:
        self._requests = StepRequests(seed=self.seed)

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[DrawnPath]:
        """One path for each prompt; the engine loads the adapter of ``model`` once per step.

        Raises:
            ReasonloopError: a path lacks token ids, or a log-probability for each token.
        """
        endpoint, client = self.adapter.at_step(model, step)
        groups = client.complete(self._requests.make(prompts, step=step), self.decoding)
        paths = itertools.chain.from_iterable(groups)
        return [
            _to_drawn_path(path, prompt=prompt, tokenizer=tokenizer, endpoint=endpoint)
            for prompt, path in zip(prompts, paths, strict=True)
        ]


def _to_drawn_path(
    path: Completion, *, prompt: str, tokenizer: Any, endpoint: Endpoint
) -> DrawnPath:
    failed = path.error is not None
    # TRL needs at least one token; without a reward it has no advantage.
    ids = (tokenizer.eos_token_id,) if failed else path.token_ids or ()
    logprobs = (0.0,) if failed else path.token_logprobs or ()
    if not ids or len(logprobs) != len(ids):
        # Tokenizing the text could give other tokens than were drawn, and TRL pads missing
        # log-probabilities with 0, a probability of 1.
        raise ReasonloopError(
            f"engine {endpoint.engine} at {endpoint.base_url} gave {len(ids)} token ids and "
            f"{len(logprobs)} log-probabilities for a path of {path.completion_tokens} tokens of "
            f"{endpoint.model}; training needs both for every token: set train.rollouts=in_process, "
            "or serve.engine=vllm"
        )
    return DrawnPath(
        prompt_ids=encode_prompt(tokenizer, prompt),
        completion_ids=ids,
        logprobs=logprobs,
        failed=failed,
    )
