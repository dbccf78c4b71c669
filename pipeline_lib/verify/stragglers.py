"""Slots of a worker pool: a straggler frees its slot, so that it does not delay other items.

Used by the pools `math.workers.pool` and `code.pool`, which own the processes.
"""

import math
from collections.abc import Collection

STRAGGLER_AFTER_S = 0.25
"""An item that runs longer is a straggler: about ten times an ordinary item (20 ms), a tenth of the
shortest usual deadline (2 s)."""
MAX_STRAGGLERS = 4
"""Stragglers that may run besides ``num_workers`` other items. Bounded, because they share cores
and memory: ``num_workers + MAX_STRAGGLERS`` processes, each with its own memory limit."""


def seconds_to_slot(started_s: Collection[float], *, num_workers: int, now_s: float) -> float:
    """Seconds until the next item may start if no running item ends before.

    Args:
        started_s: start time of each running item.
        num_workers: number of items that may run at once without stragglers, at least 1.
        now_s: current time, by the same clock.

    Returns:
        0.0 if a slot is free; infinity if only the end of an item frees one.
    """
    if len(started_s) < num_workers:
        return 0.0
    if len(started_s) >= num_workers + MAX_STRAGGLERS:
        return math.inf
    # When this item becomes a straggler, fewer than num_workers other items are running.
    deciding = sorted(started_s, reverse=True)[num_workers - 1]
    return max(0.0, deciding + STRAGGLER_AFTER_S - now_s)
