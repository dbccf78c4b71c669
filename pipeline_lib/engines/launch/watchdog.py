"""Hang detection: distinguishes a busy engine from a hung one.

A completed one-token request proves that the engine works. A pending one proves nothing, since it
may wait in a long queue; but an engine with a queue draws tokens, so its counters move. An engine
hangs when neither has happened for `serve.hang_timeout_s`. (SGLang's health route replaces the
request: its scheduler answers it between two steps.)

Work that draws no token for longer, like the prefill of a very long prompt on a CPU or the loading
of a very large adapter, looks like a hang: `serve.hang_timeout_s` must exceed it.
"""

import threading
import time
from collections.abc import Callable

from pipeline_lib.engines.launch.probes import NoAnswerError, Probes

_MAX_POLL_S = 3.0
_POLLS = 10
"""Polls per hang timeout, at least."""


class Watchdog:
    """Watches one start of an engine, from the moment that it was ready."""

    def __init__(
        self,
        probes: Probes,
        model: str,
        *,
        health_route: str | None,
        hang_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._probes = probes
        self._model = model
        self._health_route = health_route
        self._hang_timeout_s = hang_timeout_s
        self.poll_s = min(_MAX_POLL_S, hang_timeout_s / _POLLS)
        """Interval of polls, and the timeout of reading the counters."""
        self._tokens: float | None = None
        self._silent_s = 0.0
        self._clock = clock
        self._last_poll = clock()
        self._probe: threading.Thread | None = None

    def poll(self) -> None:
        """Look for progress, if a poll is due."""
        now = self._clock()
        if now < self._last_poll + self.poll_s:
            return
        # A pause of this process itself (SIGSTOP, suspend) must not count against the engine.
        self._silent_s += min(now - self._last_poll, 3 * self.poll_s)
        self._last_poll = now
        tokens = self._probes.tokens_so_far(timeout_s=self.poll_s)
        if tokens is not None and tokens != self._tokens:
            self._tokens = tokens
            self._silent_s = 0.0
        elif self._probe is None or not self._probe.is_alive():
            self._probe = threading.Thread(target=self._request, name="engine-probe", daemon=True)
            self._probe.start()

    def _request(self) -> None:
        try:
            if self._health_route:
                self._probes.check_health(self._health_route, timeout_s=self._hang_timeout_s)
            else:
                self._probes.draw_token(self._model, timeout_s=self._hang_timeout_s)
        except NoAnswerError:
            return
        self._silent_s = 0.0

    @property
    def is_hung(self) -> bool:
        """True if the silence will reach the timeout before the next poll."""
        return self._silent_s > self._hang_timeout_s - 2 * self.poll_s
