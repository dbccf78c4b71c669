"""The critic: an estimate of a path's return at each token, from the policy's last hidden state.

A head needs no second body. `params.PpoParams` sets how much its loss trains the body that it shares
with the policy. It is saved in checkpoints and is no part of a published policy.

Axes: B paths, T tokens of a completion, H channels of the body.
"""

import pathlib
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import TrainerCallback
from typing_extensions import override

FILE_NAME = "value_head.safetensors"


class ValueHead(nn.Module):
    """One hidden layer, in float32. The output layer is zero-initialised."""

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
