"""The critic: what a path is worth at each token, read off the policy's last hidden state.

A head costs no second body. How much its loss may shape the body that it shares with the policy,
`params.PpoParams` says. It stands in checkpoints, never in a published policy.

Axes: B paths, T tokens of a completion, H channels of the body.
"""

import pathlib

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from typing_extensions import override

FILE_NAME = "value_head.safetensors"


class ValueHead(nn.Module):
    """One hidden layer, in float32. It says 0 of everything until it has learned."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(channels, channels)
        self.out = nn.Linear(channels, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    @override
    def forward(self, hidden_BTH: torch.Tensor, *, body_share: float) -> torch.Tensor:
        """Values [B, T]. ``body_share`` of their gradient goes on into ``hidden_BTH``."""
        apart_BTH = hidden_BTH.detach()
        if body_share > 0 and hidden_BTH.requires_grad:
            # The same numbers; only the gradient is scaled.
            hidden_BTH = apart_BTH + body_share * (hidden_BTH - apart_BTH)
        else:
            hidden_BTH = apart_BTH
        # In float32 also under autocast: values near each other are told apart by their last bits.
        with torch.autocast(hidden_BTH.device.type, enabled=False):
            inner_BTH = torch.nn.functional.silu(self.hidden(hidden_BTH.float()))
            values_BT: torch.Tensor = self.out(inner_BTH)[..., 0]
        return values_BT

    def save(self, folder: pathlib.Path) -> None:
        """Write the weights into a checkpoint."""
        save_file(self.state_dict(), folder / FILE_NAME)

    def load(self, folder: pathlib.Path) -> None:
        """Read them from a checkpoint."""
        self.load_state_dict(load_file(folder / FILE_NAME))
