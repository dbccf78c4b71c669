"""Verdicts without scores, for failures of the verifier; such a path is not scored 0."""

import time
from collections.abc import Callable
from dataclasses import replace

from pipeline_lib.verdicts import Status, Verdict

_MAX_DETAIL_CHARS = 200


def not_judged(status: Status, detail: str) -> Verdict:
    """A verdict without scores."""
    return Verdict(status=status, strict=None, lenient=None, detail=detail[:_MAX_DETAIL_CHARS])


def timed_verdict(judge: Callable[[], Verdict]) -> Verdict:
    """The verdict of ``judge`` with its seconds; an exception becomes a verifier_error."""
    start = time.perf_counter()
    try:
        verdict = judge()
    except Exception as error:  # noqa: BLE001 - one item must not fail its batch
        detail = f"{type(error).__name__}: {error}".encode("ascii", "backslashreplace").decode()
        verdict = not_judged(Status.VERIFIER_ERROR, detail)
    return replace(verdict, seconds=time.perf_counter() - start)
