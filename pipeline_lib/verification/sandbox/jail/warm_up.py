"""What the warm interpreter does before its first fork, so that its children need not.

A child pays for every page that it writes to. Code that has run often is specialized already, and
caches that are filled are only read.
"""

import sys

from pipeline_lib.verification.sandbox.examiner.examine import examine
from pipeline_lib.verification.sandbox.examiner.session import Session
from pipeline_lib.verification.sandbox.jail.candidate_process import MODULE, Candidate

_ROUNDS = 40
"""Python 3.11 specializes an instruction after 8 executions, and gives up and retries a few times."""
_PROGRAM = b"""
from typing import Any, Dict, List, Optional, Set, Tuple, Union
import math

def rehearsed(values: List[int], name: str = "", *, pairs: Optional[Dict[str, int]] = None) -> Any:
    kinds: Tuple[List[str], List[float], Tuple[int, int], Union[int, str]] = None
    seen = set(values)
    for index, value in enumerate(sorted(values)):
        if value % 2 == 0 and value not in (7, 8):
            seen.add(math.floor(value / 2) + index)
    return [str(value) for value in range(len(values)) if value], (len(seen), 2.5, None), name
"""
_TESTS = """
def check(candidate):
    assert candidate([]) == ([], (0, 2.5, None), "")
    assert candidate([1, 2, 3], "a") == (["1", "2"], (3, 2.5, None), "a"), "message"
    assert abs(candidate([4])[1][1] - 2.5) < 1e-6
"""


class _Loopback:
    """A channel whose other side is in this process."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._answer = b""

    def send(self, frame: bytes) -> None:
        self._answer = self._candidate.answer(frame)

    def receive(self) -> bytes:
        return self._answer


def rehearse() -> None:
    """Judge a program of our own, here, as often as it takes."""
    for round_ in range(_ROUNDS):
        session = Session(_Loopback(Candidate(_PROGRAM)))
        examine(session, entry_point="rehearsed", tests=_TESTS, alter=round_ % 2 == 1)
    del sys.modules[MODULE]
