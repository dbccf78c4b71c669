"""A function that is called again and again beside a block."""

import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def polled(refresh: Callable[[], None], *, poll_s: float) -> Iterator[None]:
    """Call ``refresh`` every ``poll_s`` seconds in a thread, and once more after the block.

    The thread has a copy of the caller's context, which holds Prefect's current run.
    """
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(poll_s):
            refresh()

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(poll,), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        refresh()
