"""Trackers for a training that is none of transformers' trainers, as that of latent branches.

Without any tracker nothing is loaded: this module is cheap to import, `tracking` is not.
"""

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

Tell = Callable[[int, int, Mapping[str, float]], None]
"""Called with step, total steps and the step's metrics."""


@contextmanager
def listening(
    names: Sequence[str], folder: pathlib.Path, *, phase: str, facts: Mapping[str, Any]
) -> Iterator[Tell]:
    """Yield what tells the trackers ``names`` each step; at the end, good or bad, they are closed.

    Those that write files do it below ``folder``. A training that makes no step opens none of them.

    Args:
        names: as in `tracking.Trackers`; none is fine.
        folder: for their files.
        phase: what they call the run.
        facts: params that they show beside its metrics, as JSON values.

    Raises:
        BadInputError: a name that nobody knows, or whose package is missing.
    """
    if not names:
        yield _nobody
        return
    from pipeline_lib.training.tracking.trackers import Trackers  # noqa: PLC0415 - transformers takes seconds

    trackers = Trackers(names=names, folder=folder)
    trackers.check()
    steps = trackers.outside(phase, facts)
    try:
        yield steps.tell
    finally:
        steps.close()


def _nobody(_step: int, _total: int, _metrics: Mapping[str, float]) -> None:
    pass
