"""The embedded engine: transformers, in this process. No server, no port, ready in seconds.

A prompt is computed once for its N paths, prompts of like length share a batch, and rows that have
ended leave it. Each path draws from uniform numbers of its own seed, so what else is in the batch
changes nothing but rounding.

Axes: B rows decoded together, P prompts, L prompt tokens, V vocabulary.
"""

import functools
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, PreTrainedTokenizerBase

from pipeline_lib.errors import BadInputError
from pipeline_lib.records import FinishReason
from pipeline_lib.serving.chat_model import ChatFormat, Completion, Decoding, Request
from pipeline_lib.serving.identity import model_identity
from pipeline_lib.serving.token_choice import choose_tokens

# Rows that have ended are dropped when they are this share of the batch: each drop copies the cache.
_COMPACT_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class TokenizerChatFormat:
    """The chat template that a tokenizer carries. Implements ChatFormat."""

    tokenizer: PreTrainedTokenizerBase

    @property
    def digest(self) -> str:
        """Digest of the template's source."""
        return hashlib.sha256(str(self.tokenizer.chat_template).encode()).hexdigest()[:16]

    def render(self, user_message: str) -> str:
        """One user turn and the opening of the assistant's."""
        messages = [{"role": "user", "content": user_message}]
        text = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        return str(text)


def chat_format_of(tokenizer: PreTrainedTokenizerBase) -> ChatFormat | None:
    """The tokenizer's chat format, or None when it has no template."""
    return TokenizerChatFormat(tokenizer) if tokenizer.chat_template else None


def load_chat_format(source: str) -> ChatFormat | None:
    """The chat format of a model, from its tokenizer alone."""
    return chat_format_of(_loaded(AutoTokenizer.from_pretrained, source))


def _loaded(loader: Callable[..., Any], source: str, **options: Any) -> Any:
    try:
        return loader(source, **options)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise BadInputError(
            f"model {source}: {reason}; give a Hugging Face folder or a reachable hub id"
        ) from error


@dataclass
class _Batch:
    """Rows that are being decoded. ``alive`` maps a row of the tensors to a row of the batch."""

    cache: DynamicCache
    mask_BL: torch.Tensor
    next_logits_BV: torch.Tensor
    alive: list[int]
    tokens: list[list[int]]
    logprobs: list[float]
    ended: list[bool]


