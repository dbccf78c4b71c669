"""Agreement among the answers of a round, for an early stop."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.params.pacore import EarlyStop

AnswerNumber = Callable[[str], int | None]
"""Number of a text's answer among the distinct answers so far; None without an answer."""


@dataclass(slots=True)
class Agreement:
    """Test of agreement among the answers of a round."""

    number: AnswerNumber
    stop: EarlyStop
    _numbers: list[int | None] = field(default_factory=list)

    def reached(self, completions: Sequence[Completion]) -> bool:
        """True once the leading answer has its share of ``completions``, a growing sequence."""
        new = completions[len(self._numbers) :]
        self._numbers += [self.number(one.text) if one.text else None for one in new]
        votes = Counter(number for number in self._numbers if number is not None)
        return bool(votes) and max(votes.values()) >= self.stop.share * len(self._numbers)
