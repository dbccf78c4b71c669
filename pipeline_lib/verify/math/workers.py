"""Client of the processes that compare answers with SymPy; each comparison has a deadline.

The parent sends text and does not import SymPy. Deadlines count CPU time, so outcomes do not depend on concurrent load.
"""

import json
import os
from typing import NamedTuple

from pipeline_lib.killable.client import Forker, Lost, Worker
from pipeline_lib.params.paths import MathLimits
from pipeline_lib.verify.math import worker_process
from pipeline_lib.verify.math.worker_process import Outcome

MAX_STRETCH = 10
"""Wall-clock limit in multiples of the hard CPU limit, for a process that gets little CPU: five of
the pool, and others, may share its core."""
UNSETTLED = frozenset({Outcome.TIMEOUT, Outcome.MEMORY, Outcome.CRASHED})
"""Outcomes that say nothing about the answer."""


class Question(NamedTuple):
    """Compare ``answer`` with ``gold``; without an answer, check that the gold can be parsed."""

    gold: str
    answer: str | None


class Reply(NamedTuple):
    """The outcome and its wall-clock seconds."""

    outcome: Outcome
    seconds: float


def math_forker(limits: MathLimits) -> Forker:
    """The process that has imported SymPy."""
    return Forker(
        worker_process.__name__,
        limits.model_dump(),
        what="the math verifier's processes",
        environment={"PYTHONHASHSEED": "0", "PATH": os.defpath},
    )


class MathWorker:
    """A `killable.pool.Worker` for comparisons."""

    def __init__(self, forker: Forker, limits: MathLimits) -> None:
        self.process, self._hard_s = Worker(forker), limits.hard_timeout_s

    def answer(self, question: Question) -> Reply:
        """The reply to one question; ReasonloopError: no process can be started."""
        data, seconds = self.process.ask(
            json.dumps(question).encode(), cpu_s=self._hard_s, wall_s=MAX_STRETCH * self._hard_s
        )
        outcome = Outcome[data.name if isinstance(data, Lost) else data.decode()]
        if outcome is Outcome.MEMORY or outcome is Outcome.TIMEOUT:
            self.close()
        return Reply(outcome, seconds)

    def close(self) -> None:
        """Kill its process."""
        self.process.close()
