"""A deterministic engine that answers from a function: for tests and for trying a flow out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline_lib.records import FinishReason
from pipeline_lib.serving.chat_model import ChatFormat, Completion, Decoding, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedModel:
    """Implements ChatModel. ``answer(prompt, seed)`` gives the text; None means a failed request."""

    answer: Callable[[str, int], str | None]
    identity: str = "scripted"
    engine: str = "scripted"
    adapter: str | None = None
    chat_format: ChatFormat | None = None

    def complete(self, requests: Sequence[Request], decoding: Decoding) -> list[list[Completion]]:
        """One completion per seed; texts longer than ``max_new_tokens`` words are cut."""
        return [
            [self._completion(request.prompt, seed, decoding) for seed in request.seeds]
            for request in requests
        ]

    def _completion(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        text = self.answer(prompt, seed)
        prompt_tokens = len(prompt.split())
        if text is None:
            return Completion(
                text="",
                finish_reason=FinishReason.ERROR,
                prompt_tokens=prompt_tokens,
                completion_tokens=0,
                logprob=None,
                error="the script gave no answer",
            )
        words = text.split(" ")
        fits = len(words) <= decoding.max_new_tokens
        return Completion(
            text=text if fits else " ".join(words[: decoding.max_new_tokens]),
            finish_reason=FinishReason.STOP if fits else FinishReason.LENGTH,
            prompt_tokens=prompt_tokens,
            completion_tokens=min(len(words), decoding.max_new_tokens),
            logprob=None,
        )