@dataclass(kw_only=True)
class EmbeddedEngine:
    """Implements ChatModel on a model that is held in this process."""

    model: Any
    tokenizer: Any
    identity: str
    batch_size: int
    """Paths that are decoded together."""
    _eos_ids: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self._eos_ids = _eos_ids(self.model, self.tokenizer)

    @classmethod
    def load(cls, source: str, *, batch_size: int) -> Self:
        """Load a Hugging Face folder or hub id: float32 on a CPU, bfloat16 on a GPU.

        Raises:
            BadInputError: there is no such model, or it cannot be read.
        """
        device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = torch.bfloat16 if device == "cuda" else torch.float32
        tokenizer = _loaded(AutoTokenizer.from_pretrained, source)
        model = _loaded(AutoModelForCausalLM.from_pretrained, source, dtype=dtype)
        return cls(
            model=model.to(device).eval(),
            tokenizer=tokenizer,
            identity=model_identity(source),
            batch_size=batch_size,
        )

    @property
    def chat_format(self) -> ChatFormat | None:
        """The tokenizer's chat template, if it has one."""
        return chat_format_of(self.tokenizer)

    def complete(self, requests: Sequence[Request], decoding: Decoding) -> list[list[Completion]]:
        """Draw all completions; results stand in the order of requests and seeds."""
        # Engines are fanned out, one a core; sums over other numbers of threads round differently.
        # Set here and not at load, since the number belongs to the calling thread.
        torch.set_num_threads(1)
        prompts = [
            self.tokenizer.encode(request.prompt, add_special_tokens=False) for request in requests
        ]
        results: list[list[Completion]] = [[] for _ in requests]
        for rows in self._batches(requests, prompts):
            for position, completion in self._run(prompts, rows, decoding):
                results[position].append(completion)
        return results

    def _batches(
        self, requests: Sequence[Request], prompts: Sequence[Sequence[int]]
    ) -> Iterator[list[tuple[int, int]]]:
        """Cut all (request, seed) into batches, long prompts first, a prompt's paths together."""
        order = sorted(range(len(requests)), key=lambda i: len(prompts[i]), reverse=True)
        rows = [(i, seed) for i in order for seed in requests[i].seeds]
        for start in range(0, len(rows), self.batch_size):
            yield rows[start : start + self.batch_size]

    @torch.inference_mode()
    def _run(
        self,
        prompts: Sequence[Sequence[int]],
        rows: Sequence[tuple[int, int]],
        decoding: Decoding,
    ) -> Iterator[tuple[int, Completion]]:
        batch = self._prefill(prompts, [position for position, _ in rows])
        uniforms_BT = np.stack(
            [np.random.default_rng(seed).random(decoding.max_new_tokens) for _, seed in rows]
        )
        for step in range(decoding.max_new_tokens):
            self._draw(batch, uniforms_BT[batch.alive, step], decoding)
            if all(batch.ended) or step == decoding.max_new_tokens - 1:
                break
            self._compact(batch)
            self._advance(batch)
        for row, (position, _) in enumerate(rows):
            yield position, self._completion(batch, row, len(prompts[position]))

    def _prefill(self, prompts: Sequence[Sequence[int]], positions: Sequence[int]) -> _Batch:
        """Compute each distinct prompt once, then copy its cache to all of its rows."""
        distinct = list(dict.fromkeys(positions))
        length = max(len(prompts[i]) for i in distinct)
        pad = self.tokenizer.pad_token_id or 0
        ids_PL = torch.tensor(
            [[pad] * (length - len(prompts[i])) + list(prompts[i]) for i in distinct]
        ).to(self.model.device)
        mask_PL = torch.tensor(
            [[0] * (length - len(prompts[i])) + [1] * len(prompts[i]) for i in distinct]
        ).to(self.model.device)
        cache = DynamicCache(config=self.model.config)
        output = self.model(
            input_ids=ids_PL,
            attention_mask=mask_PL,
            position_ids=(mask_PL.cumsum(-1) - 1).clamp(min=0),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        place = {position: index for index, position in enumerate(distinct)}
        rows_B = torch.tensor([place[position] for position in positions]).to(self.model.device)
        cache.batch_select_indices(rows_B)
        size = len(positions)
        return _Batch(
            cache=cache,
            mask_BL=mask_PL[rows_B],
            next_logits_BV=output.logits[rows_B, -1].float(),
            alive=list(range(size)),
            tokens=[[] for _ in range(size)],
            logprobs=[0.0] * size,
            ended=[False] * size,
        )

    def _draw(self, batch: _Batch, uniforms_B: np.ndarray, decoding: Decoding) -> None:
        chosen_B = choose_tokens(
            batch.next_logits_BV, torch.from_numpy(uniforms_B).to(self.model.device), decoding
        )
        logprobs_B = batch.next_logits_BV.log_softmax(-1).gather(-1, chosen_B[:, None])[:, 0]
        drawn = zip(batch.alive, chosen_B.tolist(), logprobs_B.tolist(), strict=True)
        for row, token, logprob in drawn:
            if not batch.ended[row]:
                batch.tokens[row].append(token)
                batch.logprobs[row] += logprob
                batch.ended[row] = token in self._eos_ids

    def _compact(self, batch: _Batch) -> None:
        """Drop the rows that have ended once they are a good share of the batch."""
        keep = [place for place, row in enumerate(batch.alive) if not batch.ended[row]]
        if len(keep) > (1 - _COMPACT_SHARE) * len(batch.alive):
            return
        keep_B = torch.tensor(keep).to(self.model.device)
        batch.cache.batch_select_indices(keep_B)
        batch.mask_BL = batch.mask_BL[keep_B]
        batch.alive = [batch.alive[place] for place in keep]

    def _advance(self, batch: _Batch) -> None:
        """One step of the model on the tokens just drawn."""
        last_B1 = torch.tensor([batch.tokens[row][-1:] for row in batch.alive])
        batch.mask_BL = torch.cat(
            [batch.mask_BL, batch.mask_BL.new_ones(len(batch.alive), 1)], dim=1
        )
        output = self.model(
            input_ids=last_B1.to(self.model.device),
            attention_mask=batch.mask_BL,
            position_ids=batch.mask_BL.sum(-1, keepdim=True) - 1,
            past_key_values=batch.cache,
            use_cache=True,
        )
        batch.next_logits_BV = output.logits[:, -1].float()

    def _completion(self, batch: _Batch, row: int, prompt_tokens: int) -> Completion:
        tokens = batch.tokens[row]
        return Completion(
            text=self.tokenizer.decode(tokens, skip_special_tokens=True),
            finish_reason=FinishReason.STOP if batch.ended[row] else FinishReason.LENGTH,
            prompt_tokens=prompt_tokens,
            completion_tokens=len(tokens),
            logprob=batch.logprobs[row],
        )


_LOADING = threading.Lock()


def shared_engine(source: str, *, batch_size: int) -> EmbeddedEngine:
    """The engine of this process for ``source``; other weights under the same name are seen.

    One at a time: transformers builds models under a process-wide default device, so two threads
    that load at once get broken weights.
    """
    with _LOADING:
        return _engine(source, model_identity(source), batch_size)


@functools.lru_cache(maxsize=1)
def _engine(source: str, _identity: str, batch_size: int) -> EmbeddedEngine:
    return EmbeddedEngine.load(source, batch_size=batch_size)


def _eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    declared = model.generation_config.eos_token_id
    ids = declared if isinstance(declared, list) else [declared]
    return frozenset(i for i in [*ids, tokenizer.eos_token_id] if i is not None)
