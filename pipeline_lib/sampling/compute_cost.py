"""What drawing completions costs, and how costs add up: one after another, or side by side.

The critical path is the longest chain of tokens of which each had to wait for the one before: what
a user waits for when there are engines enough. Prompts and scoring passes are computed in parallel,
so they cost tokens and lengthen no chain. Seconds differ from run to run and stand elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline_lib.serving.chat_model import Completion


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What was spent on one problem, or on many."""

    calls: int = 0
    """Completions that were asked for, failed ones included."""
    failed_calls: int = 0
    prompt_tokens: int = 0
    """A prompt that several completions of one request share counts once."""
    cached_tokens: int = 0
    """Those of the prompt tokens that the engine had computed before."""
    completion_tokens: int = 0
    """All that was drawn, in discarded branches as well."""
    scoring_tokens: int = 0
    """Read in passes that only score what was drawn before."""
    critical_tokens: int = 0
    """Length of the longest sequential chain of drawn tokens."""
    longest_tokens: int = 0
    """Length of the longest single completion."""

    def then(self, later: "Cost") -> "Cost":
        """Both, where ``later`` had to wait for this one: the chains join."""
        return self._with(later, critical_tokens=self.critical_tokens + later.critical_tokens)

    def beside(self, other: "Cost") -> "Cost":
        """Both, drawn at the same time: the longer chain counts."""
        return self._with(other, critical_tokens=max(self.critical_tokens, other.critical_tokens))

    def _with(self, other: "Cost", *, critical_tokens: int) -> "Cost":
        return Cost(
            calls=self.calls + other.calls,
            failed_calls=self.failed_calls + other.failed_calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            scoring_tokens=self.scoring_tokens + other.scoring_tokens,
            critical_tokens=critical_tokens,
            longest_tokens=max(self.longest_tokens, other.longest_tokens),
        )


NOTHING = Cost()


def request_cost(completions: Sequence[Completion]) -> Cost:
    """The cost of the completions of one request, which are drawn side by side."""
    if not completions:
        return NOTHING
    paying = [completions[0], *(one for one in completions[1:] if one.opens_request)]
    lengths = [one.completion_tokens for one in completions]
    return Cost(
        calls=len(completions),
        failed_calls=sum(one.error is not None for one in completions),
        prompt_tokens=sum(one.prompt_tokens for one in paying),
        cached_tokens=sum(one.cached_tokens for one in paying),
        completion_tokens=sum(lengths),
        critical_tokens=max(lengths),
        longest_tokens=max(lengths),
    )


def round_cost(requests: Sequence[Sequence[Completion]]) -> Cost:
    """The cost of requests that go out together."""
    total = NOTHING
    for completions in requests:
        total = total.beside(request_cost(completions))
    return total
