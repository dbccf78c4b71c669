"""One decoding step of the model: the newest token of every sequence in, next-token logits out.

Two implementations. `SUB_BATCH_PASS` attends sub-batch by sub-batch and reads only each sub-batch's columns.
`PADDED_PASS` gives all sequences to the model's own attention as one padded batch, which works for
every key-value cache of transformers. `choose_decode_pass` compares them once per model on a few
tokens of its own text, and takes the first where both agree.

Axes: B sequences of all sub-batches in order, R rows and C columns of the single sub-batch of the padded
pass, V vocabulary.
"""

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
from typing_extensions import override

from pipeline_lib.engines.embedded.kv_blocks import KvPool
from pipeline_lib.engines.embedded.prefill import prefill
from pipeline_lib.engines.embedded.sub_batches import (
    ATTENTION,
    SubBatch,
    UnsupportedAttentionError,
    make_sub_batch,
    merge_sub_batches,
)
from pipeline_lib.errors import BadInputError

_MAX_SUB_BATCHES = 8
"""More are merged: each costs a few kernel calls per layer."""
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}
"""Largest difference of logits at which two passes agree, relative to the largest logit."""
_TOLERANCE_HALF_PRECISION = 0.05
_TRIAL_LENGTHS = (11, 6)
"""Tokens of the two trial prompts; each is followed by one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodePass:
    """One implementation of the step, for at most ``max_sub_batches`` sub-batches."""

    name: str
    max_sub_batches: int
    run: Callable[[Any, Sequence[SubBatch], torch.Tensor, torch.Tensor], torch.Tensor]
    """From the model, sub-batches with a spare column each, tokens [B] and their positions [B]: float32
    logits [B, V]. Keys and values are written to the spare column."""


def _run_sub_batches(
    model: Any, sub_batches: Sequence[SubBatch], tokens_B: torch.Tensor, positions_B: torch.Tensor
) -> torch.Tensor:
    for sub_batch in sub_batches:
        sub_batch.mask_RHC[:, :, sub_batch.length] = 0
    output = model(
        input_ids=tokens_B[:, None],
        position_ids=positions_B[:, None],
        use_cache=False,
        sub_batches=sub_batches,
    )
    logits_BV: torch.Tensor = output.logits[:, -1].float()
    return logits_BV


def _run_padded(
    model: Any, sub_batches: Sequence[SubBatch], tokens_B: torch.Tensor, positions_B: torch.Tensor
) -> torch.Tensor:
    [sub_batch] = sub_batches
    sub_batch.mask_RHC[:, :, sub_batch.length] = 0
    columns_C = torch.arange(sub_batch.length - sub_batch.used_columns, sub_batch.length + 1)
    seen_RC = columns_C >= torch.from_numpy(sub_batch.starts_R)[:, None]
    output = model(
        input_ids=tokens_B[:, None],
        attention_mask=seen_RC.long().to(tokens_B.device),
        position_ids=positions_B[:, None],
        past_key_values=_cache_of(sub_batch),
        use_cache=True,
    )
    logits_BV: torch.Tensor = output.logits[:, -1].float()
    return logits_BV


SUB_BATCH_PASS = DecodePass(
    name="sub-batch pass", max_sub_batches=_MAX_SUB_BATCHES, run=_run_sub_batches
)
PADDED_PASS = DecodePass(name="padded pass", max_sub_batches=1, run=_run_padded)


class _SubBatchLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """A sub-batch as one layer of a transformers cache: written in place, read as a view."""

    def __init__(self, keys_RHCD: torch.Tensor, values_RHCD: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.is_initialized = True
        self.keys, self.values = self._seen = keys_RHCD, values_RHCD

    @override
    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        keys_RHCD, values_RHCD = self._seen
        keys_RHCD[:, :, -1:], values_RHCD[:, :, -1:] = key_states, value_states
        return self._seen

    @override
    def get_seq_length(self) -> int:
        return self._seen[0].shape[2] - 1


def _cache_of(sub_batch: SubBatch) -> Cache:
    seen = (
        slice(sub_batch.size),
        slice(None),
        slice(sub_batch.length - sub_batch.used_columns, sub_batch.length + 1),
    )
    blocks = zip(sub_batch.block.keys, sub_batch.block.values, strict=True)
    return Cache(layers=[_SubBatchLayer(keys[seen], values[seen]) for keys, values in blocks])


_CHOSEN: "weakref.WeakKeyDictionary[Any, DecodePass]" = weakref.WeakKeyDictionary()
_CHOOSING = threading.Lock()


def choose_decode_pass(model: Any) -> DecodePass:
    """The fastest pass that ``model`` supports. The first call runs the model on a few tokens.

    BadInputError: the model's cache is more than keys and values.
    """
    with _CHOOSING:
        if model not in _CHOSEN:
            _CHOSEN[model] = _choose(model)
        return _CHOSEN[model]


def _choose(model: Any) -> DecodePass:
    layers = {type(layer) for layer in DynamicCache(config=model.config).layers}
    if not layers <= {DynamicLayer, DynamicSlidingWindowLayer}:
        names = sorted(layer.__name__ for layer in layers)
        raise BadInputError(
            f"model {type(model).__name__} caches {', '.join(names)}; the embedded engine supports "
            "attention only: serve it with vLLM, and train on paths of vLLM (train.rollouts=endpoint)"
        )
    before = model.config._attn_implementation  # noqa: SLF001 - it has no public name
    if layers != {DynamicLayer} or before not in {"sdpa", ATTENTION}:
        return PADDED_PASS
    model.set_attn_implementation(ATTENTION)
    try:
        if _passes_agree(model):
            return SUB_BATCH_PASS
    except (UnsupportedAttentionError, TypeError):
        # Options without support, or a model that does not pass keywords on to its attention.
        pass
    model.set_attn_implementation("sdpa")
    return PADDED_PASS


def _passes_agree(model: Any) -> bool:
    """True if both passes give the same logits for two sequences of different length.

    In half precision, rounding alone may exceed the tolerance; the sub-batch pass must then be as close
    to float32 as the padded pass is.
    """
    ids = _trial_tokens(model)
    sub_batch_BV = _trial_logits(model, SUB_BATCH_PASS, ids)
    padded_BV = _trial_logits(model, PADDED_PASS, ids)
    if model.dtype in _TOLERANCE:
        return _relative_error(sub_batch_BV, padded_BV) <= _TOLERANCE[model.dtype]
    if _relative_error(sub_batch_BV, padded_BV) <= _TOLERANCE_HALF_PRECISION:
        return True
    try:
        with _in_float32(model):
            exact_BV = _trial_logits(model, PADDED_PASS, ids)
    except RuntimeError:
        return False
    rounding = _relative_error(padded_BV, exact_BV)
    return _relative_error(sub_batch_BV, exact_BV) <= max(_TOLERANCE_HALF_PRECISION, rounding)


def _relative_error(logits_BV: torch.Tensor, reference_BV: torch.Tensor) -> float:
    """Largest difference relative to the largest reference logit; NaN if one is not finite."""
    return float((logits_BV - reference_BV).abs().max() / reference_BV.abs().max())


# Not in inference mode: its tensors cannot replace weights, see `_in_float32`.
@torch.inference_mode(mode=False)
@torch.no_grad()
def _trial_logits(model: Any, decode: DecodePass, ids: Sequence[int]) -> torch.Tensor:
    """The logits [B, V] of one step after two short prompts, which ``ids`` begins with."""
    prompts = [tuple(ids[:length]) for length in _TRIAL_LENGTHS]
    tokens_B = torch.tensor([ids[length] for length in _TRIAL_LENGTHS], device=model.device)
    positions_B = torch.tensor(_TRIAL_LENGTHS, device=model.device)
    pool = KvPool()
    states = prefill(model, prompts, pad_id=0)
    sub_batches = [
        make_sub_batch([state], np.array([row]), pool) for row, state in enumerate(states)
    ]
    if decode.max_sub_batches < len(sub_batches):
        sub_batches = [merge_sub_batches(sub_batches, pool)]
    return decode.run(model, sub_batches, tokens_B, positions_B)


@torch.no_grad()
def _trial_tokens(model: Any) -> list[int]:
    """A token from the middle of the vocabulary, and the most probable continuation.

    On control tokens or random ones the logits of a trained model are chaotic: in half precision they
    can differ from float32 by their own size, whatever the pass.
    """
    ids = [model.config.get_text_config().vocab_size // 2]
    while len(ids) <= max(_TRIAL_LENGTHS):
        ids_1C = torch.tensor([ids], device=model.device)
        logits_1CV = model(input_ids=ids_1C, use_cache=False).logits
        ids.append(int(logits_1CV[0, -1].argmax()))
    return ids


@contextmanager
def _in_float32(model: Any) -> Iterator[None]:
    """Run each module with float32 weights, converted for the duration of its call.

    A module that reads another's weights without calling it raises RuntimeError.
    """
    own: dict[Any, torch.Tensor] = {}

    def convert(module: Any, _: Any) -> None:
        for weight in module.parameters(recurse=False):
            if weight.is_floating_point() and weight not in own:
                own[weight], weight.data = weight.data, weight.data.float()

    def restore(module: Any, *_: Any) -> None:
        for weight in module.parameters(recurse=False):
            if weight in own:
                weight.data = own.pop(weight)

    hooks = [
        hook
        for module in model.modules()
        for hook in (
            module.register_forward_pre_hook(convert),
            module.register_forward_hook(restore, always_call=True),
        )
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
