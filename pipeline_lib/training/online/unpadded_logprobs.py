"""TRL's online trainers without the work that changes nothing: padding, and gradients that are zero.

TRL scores a batch of paths as one rectangle, as wide as its longest prompt and its longest completion,
and asks for the gradient of all of it. Here rows of like length share a pass, the paths of a group share
their prompt, paths that the loss masks take no part, and those whose advantage is zero are scored without
a gradient, which would be zero. Loss, gradient and figures are TRL's up to rounding.

Axes: B rows, P columns of prompts (padded left), C columns of completions (padded right), R rows of one
pass.
"""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import torch
from peft import PeftModel
from torch.nn import functional

from pipeline_lib.training.online.shared_prompts import (
    SharedPrompts,
    positions_of,
    shared_prompts,
    shares_prompts,
)
from pipeline_lib.training.token_budget import Tokens, reused

_FEWEST_ROWS = 16
"""A pass over fewer is not worth its calls."""
_MOST_PASSES = 8


Figures = tuple[torch.Tensor, ...]
"""What a pass says of completion tokens: log-probabilities [B, C], and entropies [B, C] if wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Rows that are scored together, without the columns that none of them uses."""

    rows_R: torch.Tensor
    columns: slice
    """Of the whole batch."""
    teaches: bool
    """Whether a gradient is wanted."""


