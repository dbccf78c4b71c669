"""Worker program: compares answers with SymPy, in processes that may be killed at any time.

Started as ``python -m pipeline_lib.verify.math.worker_process FD LIMITS``; it imports SymPy once, before it forks.
"""

import gc
import json
import pathlib
import re
import signal
import socket
import sys
from enum import Enum
from types import FrameType

from pipeline_lib.killable.program import serve
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.math.exact.comparison import AmbiguousError

_NEARLY = 0.9
_MAX_INT_DIGITS = 50_000
# SymPy imports and caches on first use; doing so before the fork saves it in every worker.
_WARM_UP = (
    ("5", "\\frac{1}{2}x"), ("\\frac{1}{2}x", "0.5x"), ("2\\sqrt{3}", "\\sqrt{12}"),
    ("x^2-1", "(x-1)(x+1)"), ("\\{1, 2\\}", "2, 1"), ("(1, 2]", "1 < x \\le 2"),
    ("y=2x+3", "2x-y+3=0"), ("\\sin(x)", "\\cos(x)"), ("6-5i", "-5i+6"), ("\\text{east}", "x=5"),
    ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1\\\\3\\end{pmatrix}"),
)  # fmt: skip
_WARM_UP_TIMEOUT_S = 60.0


class Outcome(Enum):
    """Outcome of one comparison: status and detail of the verdict."""

    _value_: tuple[Status, str | None]

    EQUAL = Status.CORRECT, None
    DIFFERENT = Status.WRONG, None
    UNPARSED = Status.UNPARSED, "the answer cannot be parsed"
    GOLD_UNPARSED = Status.VERIFIER_ERROR, "the gold cannot be parsed"
    AMBIGUOUS = Status.VERIFIER_ERROR, "two readings, or no proof of equality"
    TIMEOUT = Status.TIMEOUT, "the comparison took too long"
    MEMORY = Status.MEMORY, "the comparison took too much memory"
    CRASHED = Status.VERIFIER_ERROR, "the comparing process died twice"


class _SoftTimeoutError(BaseException):
    """Not an Exception: SymPy and math-verify catch those."""


def main() -> None:
    """Serve the control socket whose descriptor is the first argument, until the parent is gone."""
    control = socket.socket(fileno=int(sys.argv[1]))
    limits = json.loads(sys.argv[2])
    signal.signal(signal.SIGPROF, _on_alarm)
    sys.set_int_max_str_digits(_MAX_INT_DIGITS)
    for gold, answer in _WARM_UP:
        _answer(gold, answer, soft_timeout_s=_WARM_UP_TIMEOUT_S)
    gc.freeze()
    memory_bytes = int(limits["memory_mb"]) << 20

    def reply(message: bytes) -> bytes:
        outcome = _answer(*json.loads(message), soft_timeout_s=limits["soft_timeout_s"])
        if outcome in {Outcome.DIFFERENT, Outcome.UNPARSED} and _was_short_of(memory_bytes):
            outcome = Outcome.MEMORY
        return outcome.name.encode()

    serve(control, reply, memory_bytes=lambda: memory_bytes)


def _was_short_of(memory_bytes: int) -> bool:
    """True if this process came near its memory limit; SymPy swallows MemoryError."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    peak = re.search(r"^VmPeak:\s*(\d+) kB", status, re.MULTILINE)
    return peak is not None and (int(peak[1]) << 10) > _NEARLY * memory_bytes


def _on_alarm(_number: int, _frame: FrameType | None) -> None:
    raise _SoftTimeoutError


def _answer(gold: str, answer: str | None, *, soft_timeout_s: float) -> Outcome:
    """Compare gold and answer; without an answer, check that the gold can be parsed."""
    # The parent imports this module and must not import SymPy.
    from pipeline_lib.verify.math.symbolic import equality  # noqa: PLC0415

    try:
        # CPU time: waiting for a core must not count.
        signal.setitimer(signal.ITIMER_PROF, soft_timeout_s)
        try:
            if not equality.gold_is_readable(gold):
                return Outcome.GOLD_UNPARSED
            equal = answer is None or equality.equal(gold, answer)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except _SoftTimeoutError:
        return Outcome.TIMEOUT
    except MemoryError:
        return Outcome.MEMORY
    except AmbiguousError:
        return Outcome.AMBIGUOUS
    if equal is None:
        return Outcome.UNPARSED
    return Outcome.EQUAL if equal else Outcome.DIFFERENT


if __name__ == "__main__":
    main()
