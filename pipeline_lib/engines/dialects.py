"""Request bodies for OpenAI-compatible servers, and the differences between servers.

Three differences change what is drawn: the seeds of the N completions of one request, special
tokens added before a prompt, and sampling defaults that a server takes from the model's folder.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline_lib.engines.chat_model import Decoding

# In vLLM and SGLang a model's generation_config.json would set these; only top-p truncates here.
NO_TRUNCATION: Mapping[str, Any] = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Request fields and seed semantics of one kind of server."""

    consecutive_seeds: bool = False
    """The N completions of a request with seed s have the seeds s, s + 1, ... Otherwise each
    completion is its own request: with one seed for N completions, a single one of them could not
    be drawn again."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Added to every request, beyond OpenAI's API."""
    ids_only: bool = False
    """A prompt must be token ids: the server adds special tokens to every text."""
    logprobs: bool = False
    """Log-probabilities are reported as of before temperature."""
    names_stops: bool = False
    """A completion that a stop string ended names it; elsewhere it looks like one that ended itself."""


OPENAI = Dialect()
"""OpenAI's own fields alone, for any other server: some refuse unknown fields."""


def split_seeds(
    seeds: Sequence[int], dialect: Dialect, decoding: Decoding
) -> Iterator[tuple[int, ...]]:
    """Split ``seeds`` into the seeds of one request each, in order."""
    run: tuple[int, ...] = ()
    for seed in seeds:
        joins = dialect.consecutive_seeds and decoding.temperature > 0
        if run and not (joins and seed == run[-1] + 1):
            yield run
            run = ()
        run = (*run, seed)
    if run:
        yield run


def completion_fields(
    prompt: str | Sequence[int], seeds: Sequence[int], decoding: Decoding, dialect: Dialect
) -> dict[str, Any]:
    """Body of a request to ``/v1/completions`` for the seeds of one request, without the model."""
    fields = {
        **_common_fields(seeds, decoding),
        "prompt": prompt,
        "extra_body": dict(dialect.fields),
    }
    # 0: of the drawn tokens alone.
    return {**fields, "logprobs": 0} if dialect.logprobs else fields


def chat_fields(
    messages: Sequence[Any], seeds: Sequence[int], decoding: Decoding, dialect: Dialect
) -> dict[str, Any]:
    """Body of a request to ``/v1/chat/completions``: the server renders the messages."""
    fields = {
        **_common_fields(seeds, decoding),
        "messages": messages,
        "extra_body": {k: v for k, v in dialect.fields.items() if k != "add_special_tokens"},
    }
    return {**fields, "logprobs": True} if dialect.logprobs else fields


def _common_fields(seeds: Sequence[int], decoding: Decoding) -> dict[str, Any]:
    stops = {"stop": list(decoding.stop)} if decoding.stop else {}
    return {
        "n": len(seeds),
        "seed": seeds[0],
        "max_tokens": decoding.max_new_tokens,
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        **stops,
    }
