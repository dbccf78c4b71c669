"""Token log-probabilities of a batch, without padding and without gradients that would be zero.

TRL scores a batch of paths as one rectangle, as wide as its longest prompt plus its longest completion,
with a gradient for all of it. Here rows of similar length share a forward pass, the paths of a group
share their prompt, rows that the loss masks are left out, and rows with an advantage of zero are scored
without a gradient. Loss, gradient and metrics equal TRL's up to rounding. `trl_internals` puts this in
the place of TRL's own scoring.

The keys and values of a prompt are computed once and used by all of its paths; their gradients add up, as they do
over copies. A prompt's last token stays with each path, since its output predicts the path's first token.

Axes: B rows, P columns of prompts (padded left), C columns of completions (padded right), R rows of one
pass, U distinct prompts, H heads, D channels.
"""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch.nn import functional
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from pipeline_lib.train.weights.adapters import plain_model

_MIN_ROWS_PER_PROMPT = 2
"""Mean number of rows of a prompt below which a pass over the prompts does not pay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrompts:
    """Keys and values of distinct prompts without their last tokens."""

    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    """Keys and values [U, H, P - 1, D] of each layer."""
    prompt_of_B: torch.Tensor
    """Index into U of each row's prompt; -1 for rows that were not requested."""

    def cache_of(self, rows_R: torch.Tensor, *, start: int) -> DynamicCache:
        """The cache for the rows of one pass, whose prompts begin at column ``start`` or later."""
        cache = DynamicCache()
        prompts_R = self.prompt_of_B[rows_R]
        for place, pair in enumerate(self.layers):
            keys, values = (kept[:, :, start:].index_select(0, prompts_R) for kept in pair)
            cache.update(keys, values, place)
        return cache


def shares_prompts(model: Any) -> bool:
    """True if ``model``, in its present mode, caches nothing but plain keys and values."""
    if model.training and model.is_gradient_checkpointing:
        return False
    kept = DynamicCache(config=model.config).layers
    return {type(layer) for layer in kept} == {DynamicLayer}


