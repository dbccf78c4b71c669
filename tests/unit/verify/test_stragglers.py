"""Slots of a pool, against a literal implementation of the rule."""

import math

from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.verify.stragglers import MAX_STRAGGLERS, STRAGGLER_AFTER_S, seconds_to_slot

NOW = 100.0
STEP = 1e-6
STARTS = st.lists(st.floats(NOW - 3 * STRAGGLER_AFTER_S, NOW), max_size=12)
WORKERS = st.integers(1, 4)


def has_room(started_s, num_workers, at_s):
    """Fewer than ``num_workers`` items are not slow, and not all places are taken."""
    prompt = [start for start in started_s if at_s - start < STRAGGLER_AFTER_S]
    return len(prompt) < num_workers and len(started_s) < num_workers + MAX_STRAGGLERS


@given(STARTS, WORKERS)
def test_room_comes_then_and_not_before(started_s, num_workers):
    """At the returned time there is room, and just before there is none; infinity means never."""
    wait_s = seconds_to_slot(started_s, num_workers=num_workers, now_s=NOW)
    if math.isinf(wait_s):
        assert not has_room(started_s, num_workers, NOW + 1000 * STRAGGLER_AFTER_S)
        return
    assert has_room(started_s, num_workers, NOW + wait_s + STEP)
    if wait_s > STEP:
        assert not has_room(started_s, num_workers, NOW + wait_s - STEP)


@given(WORKERS)
def test_no_more_than_the_bound(num_workers):
    """However slow all of them are, the bound is the number of workers and the slow ones."""
    long_ago = [NOW - 1000.0] * (num_workers + MAX_STRAGGLERS - 1)
    assert seconds_to_slot(long_ago, num_workers=num_workers, now_s=NOW) == 0
    full = [*long_ago, NOW - 1000.0]
    assert math.isinf(seconds_to_slot(full, num_workers=num_workers, now_s=NOW))
