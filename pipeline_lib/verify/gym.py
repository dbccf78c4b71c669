"""Judge of answers to problems of reasoning-gym, by its own scorers.

Some of them would run an answer, so each text is scored in the sandbox, in a process of its own, with the packages of
the tasks environment.
"""

import functools
import json
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from pipeline_lib.errors import BadInputError, SandboxUnavailableError
from pipeline_lib.killable.pool import Pool
from pipeline_lib.kinds.task_sets import GymGold
from pipeline_lib.own import task_sets
from pipeline_lib.own.code import VERIFIERS, find_source, packages_of
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verdicts import Status, Verdict, not_judged
from pipeline_lib.verify.answer_text import final_turn
from pipeline_lib.verify.code import CodeJudge
from pipeline_lib.verify.math.extraction import extract
from pipeline_lib.verify.sandbox.client import (
    JailedInterpreter,
    JailRefusedError,
    Library,
    TestSuite,
)
from pipeline_lib.verify.sandbox.tiers import open_tier

TAG = "tag"
"""Rule of the format that prompts ask for."""
_MAX_CHARS = 20_000
_PROGRAM = f"import sys; sys.modules[{task_sets.__name__!r}].main()"
_SCORES = TypeAdapter(list[Annotated[float, Field(ge=0, le=1)]])
_LIMITS = frozenset({Status.TIMEOUT, Status.MEMORY, Status.OUTPUT_LIMIT})


def find_answers(text: str) -> dict[str, str]:
    """The rule of each answer in a text: tagged, by the rules of mathematics, the last line, the whole text.

    The tagged one is the first; if it is empty, there is none.
    """
    visible, unfinished = final_turn(text)
    end = visible.rfind("</answer>")
    start = visible.rfind("<answer>", 0, max(end, 0))
    tagged = visible[start + len("<answer>") : end].strip() if start >= 0 else None
    if tagged == "":
        return {}
    rules: dict[str, str] = {}
    for answer, rule in (
        (tagged, "reasoning" if unfinished else TAG),
        extract(text) or ("", ""),
        (visible.strip().rpartition("\n")[2], "last_line"),
        (visible, "whole"),
    ):
        if answer and 0 < len(one := answer.strip()) <= _MAX_CHARS:
            rules.setdefault(one, str(rule))
    return rules


def answer_form(text: str) -> str | None:
    """The answer that a vote counts: the tagged one, else of the first rule that finds one."""
    return next((" ".join(one.split()) for one in find_answers(text)), None)


class GymScorer(CodeJudge):
    """A `killable.pool.Worker`."""

    def judge(self, gold: GymGold, text: str) -> Verdict:  # type: ignore[override, explicit-override]
        """Score the answers in one text. ``strict`` is of the tagged one, ``lenient`` of any."""
        if not (rules := find_answers(text)):
            return Verdict(status=Status.UNPARSED, strict=False, lenient=False, score=0.0)
        request = {"of": gold.of, "entry": gold.entry, "answers": [*rules]}
        report = self._sandbox.run(_PROGRAM, TestSuite(stdin=json.dumps(request)))
        scores: list[float] = []
        with suppress(ValidationError):
            scores = _SCORES.validate_json(report.output.rstrip("\n").rpartition("\n")[2])
        if report.status is not Status.CORRECT or len(scores) != len(rules):
            status = report.status if report.status in _LIMITS else Status.VERIFIER_ERROR
            return not_judged(
                status, f"the scorer of {gold.of}: {report.detail or 'gives no scores'}"
            )
        answers, named, best = [*rules], [*rules.values()], max(scores)
        chosen = 0 if named[0] == TAG else scores.index(best)
        return Verdict(
            status=Status.CORRECT if best == 1 else Status.WRONG,
            strict=named[0] == TAG and scores[0] == 1,
            lenient=best == 1,
            extracted=answers[chosen],
            rule=named[chosen],
            score=scores[chosen],
        )


class GymJudge(ExitStack):
    """Implements `judges.Judge`. Its jails have made the data sets of all batches so far."""

    def __init__(self, params: VerifyParams, *, workers: int) -> None:
        super().__init__()
        self._params, self._workers = params, workers
        self._known: set[str] = set()

    def judge(self, pairs: Sequence[tuple[GymGold, str]]) -> list[Verdict]:
        """One verdict per (gold, text), in order.

        Raises:
            BadInputError: there is no tasks environment, or none of these data sets in it.
            SandboxUnavailableError: no tier passes its self-test, or docker alone.
        """
        names = {gold.of for gold, _ in pairs}
        if not names <= self._known:
            self.close()
            self._known |= names
            self._pool = self.enter_context(self._opened())
        return self._pool.judge(pairs)

    def _opened(self) -> Pool[Any, Verdict]:
        with closing(open_tier(self._params.code)) as tested:
            tier, own = tested.tier, self._params.own
        names = sorted(self._known)
        python = find_source(names[0], key="gold", group=VERIFIERS).python
        if tier == "docker" or python is None:
            raise SandboxUnavailableError(
                "reasoning-gym needs the sandbox tier namespace or landlock"
            )
        warm = [(task_sets.__name__, of) for of in names]
        interpreter = functools.partial(
            JailedInterpreter,
            tier,
            timeout_s=own.timeout_s,
            memory_bytes=own.memory_mb << 20,
            library=Library(python=python, folder=packages_of(python), warm=warm),
        )
        try:
            first = GymScorer(interpreter())
        except JailRefusedError as error:  # the tier is tested
            raise BadInputError(f"golds of {names[0]} to {names[-1]}: {error}") from error
        return Pool(lambda: GymScorer(interpreter()), num_workers=self._workers, first=first)
