"""Draws by a table, with words as tokens: every count can be worked out by hand."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.lib.scripted_draws import run_on_scripted_clock
from benchmarks.lib.scripted_threads import BracketGrammar
from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.engines.embedded.generation import cut_at_stop
from pipeline_lib.records import FinishReason
from pipeline_lib.systems.apr.runtime import Runtime
from pipeline_lib.systems.apr.scheduler import run_rollouts
from pipeline_lib.systems.apr.threads import Limits, Rollout, Root, TextTokens

END = 0
"""The end token; it has no text."""
_WORDS = [""]


def _encode(text: str) -> list[int]:
    words = re.findall(r" ?[^ ]+| +$", text)
    _WORDS.extend(word for word in dict.fromkeys(words) if word not in _WORDS)
    return [_WORDS.index(word) for word in words]


def _decode(ids) -> str:
    return "".join(_WORDS[i] for i in ids)


WORDS = TextTokens(encode=_encode, count=lambda text: len(_encode(text)), decode=_decode)
"""A token is a word with the space before it."""


@dataclass(kw_only=True)
class WordDraws:
    """Implements Draws: the text of a prompt is in a table; None fails."""

    texts: Mapping[str, str | None]
    names_stops: bool = True
    gives_ids: bool = True
    asked: list[tuple[str, int, Decoding]] = field(default_factory=list)
    """Prompt, seed and decoding of each draw."""

    async def draw(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        """The text up to the stop or the limit, and then the end token."""
        await asyncio.sleep(1)
        self.asked.append((prompt, seed, decoding))
        prompt_tokens, text = len(_encode(prompt)), self.texts[prompt]
        if text is None:
            return _completion("", FinishReason.ERROR, prompt_tokens, error="it broke")
        before, stop = cut_at_stop(text, decoding.stop)
        if stop is not None:
            ids = _encode(before + stop)
            return _completion(
                before,
                FinishReason.STOP,
                prompt_tokens,
                ids=ids,
                shown=self.gives_ids,
                stopped_by=stop if self.names_stops else None,
            )
        ids = [*_encode(text), END]
        if len(ids) > decoding.max_new_tokens:
            ids = ids[: decoding.max_new_tokens]
            reason = FinishReason.LENGTH
        else:
            reason = FinishReason.STOP
        return _completion(_decode(ids), reason, prompt_tokens, ids=ids, shown=self.gives_ids)


def _completion(text, reason, prompt_tokens, *, ids=(), shown=True, **more) -> Completion:
    return Completion(
        text=text,
        finish_reason=reason,
        prompt_tokens=prompt_tokens,
        completion_tokens=len(ids),
        logprob=None,
        token_ids=tuple(ids) if shown else None,
        token_logprobs=tuple(-0.5 - place for place in range(len(ids))) if shown else None,
        **more,
    )


def roll(draws: WordDraws, prompt: str = "parent 0", **settings) -> Rollout:
    """The rollout of one parent; ``settings`` are of `Runtime`, ``limits`` those of `Limits`."""

    async def run():
        runtime = Runtime(
            **{
                "grammar": BracketGrammar(),
                "draws": draws,
                "decoding": Decoding(max_new_tokens=100),
                "slots": asyncio.Semaphore(8),
                "seed": 1,
                "tokens": WORDS,
            }
            | settings
            | {"limits": Limits(**settings.get("limits", {}))}
        )
        return await run_rollouts(runtime, [Root(problem_id="p", sample=0, prompt=prompt)])

    [rollout], _ = run_on_scripted_clock(run())
    return rollout


def outputs(rollout: Rollout) -> list[tuple[str, str]]:
    """Prefix and output of each sequence."""
    return [(one.prefix, one.output) for one in rollout.sequences]
