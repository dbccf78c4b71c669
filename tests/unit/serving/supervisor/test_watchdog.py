"""When an engine counts as hung, to the poll, by a simulated clock.

With a hang timeout of 5 s a poll is due every 0.5 s, and an engine hangs after more than
5 - 2 x 0.5 = 4 s of silence.
"""

import threading

import pytest

from pipeline_lib.serving.engines.sglang import SGLANG
from pipeline_lib.serving.supervisor.probes import NoAnswerError
from pipeline_lib.serving.supervisor.watchdog import Watchdog


class Clock:
    """Advances only between two polls."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class ScriptedProbes:
    """Stands in for an engine: its counter, and whether it draws a token when it is asked."""

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
    """Whether the engine is hung after each poll, once the poll's request is answered."""
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


def test_an_engine_whose_counter_moves_is_busy():
    """It answers no request, as behind an endless queue, for five hang timeouts."""
    assert not any(hung_after(ScriptedProbes(draws=False, moves=True), times=50))


def test_an_engine_that_draws_when_asked_is_idle():
    """Its counter does not move, since there are no requests."""
    assert not any(hung_after(ScriptedProbes(draws=True), times=50))
    assert not any(hung_after(ScriptedProbes(draws=True, counts=False), times=50))


@pytest.mark.parametrize(("counts", "first"), [(True, 10), (False, 9)])
def test_silence_is_a_hang(counts, first):
    """The first value of a counter is a sign of life; then 9 polls are 4.5 s, the first above 4."""
    found = hung_after(ScriptedProbes(draws=False, counts=counts), times=12)
    assert found.index(True) + 1 == first
    assert all(found[first - 1 :])


def test_a_request_that_waits_is_no_sign_of_life():
    """It is not repeated while it waits, and the silence goes on."""
    probes = ScriptedProbes(draws=True)
    probes.may_answer.clear()
    assert hung_after(probes, times=10)[-1]
    assert probes.asked == ["policy"]
    probes.may_answer.set()


def test_a_pause_between_polls_counts_for_little():
    """An hour between two polls is 1.5 s of silence: two of them are not 4 s, three are."""
    silent = ScriptedProbes(draws=False, counts=False)
    assert hung_after(silent, times=3, step_s=3600.0) == [False, False, True]


def test_nothing_is_requested_before_a_poll_is_due():
    """Four calls 0.2 s apart are one poll, at 0.6 s."""
    probes = ScriptedProbes(draws=True)
    hung_after(probes, times=4, step_s=0.2)
    assert probes.polls == 1


def test_a_health_route_is_asked_instead_of_a_token():
    """SGLang's scheduler answers there whatever waits in its queue."""
    probes = ScriptedProbes(draws=True)
    assert not any(hung_after(probes, times=12, health_route=SGLANG.health_route))
    assert set(probes.asked) == {"/health_generate"}
