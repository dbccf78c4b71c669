"""How many items are judged at once: a slow one gives up its place, so it holds nobody back.

The pools, `math.workers.pool` and `code.pool`, own the processes and the work.
"""

import math
from collections.abc import Collection

PATIENCE_S = 0.25
"""An item that runs for longer is slow: ten times what ordinary ones take (20 ms), a tenth of what
the shortest usual deadline lets it take (2 s)."""
MAX_SLOW = 4
"""So many slow items run beside the others. They share cores and memory with them, so there is a
bound: ``num_workers + MAX_SLOW`` processes, each within its own memory limit."""


def seconds_to_room(started_s: Collection[float], *, num_workers: int, now_s: float) -> float:
    """When the next item may start if none of the running ones ends before.

    Args:
        started_s: when each running item was started.
        num_workers: how many items that are not slow may run at once, at least 1.
        now_s: the time, by the same clock.

    Returns:
        0.0 for now; infinity if only the end of an item makes room.
    """
    if len(started_s) < num_workers:
        return 0.0
    if len(started_s) >= num_workers + MAX_SLOW:
        return math.inf
    # Once this one is slow, fewer than num_workers of the running items are not.
    deciding = sorted(started_s, reverse=True)[num_workers - 1]
    return max(0.0, deciding + PATIENCE_S - now_s)
