"""Worked solutions as SFT rows, in the prompt and answer format of sampled paths."""

from collections.abc import Sequence

from pipeline_lib.engines.chat_model import ChatFormat
from pipeline_lib.records import Problem, Row
from pipeline_lib.sampling.prompts import render


def solution_rows(problems: Sequence[Problem], chat_format: ChatFormat | None) -> list[Row]:
    """SFT rows {problem_id, prompt, completion}, one per text of a worked solution.

    A problem without a worked solution gives no row; one of Countdown gives a row per solution.
    """
    return [
        {
            "problem_id": problem.id,
            "prompt": render(problem, chat_format),
            "completion": text,
        }
        for problem in problems
        if problem.solution is not None
        for text in problem.kind.solution_texts(problem.gold, problem.solution)
    ]