def passes_of(
    mask_BPC: torch.Tensor, *, width: int, teaching_B: torch.Tensor, most_rows: int
) -> list[Pass]:
    """Passes that cover every row with an unmasked completion token; a row is in one at most.

    Args:
        mask_BPC: 1 for tokens that count, prompts first.
        width: C, how many of the columns are completions.
        teaching_B: rows that need a gradient.
        most_rows: of one pass.
    """
    prompts = mask_BPC.shape[1] - width
    before_B, after_B = mask_BPC[:, :prompts].sum(1), mask_BPC[:, prompts:].sum(1)
    used_B = after_B > 0
    # A loss needs something to be the gradient of, though it be zero.
    if not (used_B & teaching_B).any():
        teaching_B = torch.ones_like(teaching_B)
    if not used_B.any():
        used_B[0], after_B[0] = True, 1
    passes = []
    for teaches in (True, False):
        rows = torch.nonzero(used_B & (teaching_B == teaches))[:, 0]
        size = min(most_rows, max(_FEWEST_ROWS, -(-len(rows) // _MOST_PASSES)))
        for part in _cheapest(rows, before_B, after_B, size):
            start, stop = prompts - before_B[part].max(), prompts + after_B[part].max()
            passes.append(Pass(rows_R=part, columns=slice(int(start), int(stop)), teaches=teaches))
    return passes


def _cheapest(
    rows: torch.Tensor, before_B: torch.Tensor, after_B: torch.Tensor, size: int
) -> tuple[torch.Tensor, ...]:
    """``rows`` in parts of ``size``, in the order that leaves the least padding."""
    if not len(rows):
        return ()
    lengths = (after_B, before_B, before_B + after_B)
    orders = [torch.split(rows[length_B[rows].argsort(stable=True)], size) for length_B in lengths]
    return min(
        orders,
        key=lambda parts: sum(
            len(part) * int(before_B[part].max() + after_B[part].max()) for part in parts
        ),
    )


def gathered(parts: list[Figures], passes: list[Pass], *, rows: int, width: int) -> Figures:
    """What passes said, as figures [B, C] of the whole batch; zeros for rows that no pass covers."""
    padded = [
        [functional.pad(figure, (0, width - figure.shape[1])) for figure in part] for part in parts
    ]
    scored = torch.cat([one.rows_R for one in passes])
    place_B = torch.full((rows,), len(scored), device=scored.device)
    place_B[scored] = torch.arange(len(scored), device=scored.device)
    # One row more is that of rows which no pass covers.
    return tuple(
        functional.pad(torch.cat(column), (0, 0, 0, 1)).index_select(0, place_B)
        for column in zip(*padded, strict=True)
    )


class TightPasses:
    """To be named before GRPOTrainer or RLOOTrainer among the bases of a class.

    Inherited, since the trainers call the two methods below on themselves and take no others.
    """

    _teaching_B: torch.Tensor | None = None
    """Rows whose loss has a gradient, while a loss is computed."""

    def tokens_read(self) -> Tokens:
        """Tokens of the drawn paths, prompts included."""
        trainer: Any = self
        return reused(int(trainer.state.num_input_tokens_seen), passes=trainer.num_iterations)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        trainer: Any = self
        all_teach = trainer.beta != 0 or getattr(trainer, "_entropy_bonus_enabled", False)
        self._teaching_B = None if all_teach else inputs["advantages"] != 0
        try:
            loss: torch.Tensor = super()._compute_loss(model, inputs)  # type: ignore[misc]
        finally:
            self._teaching_B = None
        return loss

    def _get_per_token_logps_and_entropies(  # noqa: PLR0913 - TRL's signature
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        *,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **images: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """As TRL's: log-probabilities [B, C], entropies [B, C] or None, auxiliary loss or None."""
        whole = super()._get_per_token_logps_and_entropies  # type: ignore[misc]
        given = {name: value for name, value in images.items() if value is not None}
        if compute_aux_loss or given:
            # Pictures do not come row by row, and experts are balanced over a whole batch.
            scored: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None] = whole(
                model,
                input_ids,
                attention_mask,
                logits_to_keep,
                batch_size,
                compute_entropy=compute_entropy,
                compute_aux_loss=compute_aux_loss,
                **given,
            )
            return scored

        teaching_B = self._teaching_B
        if teaching_B is None:
            teaching_B = torch.ones(len(input_ids), dtype=torch.bool, device=input_ids.device)
        passes = passes_of(
            attention_mask,
            width=logits_to_keep,
            teaching_B=teaching_B,
            most_rows=batch_size or len(input_ids),
        )
        scorer = _Scorer(
            model=model,
            whole=partial(whole, compute_entropy=compute_entropy),
            autocast=self.accelerator.autocast,  # type: ignore[attr-defined]
            ids_BPC=input_ids,
            mask_BPC=attention_mask,
            width=logits_to_keep,
        )
        parts = scorer.scored(passes)
        figures = gathered(parts, passes, rows=len(input_ids), width=logits_to_keep)
        return figures[0], figures[1] if compute_entropy else None, None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scorer:
    """Makes the passes over one batch."""

    model: Any
    whole: Callable[..., tuple[torch.Tensor, torch.Tensor | None, None]]
    """TRL's: from a model, ids, mask and C to figures of the last C columns."""
    autocast: Callable[[], AbstractContextManager[Any]]
    ids_BPC: torch.Tensor
    mask_BPC: torch.Tensor
    width: int

    def scored(self, passes: list[Pass]) -> list[Figures]:
        """The figures of each pass; passes that teach share their prompts, and so do the others."""
        plain = self.model.get_base_model() if isinstance(self.model, PeftModel) else self.model
        placed = "position_ids" in inspect.signature(plain.forward).parameters
        prompts = self.ids_BPC.shape[1] - self.width
        figures = []
        for teaches, alike in groupby(passes, key=lambda one: one.teaches):
            group = list(alike)
            shared = None
            with torch.set_grad_enabled(torch.is_grad_enabled() and teaches):
                if placed and shares_prompts(plain):
                    rows = torch.cat([one.rows_R for one in group])
                    prompt = (self.ids_BPC[:, :prompts], self.mask_BPC[:, :prompts])
                    with self.autocast():
                        shared = shared_prompts(self.model, *prompt, rows)
                figures += [self._one(one, shared, placed=placed) for one in group]
        return figures

    def _one(self, one: Pass, shared: SharedPrompts | None, *, placed: bool) -> Figures:
        prompts = self.ids_BPC.shape[1] - self.width
        ids, mask = (whole[one.rows_R, one.columns] for whole in (self.ids_BPC, self.mask_BPC))
        kept = one.columns.stop - prompts
        # With its prompt known, a row begins with the prompt's last token.
        given = ids.shape[1] if shared is None else kept + 1
        further: dict[str, Any] = {"attention_mask": mask}
        if placed:
            further["position_ids"] = positions_of(mask)[:, -given:]
        if shared is not None:
            further["past_key_values"] = shared.cache_of(one.rows_R, start=one.columns.start)

        def called(**inputs: Any) -> Any:
            return self.model(**inputs | further)

        logps, entropies, _ = self.whole(called, ids[:, -given:], mask[:, -given:], kept)
        return (logps,) if entropies is None else (logps, entropies)
