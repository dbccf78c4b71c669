"""The embedded engine: a transformers model in this process, without a server.

It tokenizes prompts and detokenizes completions; `continuous_batch` decodes.
"""

import functools
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Self

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pipeline_lib.engines.chat_model import ChatFormat, Completion, Decoding, Request
from pipeline_lib.engines.embedded.continuous_batch import (
    ContinuousBatch,
    DrawnToken,
    SequenceRequest,
)
from pipeline_lib.engines.embedded.decode_pass import choose_decode_pass
from pipeline_lib.engines.embedded.generation import cut_at_stop
from pipeline_lib.engines.embedded.kv_blocks import KvPool
from pipeline_lib.engines.gpus import free_gpu_memory
from pipeline_lib.engines.identity import model_identity
from pipeline_lib.engines.model_config import alike_tokens, context_of, recorded_dtype
from pipeline_lib.engines.pretrained import chat_format_of, load_pretrained
from pipeline_lib.engines.tokens import decode_completion, encode_prompt
from pipeline_lib.errors import BadInputError
from pipeline_lib.records import FinishReason


@dataclass(kw_only=True)
class EmbeddedEngine:
    """Implements ChatModel on a model in this process."""

    model: Any
    tokenizer: Any
    identity: str
    batch_size: int
    """Paths decoded together."""
    engine: str = "embedded"
    adapter: str | None = None
    eos_ids: frozenset[int] = field(init=False)
    """Tokens that end a completion."""
    pool: KvPool = field(init=False, default_factory=KvPool)
    """Key-value memory, shared by all batches, one after another or at once."""

    def __post_init__(self) -> None:
        self.eos_ids = find_end_ids(self.model, self.tokenizer)

    @classmethod
    def load(cls, source: str, *, batch_size: int | None) -> Self:
        """Load a Hugging Face folder or hub id; without a ``batch_size`` as `fitting_batch`.

        In bfloat16 on a GPU. On a CPU as its config records or else as it is stored; see :func:`hold_on_cpu`.

        Raises:
            BadInputError: no such model, or it cannot be read.
        """
        on_gpu = torch.cuda.is_available()
        dtype = torch.bfloat16 if on_gpu else recorded_dtype(source) or "auto"
        tokenizer = load_pretrained(AutoTokenizer.from_pretrained, source)
        model = load_pretrained(AutoModelForCausalLM.from_pretrained, source, dtype=dtype)
        multiplies = torch.cpu._is_avx512_bf16_supported()  # noqa: SLF001 - it has no public name
        model = model.to("cuda") if on_gpu else hold_on_cpu(model, multiplies_bfloat16=multiplies)
        return cls(
            model=model.eval(),
            tokenizer=tokenizer,
            identity=model_identity(source),
            batch_size=batch_size or fitting_batch(model),
        )

    @property
    def chat_format(self) -> ChatFormat | None:
        """The tokenizer's chat template, if it has one."""
        return chat_format_of(self.tokenizer)

    def room(self, prompt: str) -> int | None:
        """The model's context, less the tokens of the prompt."""
        context = context_of(self.model.config.to_dict())
        return None if context is None else context - len(encode_prompt(self.tokenizer, prompt))

    @property
    def arithmetic(self) -> str:
        """Precision of the weights, and the decode pass that was chosen for the model."""
        precision = str(self.model.dtype).removeprefix("torch.")
        return f"{precision}, {choose_decode_pass(self.model).name}"

    def open_batch(self) -> ContinuousBatch:
        """A new continuous batch of this model."""
        return ContinuousBatch(
            model=self.model,
            max_sequences=self.batch_size,
            eos_ids=self.eos_ids,
            pad_id=self.tokenizer.pad_token_id or 0,
            pool=self.pool,
        )

    def complete(self, requests: Sequence[Request], decoding: Decoding) -> list[list[Completion]]:
        """Draw all completions, in the order of requests and seeds.

        Raises:
            BadInputError: a prompt has no token, or a path could depend on the others of its batch.
        """
        # Workers run one engine per core, and another number of threads rounds differently. Set
        # here and not at load: the number belongs to the calling thread.
        torch.set_num_threads(1)
        start = time.perf_counter()
        sequences = list(self._sequences(requests, decoding))
        batch = self.open_batch()
        batch.add(sequences)
        paths: list[list[DrawnToken]] = [[] for _ in sequences]
        done: dict[int, Completion] = {}
        while not batch.idle:
            for drawn in batch.step():
                if drawn.id in done:
                    continue
                path = paths[drawn.id]
                path.append(drawn)
                if drawn.finished is None:
                    if not (decoding.stop and self._ends_in_stop(path, decoding.stop)):
                        continue
                    batch.cancel(drawn.id)
                seconds = time.perf_counter() - start
                done[drawn.id] = self._completion(path, sequences[drawn.id], seconds)
        completions = iter([done[sequence.id] for sequence in sequences])
        results = [list(islice(completions, len(request.seeds))) for request in requests]
        return [_share_cached_tokens(drawn) for drawn in results]

    def _sequences(
        self, requests: Sequence[Request], decoding: Decoding
    ) -> Iterator[SequenceRequest]:
        ids, most = itertools.count(), alike_tokens(self.model.config.get_text_config().to_dict())
        for request in requests:
            prompt = encode_prompt(self.tokenizer, request.prompt)
            if not prompt:
                raise BadInputError("a prompt has no token; give at least one")
            if most is not None and len(prompt) + decoding.max_new_tokens > most:
                raise BadInputError(
                    f"a prompt of {len(prompt)} tokens with max_new_tokens={decoding.max_new_tokens}: beyond "
                    f"{most} tokens the rotary frequencies of this model follow the longest path of a "
                    "batch, so that a path would depend on the others; shorten them"
                )
            for seed in request.seeds:
                yield SequenceRequest(id=next(ids), prompt_ids=prompt, seed=seed, decoding=decoding)

    def _ends_in_stop(self, path: Sequence[DrawnToken], stops: Sequence[str]) -> bool:
        """True if the newest token completes a stop string."""
        # A stop string has no more tokens than bytes; the newest token may split a character.
        reach = max(len(stop.encode()) for stop in stops) + 4
        tail = decode_completion(self.tokenizer, [one.token for one in path[-reach:]])
        return cut_at_stop(tail, stops)[1] is not None

    def _completion(
        self, path: Sequence[DrawnToken], sequence: SequenceRequest, seconds: float
    ) -> Completion:
        tokens = tuple(one.token for one in path)
        logprobs = tuple(one.logprob for one in path)
        whole = decode_completion(self.tokenizer, tokens)
        text, stopped_by = cut_at_stop(whole, sequence.decoding.stop)
        finished = path[-1].finished or FinishReason.STOP
        return Completion(
            text=text,
            finish_reason=finished if stopped_by is None else FinishReason.STOP,
            prompt_tokens=len(sequence.prompt_ids),
            completion_tokens=len(tokens),
            logprob=sum(logprobs),
            cached_tokens=path[0].cached_tokens,
            latency_s=seconds,
            token_ids=tokens,
            token_logprobs=logprobs,
            stopped_by=stopped_by,
        )


