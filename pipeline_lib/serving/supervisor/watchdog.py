"""Whether a running engine still computes: what tells a busy one from one that hangs.

A completion of one token that comes back is a sign of life. That it does *not* come back proves
nothing: behind a long queue it waits its turn. But an engine with a queue draws tokens, so its
counters move. An engine hangs when for `hang_timeout_s` neither has happened. (SGLang has a route
for the same question, which its scheduler's next message answers.)

What draws no token for so long and yet works, like the prefill of a very long prompt on a CPU or
the loading of a very large adapter, cannot be told from a hang: `serve.hang_timeout_s` must be
above it.
"""

import threading
import time
from collections.abc import Callable

from pipeline_lib.serving.supervisor.probes import NoAnswerError, Probes

_SLOWEST_LOOK_S = 3.0
_LOOKS = 10
"""Looks per hang timeout, or more."""


class Pulse:
    """The signs of life of one start of an engine, from the moment that it was ready."""

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
        self.look_s = min(_SLOWEST_LOOK_S, hang_timeout_s / _LOOKS)
        """The time from one look to the next, and the longest that a look takes."""
        self._tokens: float | None = None
        self._silent_s = 0.0
        self._clock = clock
        self._last_look = clock()
        self._probe: threading.Thread | None = None

    def look(self) -> None:
        """Look for signs of life, if it is time to."""
        now = self._clock()
        if now < self._last_look + self.look_s:
            return
        # Time in which nobody looked, as when this process itself was stopped, accuses nobody.
        self._silent_s += min(now - self._last_look, 3 * self.look_s)
        self._last_look = now
        tokens = self._probes.tokens_so_far(timeout_s=self.look_s)
        if tokens is not None and tokens != self._tokens:
            self._tokens = tokens
            self._silent_s = 0.0
        elif self._probe is None or not self._probe.is_alive():
            self._probe = threading.Thread(target=self._ask, name="engine-probe", daemon=True)
            self._probe.start()

    def _ask(self) -> None:
        try:
            if self._health_route:
                self._probes.healthy(self._health_route, timeout_s=self._hang_timeout_s)
            else:
                self._probes.one_token(self._model, timeout_s=self._hang_timeout_s)
        except NoAnswerError:
            return
        self._silent_s = 0.0

    @property
    def hangs(self) -> bool:
        """Whether the engine must be taken for hung; early enough, as the next look is too late."""
        return self._silent_s > self._hang_timeout_s - 2 * self.look_s
