"""Worked solutions as SFT rows, in the prompt and the answer format of sampled paths."""

import re
from collections.abc import Sequence

from pipeline_lib.problems.countdown import problem_key, solutions
from pipeline_lib.problems.math_word import last_boxed
from pipeline_lib.records import CodeGold, CountdownGold, MathGold, Problem, Row
from pipeline_lib.sampling.prompts import render
from pipeline_lib.serving.chat_model import ChatFormat

_CALCULATOR_MARK = re.compile(r"<<[^<>]*>>")
_FINAL_LINE = re.compile(r"\n?####[^\n]*\s*\Z")


def solution_rows(problems: Sequence[Problem], chat_format: ChatFormat | None) -> list[Row]:
    """SFT rows {problem_id, prompt, completion}; a problem without a worked solution gives none.

    A Countdown problem gives every solution that the solver finds: one alone would teach the policy
    to be sure of it, and leave little to explore.
    """
    return [
        {
            "problem_id": problem.id,
            "prompt": render(problem, chat_format),
            "completion": text,
        }
        for problem in problems
        for text in _solutions(problem)
    ]


def _solutions(problem: Problem) -> list[str]:
    if problem.solution is None:
        return []
    match problem.gold:
        case CountdownGold():
            return solutions(*problem_key(problem))
        case MathGold(answer=answer):
            return [_boxed(problem.solution, answer)]
        case CodeGold():
            return [f"```python\n{problem.solution.strip()}\n```"]
        case _:
            return [problem.solution]


def _boxed(solution: str, answer: str) -> str:
    r"""GSM8K's solution without calculator marks, its ``#### 72`` as ``\boxed{72}``."""
    text = _FINAL_LINE.sub("", _CALCULATOR_MARK.sub("", solution))
    return text if last_boxed(text) == answer else f"{text}\n\\boxed{{{answer}}}"
