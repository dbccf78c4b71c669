"""What a scoring pass is asked, and what it says; the pass itself stands in `scoring`, with torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredText:
    """A text after the prompt that it continues."""

    prompt: str
    """Rendered, as engines get it."""
    text: str
    ended: bool
    """The policy ended it itself, so that its end token is part of what is scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextScore:
    """How sure the policy was of one text."""

    self_certainty: float
    """Mean over its tokens of the divergence of the next-token distribution from uniform, in nats."""
    read_tokens: int
    """Tokens of prompt and text together, which the pass had to read."""


class Scorer(Protocol):
    """A policy that looks at texts again."""

    def score(self, texts: Sequence[ScoredText]) -> list[TextScore]:
        """One score a text, in order."""
        ...
