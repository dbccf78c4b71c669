"""Pieces of work in processes of their own, as many at once as there are workers."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from pipeline_lib.errors import ReasonloopError

_Piece = TypeVar("_Piece")
_Result = TypeVar("_Result")


def results_of(
    function: Callable[[_Piece], _Result], pieces: Sequence[_Piece], *, workers: int
) -> Iterator[tuple[int, _Result]]:
    """The place and the result of each piece, in the order in which they end; one worker is this process.

    Raises:
        ReasonloopError: the system killed a worker.
    """
    workers = min(workers, len(pieces))
    if workers <= 1:
        yield from enumerate(map(function, pieces))
        return
    # A forked process would inherit the threads of this one.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_end_with_parent) as pool:
        places = {pool.submit(function, piece): place for place, piece in enumerate(pieces)}
        try:
            for future in as_completed(places):
                yield places[future], future.result()
        except BrokenProcessPool as error:
            raise ReasonloopError(
                f"one of {workers} worker processes was killed, most likely for want of memory; lower "
                "execution.workers, and run the same command again: it goes on where it was"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    """A worker that waits for work holds the queue open, so that it would outlive a parent that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
