"""A solution as JSON: the output line of a file, and the counts of its rounds."""

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.records import Row
from pipeline_lib.sampling.compute_cost import Cost
from pipeline_lib.systems.pacore.solution import Round, Solution


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
