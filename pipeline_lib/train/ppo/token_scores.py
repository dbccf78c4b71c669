"""Log-probabilities, entropies and values, by a critic, of the tokens of given paths.

Axes: B paths, T tokens of a completion, V vocabulary, H channels.
"""

import pathlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import TrainerCallback
from transformers.modeling_outputs import BaseModelOutputWithPast
from typing_extensions import override

from pipeline_lib.train.ppo.path_batch import PathBatch

FILE_NAME = "value_head.safetensors"


class ValueHead(nn.Module):
    """The critic: an estimate of a path's return at each token, from the policy's last hidden state.

    One hidden layer, in float32; the output layer is zero-initialised. It is saved in checkpoints and is no part of a
    published policy.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(channels, channels)
        self.out = nn.Linear(channels, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    @override
    def forward(self, hidden_BTH: torch.Tensor, *, body_share: float) -> torch.Tensor:
        """Values [B, T]. ``body_share`` scales the gradient that reaches ``hidden_BTH``."""
        detached_BTH = hidden_BTH.detach()
        if body_share > 0 and hidden_BTH.requires_grad:
            # The values stay the same; only the gradient is scaled.
            hidden_BTH = detached_BTH + body_share * (hidden_BTH - detached_BTH)
        else:
            hidden_BTH = detached_BTH
        # In float32 also under autocast: values that are close differ in their last bits only.
        with torch.autocast(hidden_BTH.device.type, enabled=False):
            inner_BTH = torch.nn.functional.silu(self.hidden(hidden_BTH.float()))
            values_BT: torch.Tensor = self.out(inner_BTH)[..., 0]
        return values_BT

    def save(self, folder: pathlib.Path) -> None:
        """Write the weights into a checkpoint."""
        save_file(self.state_dict(), folder / FILE_NAME)

    def load(self, folder: pathlib.Path) -> None:
        """Read the weights of a checkpoint."""
        self.load_state_dict(load_file(folder / FILE_NAME))


class SaveValueHead(TrainerCallback):
    """Adds the critic to each checkpoint; to be called before the checkpoint is sealed."""

    def __init__(self, head: ValueHead) -> None:
        self._head = head

    @override
    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if args.should_save:
            self._head.save(pathlib.Path(args.output_dir) / f"checkpoint-{state.global_step}")


_MOST_LOGITS = 2**24
"""Logits in memory at once: 64 MiB in float32, some four times that with what is computed of them."""
_Score = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]
"""From logits [B, T, V] and tokens [B, T] to tensors [B, T]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScores:
    """Each [B, T]; undefined outside the mask."""

    logprobs_BT: torch.Tensor
    """Natural log, at temperature 1."""
    entropies_BT: torch.Tensor
    """Of the distribution that the token was drawn from, in nats."""
    values_BT: torch.Tensor
    """The critic's estimate before the token is drawn."""


def score_tokens(
    model: Any, head: ValueHead, batch: PathBatch, *, body_share: float, entropy_gradient: bool
) -> TokenScores:
    """One forward pass over whole sequences, with gradients unless the caller disabled them."""

    def both(logits_BTV: torch.Tensor, tokens_BT: torch.Tensor) -> tuple[torch.Tensor, ...]:
        log_probs_BTV = logits_BTV.float().log_softmax(-1)
        # A gradient of the entropy keeps a further [B, T, V] table in memory.
        with torch.set_grad_enabled(torch.is_grad_enabled() and entropy_gradient):
            entropies_BT = -(log_probs_BTV.exp() * log_probs_BTV).sum(-1)
        return _select(log_probs_BTV, tokens_BT), entropies_BT

    hidden_BTH, (logprobs_BT, entropies_BT) = _scored(model, batch, both)
    return TokenScores(
        logprobs_BT=logprobs_BT,
        entropies_BT=entropies_BT,
        values_BT=head(hidden_BTH, body_share=body_share),
    )


@torch.no_grad()
def compute_logprobs(model: Any, batch: PathBatch) -> torch.Tensor:
    """Log-probabilities [B, T] under a model without a critic, such as the reference."""

    def logprobs(logits_BTV: torch.Tensor, tokens_BT: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (_select(logits_BTV.float().log_softmax(-1), tokens_BT),)

    return _scored(model, batch, logprobs)[1][0]


def _scored(
    model: Any, batch: PathBatch, score: _Score
) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """The hidden states [B, T, H] before the drawn tokens, and what ``score`` gives of their logits.

    Above `_MOST_LOGITS` the head runs on parts of the tokens, whose logits the backward pass computes again.
    """
    # The logits of a token stand at the position before it.
    kept, tokens_BT = batch.mask_BT.shape[1] + 1, batch.completions
    vocabulary = model.config.get_text_config().vocab_size
    length = max(1, _MOST_LOGITS // (batch.count * vocabulary))
    states: list[torch.Tensor] = []
    decoder = model.get_decoder()
    hook = decoder.register_forward_hook(lambda *call: states.append(call[-1].last_hidden_state))
    try:
        logits_to_keep = kept if kept <= length else 1
        output = model(**batch.model_inputs(), use_cache=False, logits_to_keep=logits_to_keep)
    finally:
        hook.remove()
    hidden_BTH = states[0][:, -kept:-1]
    if kept <= length:
        return hidden_BTH, score(output.logits[:, -kept:-1], tokens_BT)

    def part(hidden_BTH: torch.Tensor, tokens_BT: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # Through the model, which may scale or cap what the head gives.
        with _replaced_forward(decoder, BaseModelOutputWithPast(hidden_BTH)):  # type: ignore[arg-type]
            return score(model(input_ids=tokens_BT, use_cache=False).logits, tokens_BT)

    pieces = zip(*(torch.split(one, length, 1) for one in (hidden_BTH, tokens_BT)), strict=True)
    parts = [
        checkpoint(part, *one, use_reentrant=False, preserve_rng_state=False) for one in pieces
    ]
    return hidden_BTH, tuple(torch.cat(found, 1) for found in zip(*parts, strict=True))


@contextmanager
def _replaced_forward(module: Any, output: Any) -> Iterator[None]:
    """Let a call of ``module`` return ``output``, for the block."""
    module.forward = lambda *_args, **_options: output
    try:
        yield
    finally:
        del module.forward


def _select(log_probs_BTV: torch.Tensor, tokens_BT: torch.Tensor) -> torch.Tensor:
    return log_probs_BTV.gather(-1, tokens_BT[..., None])[..., 0]
