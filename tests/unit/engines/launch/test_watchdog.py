"""The poll at which an engine counts as hung, with a simulated clock.

With a hang timeout of 5 s a poll is due every 0.5 s, and an engine hangs after more than
5 - 2 x 0.5 = 4 s of silence.
"""

import threading

import pytest

from pipeline_lib.engines.known.sglang import SGLANG
from pipeline_lib.engines.launch.probes import NoAnswerError, Watchdog


class Clock:
    """Advances only between two polls."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class ScriptedProbes:
    """A fake engine: its token counter, and its responses to requests for a token."""

    def __init__(self, *, draws: bool, counts: bool = True, moves: bool = False) -> None:
        self.draws = draws
        self.counts = counts
        self.moves = moves
        self.polls = 0
        self.asked: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def tokens_so_far(self, *, timeout_s: float) -> float | None:  # noqa: ARG002
        self.polls += 1
        return (float(self.polls) if self.moves else 7.0) if self.counts else None

    def draw_token(self, model: str, *, timeout_s: float) -> None:  # noqa: ARG002
        self._answer(model)

    def check_health(self, path: str, *, timeout_s: float) -> None:  # noqa: ARG002
        self._answer(path)

    def _answer(self, what: str) -> None:
        self.asked.append(what)
        self.may_answer.wait()
        if not self.draws:
            raise NoAnswerError(what)


def hung_after(
    probes: ScriptedProbes, *, times: int, step_s: float = 0.5, health_route: str | None = None
) -> list[bool]:
    """For each poll, True if the engine is hung after the response to the poll's request."""
    clock = Clock()
    watchdog = Watchdog(
        probes, "policy", health_route=health_route, hang_timeout_s=5.0, clock=clock
    )
    found = []
    for _ in range(times):
        clock.now += step_s
        watchdog.poll()
        if watchdog._probe is not None and probes.may_answer.is_set():
            watchdog._probe.join()
        found.append(watchdog.is_hung)
    return found


def test_an_engine_with_a_moving_counter_is_busy():
    """Requests get no response, as behind an endless queue, for five hang timeouts."""
    assert not any(hung_after(ScriptedProbes(draws=False, moves=True), times=50))


def test_an_engine_that_draws_a_requested_token_is_idle():
    """Its counter does not move, since there are no other requests."""
    assert not any(hung_after(ScriptedProbes(draws=True), times=50))
    assert not any(hung_after(ScriptedProbes(draws=True, counts=False), times=50))


@pytest.mark.parametrize(("counts", "first"), [(True, 10), (False, 9)])
def test_silence_is_a_hang(counts, first):
    """The 9th poll without progress, at 4.5 s, is the first above 4 s; a first counter value is progress."""
    found = hung_after(ScriptedProbes(draws=False, counts=counts), times=12)
    assert found.index(True) + 1 == first
    assert all(found[first - 1 :])


def test_a_pending_request_is_not_progress():
    """It is not repeated while it is pending, and the silence continues."""
    probes = ScriptedProbes(draws=True)
    probes.may_answer.clear()
    assert hung_after(probes, times=10)[-1]
    assert probes.asked == ["policy"]
    probes.may_answer.set()


def test_a_pause_between_polls_counts_for_little():
    """An hour between two polls counts as 1.5 s of silence: two pauses are below 4 s, three above."""
    silent = ScriptedProbes(draws=False, counts=False)
    assert hung_after(silent, times=3, step_s=3600.0) == [False, False, True]


def test_nothing_is_requested_before_a_poll_is_due():
    """Four calls 0.2 s apart make one poll, at 0.6 s."""
    probes = ScriptedProbes(draws=True)
    hung_after(probes, times=4, step_s=0.2)
    assert probes.polls == 1


def test_a_health_route_replaces_the_token():
    """SGLang's scheduler serves it whatever its queue."""
    probes = ScriptedProbes(draws=True)
    assert not any(hung_after(probes, times=12, health_route=SGLANG.health_route))
    assert set(probes.asked) == {"/health_generate"}
