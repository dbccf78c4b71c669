"""Judge of answers to problems of reasoning-gym, by its own scorers.

Some of them evaluate the answer, so they run in the sandbox, a process for each text, in an interpreter of the tasks
environment. What it prints is read as numbers.
"""

import functools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from pipeline_lib.errors import SandboxUnavailableError
from pipeline_lib.killable.pool import Pool
from pipeline_lib.kinds.task_sets import GymGold
from pipeline_lib.own import task_sets
from pipeline_lib.own.code import VERIFIERS, find_source, packages_of
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.terminal_text import one_line
from pipeline_lib.verdicts import Status, Verdict, not_judged, timed_verdict
from pipeline_lib.verify.answer_text import fenced_blocks, final_turn, last_boxes, unix_lines
from pipeline_lib.verify.sandbox.client import JailedInterpreter, Library, TestSuite
from pipeline_lib.verify.sandbox.tiers import find_tier

TAG = "tag"
"""The rule of an answer between tags, the format that prompts ask for."""
_LINE = re.compile(r"\banswer\b\W{0,4}(?:is\b|:|=)[\s:*]{0,8}(\S[^\n]*)", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:[.,/]\d+)*")
_MAX_CHARS = 20_000
_PROGRAM = f"import sys; sys.modules[{task_sets.__name__!r}].main()"
_LIBRARY_BYTES = 512 << 20
"""Addresses that the library takes."""
_LIMITS = frozenset({Status.TIMEOUT, Status.MEMORY, Status.OUTPUT_LIMIT})
_SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True)
class Found:
    """An answer in a text, and the rule that found it."""

    rule: str
    answer: str


def find_answers(text: str) -> list[Found]:
    """Answers in a text, each of a rule of its own, the tagged one first; none if that one is empty."""
    visible, unfinished = final_turn(unix_lines(text))
    end = visible.rfind("</answer>")
    start = visible.rfind("<answer>", 0, max(end, 0))
    found: dict[str, Found] = {}
    if start >= 0:
        tagged = visible[start + len("<answer>") : end].strip()
        if not tagged:
            return []
        found[tagged] = Found("reasoning" if unfinished else TAG, tagged)
    for one in _untagged(visible):
        found.setdefault(one.answer, one)
    return [one for one in found.values() if 0 < len(one.answer) <= _MAX_CHARS]


def _untagged(text: str) -> Iterator[Found]:
    boxes = last_boxes(text)
    yield Found("boxed", boxes[-1].strip() if boxes else "")
    lines = _LINE.findall(text)
    yield Found("answer_line", lines[-1].strip(" *.") if lines else "")
    blocks = fenced_blocks(text)
    yield Found("block", blocks[-1].content.strip() if blocks else "")
    numbers = _NUMBER.findall(text)
    yield Found("last_number", numbers[-1] if numbers else "")
    yield Found("last_line", text.strip().rpartition("\n")[2].strip())
    yield Found("whole", text.strip())


def answer_form(text: str) -> str | None:
    """The answer that a vote counts: the tagged one, else of the first rule that finds one."""
    return next((" ".join(one.answer.split()) for one in find_answers(text)), None)


class _Scorer:
    """A `killable.pool.Worker`."""

    def __init__(self, sandbox: JailedInterpreter) -> None:
        self._sandbox = sandbox

    def answer(self, pair: tuple[GymGold, str]) -> Verdict:
        """The verdict on one text."""
        return timed_verdict(functools.partial(self._judge, *pair))

    def close(self) -> None:
        """End the jail."""
        self._sandbox.close()

    def _judge(self, gold: GymGold, text: str) -> Verdict:
        found = find_answers(text)
        if not found:
            return Verdict(status=Status.UNPARSED, strict=False, lenient=False, score=0.0)
        request = {"of": gold.of, "entry": gold.entry, "answers": [one.answer for one in found]}
        report = self._sandbox.run(_PROGRAM, TestSuite(stdin=json.dumps(request)))
        if report.status is not Status.CORRECT:
            status = report.status if report.status in _LIMITS else Status.VERIFIER_ERROR
            return not_judged(status, f"the scorer of {gold.of}: {report.detail}")
        scores = _scores(report.output, len(found))
        if scores is None:
            shown = one_line(repr(report.output), most=_SHOWN_CHARS)
            return not_judged(Status.VERIFIER_ERROR, f"no scores from 0 to 1: {gold.of} gives {shown}")
        is_tagged = found[0].rule == TAG
        place = 0 if is_tagged else scores.index(max(scores))
        lenient = max(scores) == 1
        return Verdict(
            status=Status.CORRECT if lenient else Status.WRONG,
            strict=is_tagged and scores[0] == 1,
            lenient=lenient,
            extracted=found[place].answer,
            rule=found[place].rule,
            score=scores[place],
        )


def _scores(output: str, count: int) -> list[float] | None:
    """The numbers in the last line, as many as there are answers; None if they are not there."""
    try:
        scores = json.loads(output.rstrip("\n").rpartition("\n")[2])
    except (ValueError, RecursionError):
        return None
    is_known = isinstance(scores, list) and len(scores) == count
    return scores if is_known and all(isinstance(x, float) and 0 <= x <= 1 for x in scores) else None


class GymJudge:
    """Implements `judges.Judge`; a context manager. A jail has made the data sets of the batches so far."""

    def __init__(self, params: VerifyParams, *, workers: int) -> None:
        self._params, self._workers = params, workers
        self._known: frozenset[str] = frozenset()
        self._pool: Pool[tuple[GymGold, str], Verdict] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.close()

    def judge(self, pairs: Sequence[tuple[GymGold, str]]) -> list[Verdict]:
        """One verdict per (gold, text), in order.

        Raises:
            BadInputError: there is no tasks environment.
            SandboxUnavailableError: no tier passes its self-test, or the one that does cannot hold the environment.
        """
        names = {gold.of for gold, _ in pairs}
        if self._pool is None or not names <= self._known:
            self.__exit__()
            self._known |= names
            self._pool = self._opened()
        return self._pool.judge(pairs)

    def _opened(self) -> Pool[tuple[GymGold, str], Verdict]:
        sources = [find_source(of, key="gold.of", group=VERIFIERS) for of in sorted(self._known)]
        tier, python = find_tier(self._params.code), sources[0].python
        if tier == "docker" or python is None:
            raise SandboxUnavailableError("answers of reasoning-gym need the tier namespace or landlock")
        library = Library(
            python=python,
            folder=packages_of(python),
            warm=[(f"{task_sets.__name__}:warm", *source.given) for source in sources],
        )
        own = self._params.own

        def opened() -> _Scorer:
            memory_bytes = _LIBRARY_BYTES + (own.memory_mb << 20)
            limits = {"timeout_s": own.timeout_s, "memory_bytes": memory_bytes}
            return _Scorer(JailedInterpreter(tier, **limits, library=library))

        return Pool(opened, num_workers=self._workers, first=opened())


def open_judge(params: VerifyParams, *, workers: int) -> GymJudge:
    """The judge; see `judges.JudgeOpener`."""
    return GymJudge(params, workers=workers)
