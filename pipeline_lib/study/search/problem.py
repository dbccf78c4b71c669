"""Input, setting and output of beam and tree search.

A search sees the prompt and can group equivalent answers. It has no gold and no verdict; its paths
are judged afterwards, like any other.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import ChatModel, Decoding
from pipeline_lib.engines.scored_text import Scorer
from pipeline_lib.params.evaluate import StrategyParams
from pipeline_lib.records import FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProblem:
    """One problem without its gold."""

    id: str
    prompt: str
    """Rendered prompt, as sent to the engine."""
    answer_of: Callable[[str], int | None]
    """Number of the text's answer among the distinct answers so far; None without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSetting:
    """Model, decoding and params of a search."""

    model: ChatModel
    decoding: Decoding
    """``max_new_tokens`` bounds a whole path, over all its completions."""
    params: StrategyParams
    seed: int
    scorer: Scorer | None = None
    """Required if values are self-certainty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPath:
    """A complete path, joined from sampled steps."""

    text: str
    finish_reason: FinishReason
    tokens: int
    """Of the whole path."""
    logprob: float | None
    """Of the whole path; None if unknown."""
