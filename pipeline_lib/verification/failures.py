"""Verdicts for what our own side failed to judge: they score nothing, never 0."""

import time
from collections.abc import Callable
from dataclasses import replace

from pipeline_lib.verdicts import Status, Verdict

_MAX_DETAIL_CHARS = 200


def not_judged(status: Status, detail: str) -> Verdict:
    """A verdict without scores."""
    return Verdict(status=status, strict=None, lenient=None, detail=detail[:_MAX_DETAIL_CHARS])


def verifier_error(error: BaseException) -> Verdict:
    """A bug of ours that one item brought to light."""
    detail = f"{type(error).__name__}: {error}"
    return not_judged(Status.VERIFIER_ERROR, detail.encode("ascii", "backslashreplace").decode())


def timed_verdict(judge: Callable[[], Verdict]) -> Verdict:
    """What ``judge`` says and how long it took; if it raises, that is a bug of ours, not a 0."""
    start = time.perf_counter()
    try:
        verdict = judge()
    except Exception as error:  # noqa: BLE001 - a bug of ours must not cost a batch its verdicts
        verdict = verifier_error(error)
    return replace(verdict, seconds=time.perf_counter() - start)
