"""A question and its solution: the rounds of paths, with what each path has seen and cost; as JSON, too."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import Completion, Conversation
from pipeline_lib.records import FinishReason, Row
from pipeline_lib.sampling.compute_cost import NOTHING, Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A conversation whose last turn, the user's, asks the question."""

    id: str
    conversation: Conversation
    responses: Sequence[str] = ()
    """Texts of the first round, which is not drawn then; empty: it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of a solution; sequences have one entry per path that was asked for."""

    completions: Sequence[Completion]
    messages: Sequence[str | None]
    """Compacted paths; None for a failed path or one without a message, and in the last round."""
    references: Sequence[Sequence[int]]
    """Paths of the round before whose messages each path has seen, in the order shown."""
    width: int
    """Planned paths; an early stop asks for fewer."""
    dropped: int
    """References that did not fit into the context, over all paths."""
    cost: Cost
    is_given: bool = False
    """Its texts are responses of the question; nothing was asked."""

    @property
    def num_failed(self) -> int:
        """Paths whose call failed."""
        return sum(one.error is not None for one in self.completions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """All rounds of one question."""

    question: Question
    rounds: Sequence[Round]

    @property
    def answers(self) -> Sequence[Completion]:
        """The completions of the last round."""
        return self.rounds[-1].completions

    @property
    def cost(self) -> Cost:
        """Of all rounds, which follow each other."""
        total = NOTHING
        for one in self.rounds:
            total = total.then(one.cost)
        return total


def given_round(responses: Sequence[str]) -> Round:
    """The first round of a question with responses, which costs nothing here."""
    completions = [
        Completion(
            text=text,
            finish_reason=FinishReason.STOP,
            prompt_tokens=0,
            completion_tokens=0,
            logprob=None,
        )
        for text in responses
    ]
    return Round(
        completions=completions,
        messages=[None] * len(completions),
        references=[()] * len(completions),
        width=len(completions),
        dropped=0,
        cost=NOTHING,
        is_given=True,
    )


def solution_row(solution: Solution) -> Row:
    """The output line of a solution, in the fields of PaCoRe's published results and further ones."""
    answer = solution.answers[0]
    return {
        "request_id": solution.question.id,
        "status": answer.finish_reason.value,
        "final_response": answer.text,
        "final_reasoning_content": answer.reasoning,
        "round_responses": [
            [_response(one) for one in drawn.completions] for drawn in solution.rounds
        ],
        "rounds": [round_counts(drawn) for drawn in solution.rounds],
        "usage": usage_counts(solution.cost),
        "critical_tokens": solution.cost.critical_tokens,
    }


def _response(completion: Completion) -> Row:
    text = None if completion.error else completion.text
    response: Row = {"content": text, "reasoning_content": completion.reasoning}
    return response if completion.model is None else response | {"model": completion.model}


def round_counts(drawn: Round) -> Row:
    """Planned and sent calls for paths of a round, failures, references and tokens."""
    return {
        "planned": 0 if drawn.is_given else drawn.width,
        "asked": 0 if drawn.is_given else len(drawn.completions),
        "failed": drawn.num_failed,
        "references": len(set().union(*drawn.references)),
        "dropped": drawn.dropped,
        "prompt_tokens": drawn.cost.prompt_tokens,
        "completion_tokens": drawn.cost.completion_tokens,
    }


def usage_counts(cost: Cost) -> Row:
    """Tokens and calls of a solution."""
    return {
        "prompt_tokens": cost.prompt_tokens,
        "completion_tokens": cost.completion_tokens,
        "total_tokens": cost.prompt_tokens + cost.completion_tokens,
        "calls": cost.calls,
        "failed_calls": cost.failed_calls,
    }
