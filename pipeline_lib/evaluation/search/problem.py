"""What beam and tree search share: the problem as they see it, their setting, and what they find.

A search sees a prompt and can tell answers apart. It gets no gold and no verdict; what it finds is
judged afterwards, like any other path.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pipeline_lib.params.evaluate import StrategyParams
from pipeline_lib.records import FinishReason
from pipeline_lib.serving.chat_model import ChatModel, Decoding
from pipeline_lib.serving.scored_text import Scorer


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProblem:
    """One problem without its gold."""

    id: str
    prompt: str
    """Rendered, as engines get it."""
    answer_of: Callable[[str], int | None]
    """Which of the answers met so far a text gives, equivalent ones being one; None: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSetting:
    """By whom and how is searched."""

    model: ChatModel
    decoding: Decoding
    """``max_new_tokens`` bounds a whole path, however many completions it was put together from."""
    params: StrategyParams
    seed: int
    scorer: Scorer | None = None
    """Needed where values are self-certainty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPath:
    """A whole path, put together from the steps that were drawn."""

    text: str
    finish_reason: FinishReason
    tokens: int
    """Of the whole path."""
    logprob: float | None
    """Of the whole path; None where it is not known."""