def hold_on_cpu(model: Any, *, multiplies_bfloat16: bool) -> Any:
    """``model`` as it is if it is bfloat16 and the CPU multiplies in it, else in float32."""
    # `to(torch.bfloat16)` would round the rotary frequencies, which `from_pretrained` keeps in float32.
    return model if model.dtype is torch.bfloat16 and multiplies_bfloat16 else model.float()


def _share_cached_tokens(completions: Sequence[Completion]) -> list[Completion]:
    """The completions of a request with the cached tokens of the first; the others reuse its prefill."""
    return [replace(one, cached_tokens=completions[0].cached_tokens) for one in completions]


_LOADING = threading.Lock()


def shared_engine(source: str, *, batch_size: int | None) -> EmbeddedEngine:
    """The engine of this process for ``source``, loaded again if the folder's content has changed.

    Loading is serialized: transformers builds models under a process-wide default device, so two
    threads that load at once get broken weights.
    """
    with _LOADING:
        return _engine(source, model_identity(source), batch_size)


def release_engine() -> None:
    """Free the memory of the engine that this process has, before a training or another engine takes it."""
    with _LOADING:
        _engine.cache_clear()
    free_gpu_memory()


@functools.lru_cache(maxsize=1)
def _engine(source: str, _identity: str, batch_size: int | None) -> EmbeddedEngine:
    return EmbeddedEngine.load(source, batch_size=batch_size)


def fitting_batch(model: Any) -> int:
    """Paths that are decoded together: up to 512 whose keys and values fit into the memory for them at full context.

    This is half of what is free on a GPU, and 1 GiB on a CPU, where 64 are taken in any case.
    """
    config = model.config.get_text_config()
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    values = 2 * config.num_hidden_layers * heads * size
    path = values * model.dtype.itemsize * (context_of(config.to_dict()) or 0)
    on_gpu = model.device.type == "cuda"
    room, fewest = (torch.cuda.mem_get_info()[0] // 2, 1) if on_gpu else (1 << 30, 64)
    return min(512, max(fewest, room // path if path else 64))


def find_end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Ids of the end tokens, of which a model may have several."""
    declared = model.generation_config.eos_token_id
    ids = declared if isinstance(declared, list) else [declared]
    return frozenset(i for i in [*ids, tokenizer.eos_token_id] if i is not None)
