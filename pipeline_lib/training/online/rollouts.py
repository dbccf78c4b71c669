"""Where the paths of a training step come from: what every source gives, and the one that asks a server.

The other source, the policy that is in training, stands in `live_rollouts`. Sources know prompts and
tokens; what a path is worth, and how it is learned from, the methods say.
"""

import itertools
import pathlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.serving.chat_model import ChatModel, Completion, Decoding, Request
from pipeline_lib.serving.endpoint import Endpoint

ADAPTER = "policy"
"""The name under which the engine knows the policy in training; its version is the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPath:
    """One path of a training step."""

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    """At least one; the last is an end token, unless the path was cut at the length limit."""
    logprobs: Sequence[float]
    """Natural log-probability of each completion token under the policy that drew it."""
    failed: bool = False
    """Our side failed to draw it: one end token stands for it, and it must get no reward."""


class PathSource(Protocol):
    """Draws the paths of a step."""

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[DrawnPath]:
        """One path for each prompt, in order; prompts of one group stand side by side.

        Args:
            prompts: rendered, special tokens included.
            model: the policy as it is now, unwrapped, with its adapters where it has some.
            tokenizer: the policy's.
            step: steps of the optimizer so far. A second draw at one step gives other paths.
        """
        ...


RolloutFunc = Callable[[Sequence[str], Any], dict[str, list[Any]]]
"""What TRL calls with the prompts of a step and the trainer."""


def rollout_func(source: PathSource) -> RolloutFunc:
    """``source`` as TRL takes it; ``failed`` reaches the reward function beside the columns of a row."""

    def rolled_out(prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
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
        }

    return rolled_out


@dataclass(slots=True, kw_only=True)
class StepRequests:
    """Requests of one step after another, in which every path has a seed of its own.

    It follows from the root seed, the step and the path's place in the step, so that a training that is
    continued draws what an unbroken one draws.
    """

    seed: int
    _step: int = field(default=-1, init=False)
    _num_drawn: int = field(default=0, init=False)
    """Paths drawn at this step so far."""

    def of(self, prompts: Sequence[str], *, step: int) -> list[Request]:
        """A request for each group of equal prompts that stand side by side."""
        if step != self._step:
            self._step, self._num_drawn = step, 0
        requests = []
        for prompt, group in itertools.groupby(prompts):
            size = len(list(group))
            seeds = consecutive_seeds(size, self.seed, "rollout", step, self._num_drawn)
            requests.append(Request(prompt=prompt, seeds=seeds))
            self._num_drawn += size
        return requests


class AdapterEngine(Protocol):
    """A running engine that takes LoRA adapters."""

    def load_adapter(self, name: str, folder: pathlib.Path, version: str) -> Endpoint:
        """Serve the adapter of ``folder``, and no older version of the same name."""


@dataclass(kw_only=True)
class EndpointRollouts:
    """Paths drawn through an endpoint, under the adapter of that very step. Implements PathSource.

    For engines that stand on another device, or are faster than what draws in this process. How far two
    runs agree is the engine's affair: one that batches requests as they come rounds as they come.
    """

    engine: AdapterEngine
    model_at: Callable[[Endpoint], ChatModel]
    """Makes the client of an endpoint."""
    folder: pathlib.Path
    """Where the adapters of single steps lie while they are in use."""
    decoding: Decoding
    seed: int
    _requests: StepRequests = field(init=False)
    _endpoint: Endpoint | None = field(default=None, init=False)
    _client: ChatModel | None = field(default=None, init=False)
    _step: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        self._requests = StepRequests(seed=self.seed)

    def draw(
        self, prompts: Sequence[str], *, model: Any, tokenizer: Any, step: int
    ) -> list[DrawnPath]:
        """One path for each prompt; the server gets the adapter of ``model`` once a step.

        Raises:
            ReasonloopError: the engine gives a path no token ids, or not one log-probability a token.
        """
        self._bring_up_to_date(model, step)
        assert self._client is not None
        assert self._endpoint is not None
        groups = self._client.complete(self._requests.of(prompts, step=step), self.decoding)
        paths = itertools.chain.from_iterable(groups)
        return [
            _drawn_path(path, prompt=prompt, tokenizer=tokenizer, endpoint=self._endpoint)
            for prompt, path in zip(prompts, paths, strict=True)
        ]

    def _bring_up_to_date(self, model: Any, step: int) -> None:
        """Let the engine serve the weights of this step."""
        if step == self._step:
            return
        folder = self.folder / f"step-{step}"
        model.save_pretrained(folder)
        self._endpoint = self.engine.load_adapter(ADAPTER, folder, str(step))
        self._client = self.model_at(self._endpoint)
        shutil.rmtree(self.folder / f"step-{self._step}", ignore_errors=True)
        self._step = step


def _drawn_path(path: Completion, *, prompt: str, tokenizer: Any, endpoint: Endpoint) -> DrawnPath:
    failed = path.error is not None
    # TRL wants at least one token; without a reward it counts for nothing.
    ids = (tokenizer.eos_token_id,) if failed else path.token_ids or ()
    logprobs = (0.0,) if failed else path.token_logprobs or ()
    if not ids or len(logprobs) != len(ids):
        # Text may be cut into other tokens than were drawn; a missing number is padded by 0, which
        # is a probability of 1.
        raise ReasonloopError(
            f"engine {endpoint.engine} at {endpoint.base_url} gave {len(ids)} token ids and "
            f"{len(logprobs)} log-probabilities for a path of {path.completion_tokens} tokens of "
            f"{endpoint.model}; training needs both for every token: set train.rollouts=in_process, "
            "or serve.engine=vllm"
        )
    return DrawnPath(
        prompt_ids=tokenizer(prompt, add_special_tokens=False)["input_ids"],
        completion_ids=ids,
        logprobs=logprobs,
        failed=failed,
    )
