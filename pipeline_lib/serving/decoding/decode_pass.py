"""One step of the model: the newest token of every row goes in, the logits of the next come out.

There are two ways. The plain one attends cohort by cohort and reads only what each needs. The general
one hands all rows to the model's own attention as one padded batch, which any attention cache of
transformers allows for. Which one a model gets is tried out, once: the plain way is taken where both
give the same.

Axes: B rows of all cohorts in order, R rows and C columns of the one cohort of the general way,
V vocabulary.
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

from pipeline_lib.errors import BadInputError
from pipeline_lib.serving.decoding import cohort_attention
from pipeline_lib.serving.decoding.cohorts import Cohort, cohort_of, gathered
from pipeline_lib.serving.decoding.kv_blocks import KvPool
from pipeline_lib.serving.decoding.prefill import computed

_MOST_COHORTS = 8
"""More are merged: each costs some calls a layer."""
_SAME = {torch.float32: 1e-3, torch.float64: 1e-6}
"""Largest difference of logits, as a share of the largest, by which two ways count as one."""
_SAME_IN_HALF_PRECISION = 0.05
_TRIED_LENGTHS = (5, 2)
"""Prompts of two rows, each with one token more for the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodePass:
    """A way of making a step. ``run`` is given no more cohorts than ``most_cohorts``."""

    most_cohorts: int
    run: Callable[[Any, Sequence[Cohort], torch.Tensor, torch.Tensor], torch.Tensor]
    """From the model, cohorts with a free column each, tokens [B] and their positions [B]: logits
    [B, V] in float32. Keys and values stand in the free column then."""


def _plain(
    model: Any, cohorts: Sequence[Cohort], tokens_B: torch.Tensor, positions_B: torch.Tensor
) -> torch.Tensor:
    for cohort in cohorts:
        cohort.hidden_RHC[:, :, cohort.length] = 0
    output = model(
        input_ids=tokens_B[:, None],
        position_ids=positions_B[:, None],
        use_cache=False,
        cohorts=cohorts,
    )
    logits_BV: torch.Tensor = output.logits[:, -1].float()
    return logits_BV


def _general(
    model: Any, cohorts: Sequence[Cohort], tokens_B: torch.Tensor, positions_B: torch.Tensor
) -> torch.Tensor:
    [cohort] = cohorts
    cohort.hidden_RHC[:, :, cohort.length] = 0
    columns_C = torch.arange(cohort.length - cohort.used, cohort.length + 1)
    seen_RC = columns_C >= torch.from_numpy(cohort.starts_R)[:, None]
    output = model(
        input_ids=tokens_B[:, None],
        attention_mask=seen_RC.long().to(tokens_B.device),
        position_ids=positions_B[:, None],
        past_key_values=_cache_of(cohort),
        use_cache=True,
    )
    logits_BV: torch.Tensor = output.logits[:, -1].float()
    return logits_BV


PLAIN = DecodePass(most_cohorts=_MOST_COHORTS, run=_plain)
GENERAL = DecodePass(most_cohorts=1, run=_general)


class _CohortLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer of a cohort as transformers sees it: written in place, read as a view."""

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


def _cache_of(cohort: Cohort) -> Cache:
    seen = (slice(cohort.size), slice(None), slice(cohort.length - cohort.used, cohort.length + 1))
    blocks = zip(cohort.block.keys, cohort.block.values, strict=True)
    return Cache(layers=[_CohortLayer(keys[seen], values[seen]) for keys, values in blocks])


_CHOSEN: "weakref.WeakKeyDictionary[Any, DecodePass]" = weakref.WeakKeyDictionary()
_CHOOSING = threading.Lock()


def decode_pass_of(model: Any) -> DecodePass:
    """How steps of ``model`` are made. The first call runs it on a few tokens.

    Raises:
        BadInputError: the model keeps more of the past than keys and values.
    """
    with _CHOOSING:
        if model not in _CHOSEN:
            _CHOSEN[model] = _chosen(model)
        return _CHOSEN[model]


def is_decodable(model: Any) -> bool:
    """Whether all that ``model`` keeps of the past is keys and values."""
    return _kept_layers(model) <= {DynamicLayer, DynamicSlidingWindowLayer}


def _kept_layers(model: Any) -> set[type]:
    return {type(layer) for layer in DynamicCache(config=model.config).layers}


def _chosen(model: Any) -> DecodePass:
    layers = _kept_layers(model)
    if not is_decodable(model):
        names = sorted(layer.__name__ for layer in layers)
        raise BadInputError(
            f"model {type(model).__name__} keeps {', '.join(names)}; the embedded engine knows "
            "attention only: serve it with vLLM"
        )
    before = model.config._attn_implementation  # noqa: SLF001 - it has no public name
    if layers != {DynamicLayer} or before not in {"sdpa", cohort_attention.NAME}:
        return GENERAL
    model.set_attn_implementation(cohort_attention.NAME)
    try:
        if _agree(model):
            return PLAIN
    except (cohort_attention.NotPlainError, TypeError):
        # Options that ours does not know, or a model that takes no keyword of ours.
        pass
    model.set_attn_implementation("sdpa")
    return GENERAL


def _agree(model: Any) -> bool:
    """Whether the plain way gives the next logits of two rows of unlike length."""
    given_BV, expected_BV = _tried(model, PLAIN), _tried(model, GENERAL)
    if model.dtype in _SAME:
        return _apart(given_BV, expected_BV) <= _SAME[model.dtype]
    if _apart(given_BV, expected_BV) <= _SAME_IN_HALF_PRECISION:
        return True
    try:
        with _in_float32(model):
            exact_BV = _tried(model, GENERAL)
    except RuntimeError:
        return False
    rounding = _apart(expected_BV, exact_BV)
    return _apart(given_BV, exact_BV) <= max(_SAME_IN_HALF_PRECISION, rounding)


def _apart(logits_BV: torch.Tensor, from_BV: torch.Tensor) -> float:
    """Largest difference, as a share of the largest logit; NaN where one is not finite."""
    return float((logits_BV - from_BV).abs().max() / from_BV.abs().max())


# Not inference mode, whose tensors cannot stand in for weights.
@torch.inference_mode(mode=False)
@torch.no_grad()
def _tried(model: Any, way: DecodePass) -> torch.Tensor:
    """The logits [B, V] of one step after two short prompts."""
    ids = _ordinary_tokens(model.config.get_text_config().vocab_size)
    prompts = [tuple(ids[:length]) for length in _TRIED_LENGTHS]
    tokens_B = torch.tensor([ids[-1]] * len(prompts), device=model.device)
    positions_B = torch.tensor(_TRIED_LENGTHS, device=model.device)
    pool = KvPool()
    states = computed(model, prompts, pad_id=0)
    cohorts = [cohort_of([state], np.array([row]), pool) for row, state in enumerate(states)]
    if way.most_cohorts < len(cohorts):
        cohorts = [gathered(cohorts, pool)]
    return way.run(model, cohorts, tokens_B, positions_B)


def _ordinary_tokens(vocabulary: int) -> list[int]:
    """Ids from the middle half: control tokens, on which models were not trained, lie at the ends."""
    count = max(_TRIED_LENGTHS) + 1
    return [vocabulary // 4 + place * vocabulary // (2 * count) for place in range(count)]


@contextmanager
def _in_float32(model: Any) -> Iterator[None]:
    """Let each module compute with its weights in float32; they are converted one module at a time.

    A module that reads the weights of another without calling it raises RuntimeError.
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
