"""Paths of a GRPO step drawn through an endpoint, under the adapter of that very step.

The alternative to TRL's own generation, for engines that are faster than ``generate`` or stand on
another device. It knows prompts and tokens; what a path is worth, `grpo` says.
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


class AdapterEngine(Protocol):
    """A running engine that takes LoRA adapters."""

    def load_adapter(self, name: str, folder: pathlib.Path, version: str) -> Endpoint:
        """Serve the adapter of ``folder``, and no older version of the same name."""


@dataclass(kw_only=True)
class EndpointRollouts:
    """What TRL takes as ``rollout_func``.

    Every path has a seed of its own, from the root seed, the step and its place in the step. How far two
    runs agree is the engine's affair: one that batches requests as they come rounds as they come.
    """

    engine: AdapterEngine
    model_at: Callable[[Endpoint], ChatModel]
    """Makes the client of an endpoint."""
    folder: pathlib.Path
    """Where the adapters of single steps lie while they are in use."""
    decoding: Decoding
    seed: int
    _model: ChatModel | None = field(default=None, init=False)
    _step: int = field(default=-1, init=False)
    _num_drawn: int = field(default=0, init=False)
    """Paths drawn at this step so far."""

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
        """One path for each prompt, in order; prompts of one group stand side by side.

        Returns:
            ``prompt_ids``, ``completion_ids`` and ``logprobs``, a list each path, and ``failed``: whether
            our side failed to draw it, so that it must get no reward.
        """
        self._bring_up_to_date(trainer)
        assert self._model is not None
        paths = [
            path
            for group in self._model.complete(self._requests(prompts), self.decoding)
            for path in group
        ]
        tokenizer = trainer.processing_class
        return {
            "prompt_ids": [
                tokenizer(prompt, add_special_tokens=False)["input_ids"] for prompt in prompts
            ],
            "completion_ids": [_tokens(path, tokenizer.eos_token_id) for path in paths],
            "logprobs": [_logprobs(path) for path in paths],
            "failed": [path.error is not None for path in paths],
        }

    def _bring_up_to_date(self, trainer: Any) -> None:
        """Let the engine serve the weights of this step."""
        step = int(trainer.state.global_step)
        if step == self._step:
            return
        folder = self.folder / f"step-{step}"
        trainer.accelerator.unwrap_model(trainer.model).save_pretrained(folder)
        self._model = self.model_at(self.engine.load_adapter(ADAPTER, folder, str(step)))
        shutil.rmtree(self.folder / f"step-{self._step}", ignore_errors=True)
        self._step, self._num_drawn = step, 0

    def _requests(self, prompts: Sequence[str]) -> list[Request]:
        requests = []
        for prompt, group in itertools.groupby(prompts):
            size = len(list(group))
            seeds = consecutive_seeds(size, self.seed, "rollout", self._step, self._num_drawn)
            requests.append(Request(prompt=prompt, seeds=seeds))
            self._num_drawn += size
        return requests


def _tokens(path: Completion, eos_id: int) -> list[int]:
    if path.error is not None:
        # TRL wants at least one token; without a reward it counts for nothing.
        return [eos_id]
    if path.token_ids is None:
        raise ReasonloopError(
            "the engine gives no token ids, and text alone may be cut into other tokens; "
            "set train.rollouts=in_process, or serve.engine=vllm"
        )
    return list(path.token_ids)


def _logprobs(path: Completion) -> list[float]:
    return [0.0] if path.error is not None else list(path.token_logprobs or ())
