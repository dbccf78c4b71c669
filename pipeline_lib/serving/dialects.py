"""How the servers that speak OpenAI's API differ, and the bodies of requests to each.

Three things differ that decide what is drawn: what N completions of one request do with its seed,
whether special tokens are put before a prompt, and which sampling parameters a server takes from
the model's folder unless it is told otherwise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline_lib.serving.chat_model import Decoding

# In vLLM and SGLang a model's generation_config.json would set these; only top-p truncates here.
NO_TRUNCATION: Mapping[str, Any] = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One kind of server."""

    consecutive_seeds: bool = False
    """The N completions of a request with seed s have the seeds s, s + 1, ... Where that is not
    known, each completion is a request of its own: one seed for N completions could not say how
    to draw the third of them again."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Of every completion request, beside the API's own."""
    prompts_as_ids: bool = False
    """The server puts special tokens before any text, so prompts go as token ids."""
    logprobs: bool = False
    """It is known to report log-probabilities of before temperature."""


UNKNOWN = Dialect()
"""Any other server: nothing but OpenAI's own fields, since some refuse what they do not know."""


def seed_runs(
    seeds: Sequence[int], dialect: Dialect, decoding: Decoding
) -> Iterator[tuple[int, ...]]:
    """Cut ``seeds`` into those that one request can ask for, in their order."""
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
    """The body of a request to ``/v1/completions`` for one run of seeds, without the model."""
    fields = {
        **_common_fields(seeds, decoding),
        "prompt": prompt,
        "extra_body": dict(dialect.fields),
    }
    # 0 asks for the drawn tokens alone.
    return {**fields, "logprobs": 0} if dialect.logprobs else fields


def chat_fields(
    message: str, seeds: Sequence[int], decoding: Decoding, dialect: Dialect
) -> dict[str, Any]:
    """The same to ``/v1/chat/completions``, for a server that renders the message itself."""
    fields = {
        **_common_fields(seeds, decoding),
        "messages": [{"role": "user", "content": message}],
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
