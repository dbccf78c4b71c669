"""The scoring seam: texts, their scores and the Scorer protocol, without torch. See `decoding.scoring`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredText:
    """A completion with its prompt."""

    prompt: str
    """Rendered."""
    text: str
    ended: bool
    """The policy drew the end token, which is then scored, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextScore:
    """Confidence of the policy in one text."""

    self_certainty: float
    """Mean over the tokens of KL(uniform || next-token distribution), in nats."""
    read_tokens: int
    """Tokens of prompt and text, the compute of the score."""


class Scorer(Protocol):
    """Scores finished texts."""

    def score(self, texts: Sequence[ScoredText]) -> list[TextScore]:
        """One score per text, in order."""
