"""Responses of the gateway: choices, token counts of all calls, counts of each round."""

from dataclasses import dataclass

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.engines.client.stream_parsing import Delta
from pipeline_lib.engines.embedded.generation import ChoiceDelta
from pipeline_lib.engines.server.responses import ChatLayout, ChoiceFields, Envelope, Json, Usage
from pipeline_lib.sampling.compute_cost import NOTHING
from pipeline_lib.systems.pacore.solution import Solution, round_counts

_LAYOUT = ChatLayout(
    fields=ChoiceFields(logprobs=False, alternatives=0, token_ids=False), name_of=str
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayResponse:
    """Layout of the response to one request."""

    envelope: Envelope
    seed: int

    @classmethod
    def new(cls, *, model: str, stream: bool, seed: int) -> "GatewayResponse":
        """A response with a new id."""
        kind = "chat.completion.chunk" if stream else "chat.completion"
        envelope = Envelope.new(kind=kind, prefix="chatcmpl", model=model)
        return cls(envelope=envelope, seed=seed)

    def whole(self, solution: Solution) -> Json:
        """The response with all answers."""
        choices = [_choice(index, answer) for index, answer in enumerate(solution.answers)]
        return self.envelope.wrap(choices, **self._counts(solution))

    def first_chunk(self, index: int) -> Json:
        """The chunk of a choice before its text."""
        return self.envelope.wrap([_LAYOUT.first_chunk(index)])

    def chunk(self, index: int, delta: Delta) -> Json:
        """New text of a choice."""
        choice = _LAYOUT.chunk(_delta(index, text=delta.text))
        if delta.reasoning:
            choice["delta"]["reasoning_content"] = delta.reasoning
        return self.envelope.wrap([choice])

    def last_chunk(self, index: int, answer: Completion) -> Json:
        """The end of a choice."""
        return self.envelope.wrap([_LAYOUT.chunk(_delta(index, answer=answer))])

    def usage_chunk(self, solution: Solution) -> Json:
        """The counts of the whole request."""
        return self.envelope.wrap([], **self._counts(solution))

    def _counts(self, solution: Solution) -> Json:
        rounds = [round_counts(drawn) for drawn in solution.rounds]
        pacore = {
            "seed": self.seed,
            "rounds": rounds,
            "calls": solution.cost.calls,
            "failed_calls": solution.cost.failed_calls,
            "critical_tokens": solution.cost.critical_tokens,
        }
        return {"usage": usage(solution), "pacore": pacore}


def usage(solution: Solution) -> Json:
    """Sums over all calls; tokens of the rounds before the last are OpenAI's reasoning tokens."""
    cost, before = solution.cost, NOTHING
    for drawn in solution.rounds[:-1]:
        before = before.then(drawn.cost)
    counts = Usage(
        prompt_tokens=cost.prompt_tokens,
        cached_tokens=cost.cached_tokens,
        completion_tokens=cost.completion_tokens,
    ).json()
    details = {"reasoning_tokens": before.completion_tokens}
    return counts | {"completion_tokens_details": details}


def _choice(index: int, answer: Completion) -> Json:
    choice = _LAYOUT.choice(_delta(index, text=answer.text, answer=answer))
    if answer.reasoning is not None:
        choice["message"]["reasoning_content"] = answer.reasoning
    return choice


def _delta(index: int, *, text: str = "", answer: Completion | None = None) -> ChoiceDelta:
    return ChoiceDelta(
        index=index,
        text=text,
        tokens=(),
        logprobs=(),
        finished=answer.finish_reason if answer else None,
        cached_tokens=0,
    )
