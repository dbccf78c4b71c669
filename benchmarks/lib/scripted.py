"""A deterministic engine that completes prompts by a function, for tests and dry runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import ChatFormat, Completion, Decoding, Request
from pipeline_lib.engines.embedded.generation import cut_at_stop
from pipeline_lib.records import FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedModel:
    """Implements ChatModel. ``answer(prompt, seed)`` gives the text; None: the request fails.

    Tokens are the words between spaces.
    """

    answer: Callable[[str, int], str | None]
    logprob: Callable[[str, str], float] | None = None
    """Log-probability of a text after a prompt; None: not reported."""
    identity: str = "scripted"
    engine: str = "scripted"
    adapter: str | None = None
    arithmetic: str | None = None
    chat_format: ChatFormat | None = None
    context_tokens: int | None = None

    def room(self, prompt: str) -> int | None:
        """The context less the words of the prompt."""
        return None if self.context_tokens is None else self.context_tokens - len(prompt.split())

    def complete(self, requests: Sequence[Request], decoding: Decoding) -> list[list[Completion]]:
        """One completion per seed, truncated to ``max_new_tokens`` words."""
        return [
            [self._completion(request.prompt, seed, decoding) for seed in request.seeds]
            for request in requests
        ]

    def _completion(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        text = self.answer(prompt, seed)
        prompt_tokens = len(prompt.split())
        if text is None:
            return Completion.failed("the script gave no answer", prompt_tokens=prompt_tokens)
        before, stop = cut_at_stop(text, decoding.stop)
        words = before.split(" ")
        fits = len(words) <= decoding.max_new_tokens
        drawn = before if fits else " ".join(words[: decoding.max_new_tokens])
        return Completion(
            text=drawn,
            finish_reason=FinishReason.STOP if fits else FinishReason.LENGTH,
            prompt_tokens=prompt_tokens,
            completion_tokens=min(len(words), decoding.max_new_tokens),
            logprob=self.logprob(prompt, drawn) if self.logprob is not None else None,
            stopped_by=stop if fits else None,
        )
