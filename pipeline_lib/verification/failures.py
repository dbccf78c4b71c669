"""Verdicts for what our own side failed to judge: they score nothing, never 0."""

from pipeline_lib.records import Status, Verdict

_MAX_DETAIL_CHARS = 200


def not_judged(status: Status, detail: str) -> Verdict:
    """A verdict without scores."""
    return Verdict(status=status, strict=None, lenient=None, detail=detail[:_MAX_DETAIL_CHARS])


def verifier_error(error: BaseException) -> Verdict:
    """A bug of ours that one item brought to light."""
    detail = f"{type(error).__name__}: {error}"
    return not_judged(Status.VERIFIER_ERROR, detail.encode("ascii", "backslashreplace").decode())
