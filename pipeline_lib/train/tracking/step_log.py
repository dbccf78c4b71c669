"""Trackers for a training loop without a transformers trainer, as that of latent branches.

Without a tracker nothing is loaded: this module is cheap to import, `trackers` is not.
"""

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

LogStep = Callable[[int, int, Mapping[str, float]], None]
"""Called with step, total steps and the step's metrics."""


@contextmanager
def open_trackers(
    names: Sequence[str], folder: pathlib.Path, *, phase: str, facts: Mapping[str, Any]
) -> Iterator[LogStep]:
    """Yield a function that logs a step to the trackers ``names``, which are closed at the end.

    Trackers are opened by the first step, and closed after errors as well.

    ``folder`` is for the files of trackers that write any, ``phase`` the name of the run, and ``facts`` its
    params as JSON values.

    Raises:
        BadInputError: a name is unknown, or its package is missing.
    """
    if not names:
        yield lambda _step, _total, _metrics: None
        return
    from pipeline_lib.train.tracking.trackers import (  # noqa: PLC0415 - seconds to import
        StepLogger,
        Trackers,
    )

    trackers = Trackers(names=names, folder=folder)
    trackers.check()
    steps = StepLogger(trackers, phase, facts)
    try:
        yield steps.log
    finally:
        steps.close()
