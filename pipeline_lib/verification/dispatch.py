"""Exactly one verdict for every item, whatever its kind: the front of all verifiers.

A batch never raises because of an item. Pools and sandboxes are started when the first item of
their kind comes, and stopped with the verifier. What a right answer is, the verifiers know.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

from pipeline_lib.kinds.arc import ARC, ArcGold
from pipeline_lib.kinds.code import CODE, CodeGold
from pipeline_lib.kinds.countdown import COUNTDOWN, CountdownGold
from pipeline_lib.kinds.kind import Gold, Kind
from pipeline_lib.kinds.math import MATH, MathGold
from pipeline_lib.kinds.table import kind_of
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verification import arc_grid, countdown_expression
from pipeline_lib.verification.code_pool import open_code_pool
from pipeline_lib.verification.failures import timed_verdict
from pipeline_lib.verification.math_answer import MathJudge


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One text to be judged. None stands for a text that never came (null in a file)."""

    gold: Gold
    text: str | None


JudgeMany = Callable[[Sequence[Item]], list[Verdict]]
Opener = Callable[[VerifyParams, int, ExitStack], JudgeMany]


def _open_countdown(_params: VerifyParams, _workers: int, _stack: ExitStack) -> JudgeMany:
    return lambda items: [_timed(_judge_countdown, item) for item in items]


def _judge_countdown(item: Item) -> Verdict:
    assert isinstance(item.gold, CountdownGold)
    assert item.text is not None
    return countdown_expression.judge(item.gold, item.text)


def _open_arc(_params: VerifyParams, _workers: int, _stack: ExitStack) -> JudgeMany:
    return lambda items: [_timed(_judge_arc, item) for item in items]


def _judge_arc(item: Item) -> Verdict:
    assert isinstance(item.gold, ArcGold)
    assert item.text is not None
    return arc_grid.judge(item.gold, item.text)


def _timed(judge: Callable[[Item], Verdict], item: Item) -> Verdict:
    return timed_verdict(lambda: judge(item))


def _open_math(params: VerifyParams, workers: int, stack: ExitStack) -> JudgeMany:
    judge = stack.enter_context(MathJudge(params.math, workers=workers))
    return lambda items: judge.judge([_math_pair(item) for item in items])


def _open_code(params: VerifyParams, workers: int, stack: ExitStack) -> JudgeMany:
    pool = stack.enter_context(open_code_pool(params.code, num_workers=workers))
    return lambda items: pool.judge([_code_pair(item) for item in items])


def _math_pair(item: Item) -> tuple[MathGold, str]:
    assert isinstance(item.gold, MathGold)
    assert item.text is not None
    return item.gold, item.text


def _code_pair(item: Item) -> tuple[CodeGold, str]:
    assert isinstance(item.gold, CodeGold)
    assert item.text is not None
    return item.gold, item.text


_OPENERS: Mapping[Kind[Any], Opener] = {
    MATH: _open_math,
    CODE: _open_code,
    COUNTDOWN: _open_countdown,
    ARC: _open_arc,
}


class Verifier:
    """Judges batches of any mixture of kinds. Use it as a context manager."""

    def __init__(self, params: VerifyParams, *, workers: int) -> None:
        self._params = params
        self._workers = workers
        self._stack = ExitStack()
        self._judges: dict[Kind[Any], JudgeMany] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes. It may be used again, and starts them again then."""
        self._judges.clear()
        self._stack.close()

    def judge(self, items: Sequence[Item]) -> list[Verdict]:
        """One verdict per item, in order.

        Raises:
            SandboxUnavailableError: there is code among the items and nowhere safe to run it.
        """
        malformed = Verdict(
            status=Status.MALFORMED, strict=False, lenient=False, detail="no text at all"
        )
        verdicts = dict.fromkeys(range(len(items)), malformed)
        for kind, positions in _by_kind(items).items():
            judged = self._judge_of(kind)([items[position] for position in positions])
            verdicts.update(zip(positions, judged, strict=True))
        return list(verdicts.values())

    def _judge_of(self, kind: Kind[Any]) -> JudgeMany:
        if kind not in self._judges:
            self._judges[kind] = _OPENERS[kind](self._params, self._workers, self._stack)
        return self._judges[kind]


def _by_kind(items: Sequence[Item]) -> dict[Kind[Any], list[int]]:
    positions: dict[Kind[Any], list[int]] = {}
    for position, item in enumerate(items):
        if item.text is not None:
            positions.setdefault(kind_of(item.gold), []).append(position)
    return positions


def open_verifier(params: VerifyParams, *, workers: int = 1) -> Verifier:
    """A verifier with the limits of ``params`` and ``workers`` processes where a kind needs them."""
    return Verifier(params, workers=workers)
