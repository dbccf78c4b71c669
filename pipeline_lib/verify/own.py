"""Judge by a verifier of the user: True, False, a score in [0, 1] or None for "not scored".

One that asks a model gives a pair of this and OpenAI's usage, whose tokens are part of the verdict's cost.
Whatever else happens there, an exception, a deadline, the death of its process or another value, is no verdict.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Self

from pipeline_lib.errors import BadInputError
from pipeline_lib.killable.client import Lost
from pipeline_lib.kinds.kind import Gold
from pipeline_lib.kinds.table import kind_of
from pipeline_lib.own.calls import Call, OwnCode, Result
from pipeline_lib.own.code import VERIFIERS, Function, find_function, find_source
from pipeline_lib.params.paths import OwnLimits, VerifyParams
from pipeline_lib.terminal_text import one_line
from pipeline_lib.verdicts import Status, Verdict, not_judged

_SHOWN_CHARS = 80


class OwnJudge:
    """Implements `judges.Judge` for golds of any kind; a context manager."""

    def __init__(self, function: Function, limits: OwnLimits, *, workers: int) -> None:
        self._name = function.name
        self._code = OwnCode(function.source, limits, workers=workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._code.__exit__(*error)

    def judge(self, pairs: Sequence[tuple[Gold, str]]) -> list[Verdict]:
        """One verdict per (gold, text), in order.

        Raises:
            BadInputError: the file of the verifier cannot be imported.
        """
        calls = [Call(function=self._name, args=[answer_in(gold), text]) for gold, text in pairs]
        return [_verdict(result) for result in self._code.call(calls)]


def open_set_judge(params: VerifyParams, *, workers: int) -> OwnJudge:
    """The judge by the rewards of task sets of verifiers; BadInputError: there is no tasks environment."""
    source = find_source("verifiers:", key="verifiers", group=VERIFIERS)
    return OwnJudge(Function(source=source, name="score"), params.own, workers=workers)


def answer_in(gold: Gold) -> Any:
    """What a verifier of the user is given: the fields of a line with this gold, or the only one."""
    fields = kind_of(gold).write_line(gold)
    return next(iter(fields.values())) if len(fields) == 1 else fields


def open_judge(params: VerifyParams, *, workers: int) -> OwnJudge:
    """The judge by ``params.verifier``.

    Raises:
        BadInputError: there is none.
    """
    if params.verifier is None:
        raise BadInputError(
            "verify.verifier is null, and answers of the kind own are judged by nothing else; give FILE.py:function"
        )
    function = find_function(params.verifier, key="verify.verifier", group=VERIFIERS)
    return OwnJudge(function, params.own, workers=workers)


def own_answers(name: str, limits: OwnLimits, stack: ExitStack) -> Callable[[str], str | None]:
    """The function of the user from a text to the answer that a vote counts; its process ends with ``stack``.

    It gives None also without a result: a text whose answer is not known has no vote.
    """
    function = find_function(name, key="verify.answer", group=VERIFIERS)
    code = stack.enter_context(OwnCode(function.source, limits))

    def answer(text: str) -> str | None:
        [result] = code.call([Call(function=function.name, args=[text])])
        return result.value if isinstance(result.value, str) else None

    return answer


def _verdict(result: Result) -> Verdict:
    if result.failure is not None:
        return _without_score(result, result.failure)
    match result.value:
        case [
            bool() | int() | float() | str() | None as judged,
            {"prompt_tokens": int(asked), "completion_tokens": int(drawn)},
        ]:
            verdict = _verdict(replace(result, value=judged))
            return replace(verdict, judge_tokens=(asked, drawn))
        case None:
            return not_judged(Status.VERIFIER_ERROR, "not scored: the verifier returned None")
        case bool() | int() | float() as score if 0 <= score <= 1:
            is_right = score == 1
            return Verdict(
                status=Status.CORRECT if is_right else Status.WRONG,
                strict=is_right,
                lenient=is_right,
                score=float(score),
                seconds=result.seconds,
            )
        case value:
            shown = one_line(json.dumps(value), most=_SHOWN_CHARS)
            return not_judged(
                Status.VERIFIER_ERROR,
                f"no verdict: the verifier returned {shown}, not True, False, None or a number from 0 to 1",
            )


def _without_score(result: Result, failure: str) -> Verdict:
    if result.lost is not None:
        status = Status.TIMEOUT if result.lost is Lost.TIMEOUT else Status.VERIFIER_ERROR
        return not_judged(status, f"the verifier: {failure} ({result.seconds:.1f} s)")
    is_memory = failure.startswith("MemoryError")
    return not_judged(Status.MEMORY if is_memory else Status.VERIFIER_ERROR, failure)
