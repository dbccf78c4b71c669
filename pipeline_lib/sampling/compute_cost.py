"""Cost of completions in tokens, composed sequentially or in parallel.

The critical path is the longest chain of tokens that each depend on the one before: the latency with
unlimited engines. Prompts and scoring passes are parallel, so they cost tokens and lengthen no chain.
Seconds differ between runs and are recorded as events.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import Completion


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Calls and tokens spent on one or more problems."""

    calls: int = 0
    """Requested completions, failed ones included."""
    failed_calls: int = 0
    prompt_tokens: int = 0
    """A prompt that several completions of one request share counts once."""
    cached_tokens: int = 0
    """Prompt tokens taken from the engine's prefix cache."""
    completion_tokens: int = 0
    """Drawn tokens, discarded branches included."""
    scoring_tokens: int = 0
    """Tokens of scoring passes over earlier completions."""
    critical_tokens: int = 0
    """Length of the longest sequential chain of drawn tokens."""
    longest_tokens: int = 0
    """Length of the longest single completion."""

    def then(self, later: "Cost") -> "Cost":
        """The sum with a cost that depends on this one: critical paths add up."""
        return self._with(later, critical_tokens=self.critical_tokens + later.critical_tokens)

    def beside(self, other: "Cost") -> "Cost":
        """The sum with a parallel cost: the longer critical path counts."""
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
    """Cost of the completions of one request, which are drawn in parallel."""
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
    """Cost of requests that are sent together."""
    total = NOTHING
    for completions in requests:
        total = total.beside(request_cost(completions))
    return total