def compute_shared_prompts(
    call: Callable[..., Any], ids_BP: torch.Tensor, mask_BP: torch.Tensor, rows: torch.Tensor
) -> SharedPrompts | None:
    """The prompts of ``rows``, computed by one ``call`` of the model; None where few rows share one."""
    if ids_BP.shape[1] < 2 or not len(rows):
        return None
    keyed_B = torch.stack([ids_BP * mask_BP, mask_BP], dim=1)[rows]
    distinct_U, place = torch.unique(keyed_B, dim=0, return_inverse=True)
    if _MIN_ROWS_PER_PROMPT * len(distinct_U) > len(rows):
        return None
    ids_UP, mask_UP = distinct_U[:, 0, :-1], distinct_U[:, 1, :-1]
    cache: Any = DynamicCache()
    call(
        input_ids=ids_UP,
        attention_mask=mask_UP,
        position_ids=compute_positions(mask_UP),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    prompt_of_B = torch.full((len(ids_BP),), -1, device=ids_BP.device)
    prompt_of_B[rows] = place
    return SharedPrompts(
        layers=tuple((layer.keys, layer.values) for layer in cache.layers),
        prompt_of_B=prompt_of_B,
    )


def compute_positions(mask: torch.Tensor) -> torch.Tensor:
    """Position of each token in its text, not counting left padding; same shape as ``mask``."""
    return (mask.cumsum(-1) - 1).clamp(min=0)


_MIN_ROWS = 16
"""A pass over fewer rows costs more in calls than it saves in padding."""
_MAX_PASSES = 8

Scores = tuple[torch.Tensor, ...]
"""Log-probabilities [B, C] of completion tokens, and their entropies [B, C] if requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Rows of one forward pass, without the columns that none of them uses."""

    rows_R: torch.Tensor
    columns: slice
    """Columns of the whole batch."""
    needs_grad: bool


def plan_passes(
    mask_BPC: torch.Tensor, *, width: int, grad_B: torch.Tensor, max_rows: int
) -> list[Pass]:
    """Passes of at most ``max_rows`` that cover each row with an unmasked completion token exactly once.

    ``mask_BPC`` is 1 for tokens that count, ``width`` is C, and ``grad_B`` marks rows that need a gradient.
    """
    prompts = mask_BPC.shape[1] - width
    before_B, after_B = mask_BPC[:, :prompts].sum(1), mask_BPC[:, prompts:].sum(1)
    used_B = after_B > 0
    # backward() needs a loss with a graph, even if the gradient is zero.
    if not (used_B & grad_B).any():
        grad_B = torch.ones_like(grad_B)
    if not used_B.any():
        used_B[0], after_B[0] = True, 1
    passes = []
    for needs_grad in (True, False):
        rows = torch.nonzero(used_B & (grad_B == needs_grad))[:, 0]
        size = min(max_rows, max(_MIN_ROWS, -(-len(rows) // _MAX_PASSES)))
        for part in _split_with_least_padding(rows, before_B, after_B, size):
            start, stop = prompts - before_B[part].max(), prompts + after_B[part].max()
            columns = slice(int(start), int(stop))
            passes.append(Pass(rows_R=part, columns=columns, needs_grad=needs_grad))
    return passes


def _split_with_least_padding(
    rows: torch.Tensor, before_B: torch.Tensor, after_B: torch.Tensor, size: int
) -> tuple[torch.Tensor, ...]:
    """``rows`` in parts of ``size``, sorted by completion, prompt or total length."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpaddedScorer:
    """Scores the completion tokens of one batch."""

    model: Any
    score_rectangle: Callable[..., tuple[torch.Tensor, torch.Tensor | None, None]]
    """TRL's scoring: from a model, ids, mask and C to scores of the last C columns."""
    autocast: Callable[[], AbstractContextManager[Any]]
    ids_BPC: torch.Tensor
    mask_BPC: torch.Tensor
    width: int
    """C."""

    def score(self, *, grad_B: torch.Tensor, max_rows: int) -> Scores:
        """Scores [B, C] of the batch; zeros for rows without an unmasked completion token."""
        passes = plan_passes(self.mask_BPC, width=self.width, grad_B=grad_B, max_rows=max_rows)
        return self._gather(self._run(passes), passes)

    def _run(self, passes: list[Pass]) -> list[Scores]:
        """Scores of each pass; passes with gradient share their prompts, and so do those without."""
        plain = plain_model(self.model)
        takes_positions = "position_ids" in inspect.signature(plain.forward).parameters
        prompts = self.ids_BPC.shape[1] - self.width
        scores = []
        for needs_grad, alike in groupby(passes, key=lambda one: one.needs_grad):
            group = list(alike)
            shared = None
            with torch.set_grad_enabled(torch.is_grad_enabled() and needs_grad):
                if takes_positions and shares_prompts(plain):
                    rows = torch.cat([one.rows_R for one in group])
                    prompt = (self.ids_BPC[:, :prompts], self.mask_BPC[:, :prompts])
                    with self.autocast():
                        shared = compute_shared_prompts(self.model, *prompt, rows)
                scores += [
                    self._run_pass(one, shared, takes_positions=takes_positions) for one in group
                ]
        return scores

    def _run_pass(
        self, one: Pass, shared: SharedPrompts | None, *, takes_positions: bool
    ) -> Scores:
        prompts = self.ids_BPC.shape[1] - self.width
        ids, mask = (whole[one.rows_R, one.columns] for whole in (self.ids_BPC, self.mask_BPC))
        kept = one.columns.stop - prompts
        # A row whose prompt is cached begins with the prompt's last token.
        given = ids.shape[1] if shared is None else kept + 1
        further: dict[str, Any] = {"attention_mask": mask}
        if takes_positions:
            further["position_ids"] = compute_positions(mask)[:, -given:]
        if shared is not None:
            further["past_key_values"] = shared.cache_of(one.rows_R, start=one.columns.start)

        def call(**inputs: Any) -> Any:
            return self.model(**inputs | further)

        logps, entropies, _ = self.score_rectangle(call, ids[:, -given:], mask[:, -given:], kept)
        return (logps,) if entropies is None else (logps, entropies)

    def _gather(self, parts: list[Scores], passes: list[Pass]) -> Scores:
        """The scores of the passes in the order and width of the batch."""
        padded = [
            [functional.pad(score, (0, self.width - score.shape[1])) for score in part]
            for part in parts
        ]
        covered = torch.cat([one.rows_R for one in passes])
        place_B = torch.full((len(self.ids_BPC),), len(covered), device=covered.device)
        place_B[covered] = torch.arange(len(covered), device=covered.device)
        # The row of zeros that is appended belongs to rows that no pass covers.
        return tuple(
            functional.pad(torch.cat(column), (0, 0, 0, 1)).index_select(0, place_B)
            for column in zip(*padded, strict=True)
        )
