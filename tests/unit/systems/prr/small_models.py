"""Models with a few thousand weights, and batches for them."""

from typing import Any

import torch

from benchmarks.lib.latent_presets import LATENT_PRESETS
from pipeline_lib.params.prr import PrrLossParams, PrrModelParams, TrmParams
from pipeline_lib.systems.prr.model.batches import Batch, Sizes
from pipeline_lib.systems.prr.model.prr import PrrModel
from pipeline_lib.systems.prr.model.saved_model import build_model
from pipeline_lib.systems.prr.model.trm import TrmModel

SIZES = Sizes(vocab_size=6, seq_len=7, num_puzzle_ids=4)
SMALL: dict[str, Any] = {
    "width": 16,
    "heads": 2,
    "layers": 1,
    "hidden_multiple": 8,
    "prefix_tokens": 2,
    "num_branches": 3,
    "steps": 4,
    "grad_steps": 2,
}
SMALL_TRM = TrmParams(high_cycles=2, low_cycles=2, max_steps=3, exploration=0)


def small_prr(
    preset: str = "ours", *, loss: dict[str, Any] | None = None, **changes: Any
) -> PrrModel:
    """A small PRR from a preset, with ``changes`` to the model and ``loss`` params."""
    chosen = LATENT_PRESETS[preset]
    model = build_model(
        PrrModelParams(**(chosen.model.model_dump() | SMALL | changes)),
        SIZES,
        loss=PrrLossParams(**(chosen.loss.model_dump() | (loss or {}))),
    )
    assert isinstance(model, PrrModel)
    return model


def small_trm(*, trm: TrmParams = SMALL_TRM, **changes: Any) -> TrmModel:
    """A small TRM."""
    params = PrrModelParams(**(SMALL | {"kind": "trm", "num_branches": 1, "trm": trm} | changes))
    model = build_model(params, SIZES, loss=PrrLossParams())
    assert isinstance(model, TrmModel)
    return model


def random_batch(rows: int = 5, *, padded: int = 0, seed: int = 0) -> Batch:
    """Random rows, whose last position has no label. Padding rows hold tokens and labels too."""
    drawn = torch.Generator().manual_seed(seed)
    inputs_BL = torch.randint(1, 6, (rows + padded, 7), generator=drawn)
    labels_BL = inputs_BL.flip(1)
    labels_BL[:, -1] = 0
    return Batch(
        inputs_BL=inputs_BL,
        labels_BL=labels_BL,
        puzzle_ids_B=torch.arange(rows + padded) % 4,
        real_B=torch.arange(rows + padded) < rows,
    )


def first_rows(batch: Batch, rows: int) -> Batch:
    """The first rows of a batch."""
    return Batch(
        inputs_BL=batch.inputs_BL[:rows],
        labels_BL=batch.labels_BL[:rows],
        puzzle_ids_B=batch.puzzle_ids_B[:rows],
        real_B=batch.real_B[:rows],
    )
