"""Sequential and parallel costs."""

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.records import FinishReason
from pipeline_lib.sampling.compute_cost import NOTHING, Cost, request_cost, round_cost


def completion(tokens, *, prompt=7, cached=0, error=None, opens=False):
    return Completion(
        text="x",
        finish_reason=FinishReason.STOP,
        prompt_tokens=prompt,
        completion_tokens=tokens,
        logprob=None,
        error=error,
        cached_tokens=cached,
        opens_request=opens,
    )


def test_completions_of_one_request_share_the_prompt_and_run_side_by_side():
    """5, 9 and 2 tokens: 16 in all, a chain of 9, the prompt once."""
    found = request_cost([completion(n, cached=3) for n in (5, 9, 2)])
    assert found == Cost(
        calls=3,
        prompt_tokens=7,
        cached_tokens=3,
        completion_tokens=16,
        critical_tokens=9,
        longest_tokens=9,
    )


def test_two_rounds():
    """Rounds with longest paths of 9 and 4 tokens: a critical path of 13."""
    first = round_cost([[completion(5), completion(9)], [completion(3)]])
    second = round_cost([[completion(4)]])
    both = first.then(second)
    assert (both.critical_tokens, both.completion_tokens, both.longest_tokens) == (13, 21, 9)
    assert first.beside(second).critical_tokens == 9
    assert (both.calls, both.prompt_tokens) == (4, 21)


def test_further_requests_failed_calls_and_scoring():
    """A further request pays for the prompt again, a failed call draws nothing, scoring lengthens no chain."""
    assert request_cost([completion(1), completion(1, opens=True)]).prompt_tokens == 14
    found = request_cost([completion(0, error="gone"), completion(4)])
    assert (found.calls, found.failed_calls, found.completion_tokens) == (2, 1, 4)
    scored = found.then(Cost(scoring_tokens=11))
    assert (scored.critical_tokens, scored.scoring_tokens, scored.completion_tokens) == (4, 11, 4)
    assert found.then(NOTHING) == found.beside(NOTHING) == NOTHING.then(found) == found
    assert request_cost([]) == NOTHING
