"""Workers side by side: a slow item is passed by the others, within a bound, and all is put away."""

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.killable.pool import MAX_STRAGGLERS, STRAGGLER_AFTER_S, Pool, seconds_to_slot

NOW = 100.0
STEP = 1e-6
STARTS = st.lists(st.floats(NOW - 3 * STRAGGLER_AFTER_S, NOW), max_size=12)
WORKERS = st.integers(1, 4)
GIVE_UP_S = 60.0
"""A test that hangs fails by then."""


class Ends:
    """Items in order of their end, and the most that ran at once."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.most_at_work = 0
        self._num_at_work = 0
        self._changed = threading.Condition()

    def run(self, item: str) -> bool:
        """``after N`` ends when N others have, ``with N`` when N run at once and no more come."""
        how, _, number = item.partition(" ")
        with self._changed:
            self._num_at_work += 1
            self.most_at_work = max(self.most_at_work, self._num_at_work)
            self._changed.notify_all()
            met = True
            if how == "after":
                met = self._changed.wait_for(lambda: len(self.order) >= int(number), GIVE_UP_S)
            if how == "with":
                met = self._changed.wait_for(lambda: self.most_at_work >= int(number), GIVE_UP_S)
                self._changed.wait_for(
                    lambda: self.most_at_work > int(number), 3 * STRAGGLER_AFTER_S
                )
            self._num_at_work -= 1
            self.order.append(item)
            self._changed.notify_all()
        return met


class WaitingWorker:
    """Its items name the condition that they wait for, and have no answer if it never holds."""

    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self.closed = False

    def answer(self, item):
        if item == "raises":
            raise ZeroDivisionError
        return item if self.ends.run(item) else None

    def close(self):
        self.closed = True


def pool_of(ends, opened, *, num_workers, first=None):
    def open_worker():
        opened.append(WaitingWorker(ends))
        return opened[-1]

    return Pool(open_worker, num_workers=num_workers, first=first)


@pytest.mark.parametrize("num_slow", [1, MAX_STRAGGLERS])
def test_slow_items_are_passed_by_all_others(num_slow):
    """The first ones end only after the 20 behind them have; one worker, and none of them hangs."""
    ends = Ends()
    items = [*["after 20"] * num_slow, *["quick"] * 20]
    with pool_of(ends, [], num_workers=1) as pool:
        assert pool.judge(items) == items
    assert ends.order[:20] == ["quick"] * 20


@pytest.mark.parametrize("num_workers", [1, 2])
def test_no_more_items_at_once_than_the_bound(num_workers):
    """More slow items than places: the bound is reached, never passed, and all are answered."""
    ends, opened = Ends(), []
    bound = num_workers + MAX_STRAGGLERS
    items = [f"with {bound}"] * (bound + 3)
    with pool_of(ends, opened, num_workers=num_workers, first=WaitingWorker(ends)) as pool:
        assert pool.judge(items) == items
    assert ends.most_at_work == bound
    assert len(opened) == bound - 1
    assert all(worker.closed for worker in opened)


def test_answers_are_in_the_order_of_the_items():
    """Items end in any order; each answer belongs to its own item, and an empty batch has none."""
    ends, first = Ends(), WaitingWorker(Ends())
    items = ["after 8", "a", "after 4", "b", "c", "d", "after 6", "e", "f"]
    with pool_of(ends, [], num_workers=2) as pool:
        assert pool.judge(items) == items
    assert ends.order != items
    with pool_of(ends, [], num_workers=2, first=first) as pool:
        assert pool.judge([]) == []
    assert first.closed


def test_no_room_for_another_worker_is_no_loss():
    """If no second worker can be opened, the first one answers everything in sequence."""
    ends = Ends()

    def refused():
        raise ReasonloopError("no memory")

    with Pool(refused, num_workers=2, first=WaitingWorker(ends)) as pool:
        assert pool.judge(["a", "b", "c", "d"]) == ["a", "b", "c", "d"]
    assert ends.most_at_work == 1


def test_an_exception_of_a_worker_ends_the_batch():
    """No further item is begun, and the next batch has its own answers."""
    ends = Ends()
    with pool_of(ends, [], num_workers=1) as pool:
        with pytest.raises(ZeroDivisionError):
            pool.judge(["a", "raises", *["b"] * 100])
        assert ends.order.count("b") <= 1
        assert pool.judge(["c", "d"]) == ["c", "d"]


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
