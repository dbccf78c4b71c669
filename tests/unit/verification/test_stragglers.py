"""The rule of the slow lane, against the words that it is told in."""

import math

from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.verification.stragglers import MAX_SLOW, PATIENCE_S, seconds_to_room

NOW = 100.0
STEP = 1e-6
STARTS = st.lists(st.floats(NOW - 3 * PATIENCE_S, NOW), max_size=12)
WORKERS = st.integers(1, 4)


def has_room(started_s, num_workers, at_s):
    """Fewer than ``num_workers`` items are not slow, and not all places are taken."""
    prompt = [start for start in started_s if at_s - start < PATIENCE_S]
    return len(prompt) < num_workers and len(started_s) < num_workers + MAX_SLOW


@given(STARTS, WORKERS)
def test_room_comes_then_and_not_before(started_s, num_workers):
    """At the time that is told there is room, just before there is none; infinity means never."""
    told = seconds_to_room(started_s, num_workers=num_workers, now_s=NOW)
    if math.isinf(told):
        assert not has_room(started_s, num_workers, NOW + 1000 * PATIENCE_S)
        return
    assert has_room(started_s, num_workers, NOW + told + STEP)
    if told > STEP:
        assert not has_room(started_s, num_workers, NOW + told - STEP)


@given(WORKERS)
def test_no_more_than_the_bound(num_workers):
    """However slow all of them are, the bound is the number of workers and the slow ones."""
    long_ago = [NOW - 1000.0] * (num_workers + MAX_SLOW - 1)
    assert seconds_to_room(long_ago, num_workers=num_workers, now_s=NOW) == 0
    full = [*long_ago, NOW - 1000.0]
    assert math.isinf(seconds_to_room(full, num_workers=num_workers, now_s=NOW))
