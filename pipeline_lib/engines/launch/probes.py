"""An engine seen from outside: HTTP probes, its port, readiness after a start, and hangs.

A completed one-token request proves that the engine works. A pending one proves nothing, since it
may wait in a long queue; but an engine with a queue draws tokens, so its counters move. An engine
hangs when neither has happened for `serve.hang_timeout_s`. (SGLang's health route replaces the
request: its scheduler answers it between two steps.)

Work that draws no token for longer, like the prefill of a very long prompt on a CPU or the loading
of a very large adapter, looks like a hang: `serve.hang_timeout_s` must exceed it.
"""

import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import psutil

from pipeline_lib.engines.known.engine import HOST, ServedModel
from pipeline_lib.engines.launch.process import EngineProcess
from pipeline_lib.errors import ReasonloopError

_PROMPT = "1"
_QUICK_S = 5.0


class NoAnswerError(Exception):
    """No response, or an unusable one."""


class RefusedError(NoAnswerError):
    """The server responded with an error status."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """Probes of one OpenAI-compatible server. Every failure is a NoAnswerError."""

    base_url: str
    """With the version, as in ``http://127.0.0.1:8300/v1``."""
    headers: Mapping[str, str] = field(default_factory=dict)
    through_proxy: bool = False
    """Use the proxy of the environment; never for an engine on this machine."""

    @property
    def root_url(self) -> str:
        """The address without the version, for metrics and SGLang's own routes."""
        return self.base_url.rstrip("/").removesuffix("/v1")

    def masked(self, error: NoAnswerError) -> str:
        """The message of an error without the API key."""
        key = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return str(error).replace(key, "***") if key else str(error)

    def models(self) -> list[str]:
        """Model names that requests may use now, adapters included."""
        answer = self._send("GET", f"{self.base_url}/models", timeout_s=_QUICK_S)
        try:
            return [str(model["id"]) for model in answer.json()["data"]]
        except (ValueError, KeyError, TypeError) as error:
            raise NoAnswerError(f"{self.base_url}/models: no list of models") from error

    def draw_token(self, model: str, *, timeout_s: float, by_chat: bool = False) -> None:
        """Draw one token: the only proof that an engine works.

        Servers were seen to list their models, and to report health, while the process that
        computes was dead. Servers with the chat route alone need ``by_chat``.
        """
        route = "chat/completions" if by_chat else "completions"
        prompt: Mapping[str, Any] = {"prompt": _PROMPT}
        if by_chat:
            prompt = {"messages": [{"role": "user", "content": _PROMPT}]}
        body = {"model": model, **prompt, "max_tokens": 1, "temperature": 0}
        answer = self._send("POST", f"{self.base_url}/{route}", body=body, timeout_s=timeout_s)
        try:
            drawn = answer.json()["usage"]["completion_tokens"]
        except (ValueError, KeyError, TypeError) as error:
            raise NoAnswerError(f"{self.base_url}/{route}: no count of tokens") from error
        if drawn != 1:
            raise NoAnswerError(f"{self.base_url}/{route}: {drawn} tokens; 1 was requested")

    def tokens_so_far(self, *, timeout_s: float) -> float | None:
        """The sum of all token counters in /metrics; None without any.

        Only changes are meaningful: one counter may include another.
        """
        try:
            text = self._send("GET", f"{self.root_url}/metrics", timeout_s=timeout_s).text
        except NoAnswerError:
            return None
        counts = [
            float(value)
            for name, _, value in (line.rpartition(" ") for line in text.splitlines())
            if "tokens_total" in name and not name.startswith("#")
        ]
        return sum(counts) if counts else None

    def check_health(self, path: str, *, timeout_s: float) -> None:
        """Request a route that answers 200 only while the engine computes."""
        self._send("GET", f"{self.root_url}{path}", timeout_s=timeout_s)

    def post(self, path: str, body: Mapping[str, Any], *, timeout_s: float) -> httpx.Response:
        """The response to a command; an error holds the server's own message."""
        return self._send("POST", f"{self.root_url}{path}", body=body, timeout_s=timeout_s)

    def _send(
        self, method: str, url: str, *, timeout_s: float, body: Mapping[str, Any] | None = None
    ) -> httpx.Response:
        try:
            answer = httpx.request(
                method,
                url,
                json=body,
                headers=dict(self.headers),
                timeout=timeout_s,
                trust_env=self.through_proxy,
            )
        except httpx.HTTPError as error:
            raise NoAnswerError(f"{url}: {str(error) or type(error).__name__}") from error
        if answer.status_code != httpx.codes.OK:
            message = " ".join(answer.text.split())[:500]
            raise RefusedError(
                f"{url}: status {answer.status_code}: {message}", status=answer.status_code
            )
        return answer


_PORTS_TRIED = 200


def lease_port(first: int) -> tuple[int, socket.socket]:
    """The first free port from ``first`` on, reserved against other runs until the socket closes or this process ends.

    An engine needs seconds until it binds its port, and vLLM binds with SO_REUSEPORT: two of them on one
    port would share it, and receive each other's requests.

    Raises:
        ReasonloopError: the next 200 ports are all in use.
    """
    end = min(first + _PORTS_TRIED, 65536)
    for port in range(first, end):
        # Linux's abstract namespace: the kernel frees the name with the process, without files in /tmp.
        lease = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with suppress(OSError):
            lease.bind(f"\0reasonloop/engine-port/{port}")
            if is_free(port):
                return port, lease
        lease.close()
    raise ReasonloopError(
        f"ports {first} to {end - 1} of {HOST} are all in use; set serve.port to a free one"
    )


def is_free(port: int) -> bool:
    """True if a server could bind the port now."""
    with socket.socket() as probe, suppress(OSError):
        # As servers do: recently closed connections do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
        return True
    return False


def listening_pids(port: int) -> frozenset[int | None]:
    """Ids of the processes that listen on the port; None for a process of another user."""
    return frozenset(
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr[1:2] == (port,)
    )


_POLL_S = 0.25


class PortTakenError(ReasonloopError):
    """Another process took the port while the engine was starting."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} was taken by another process")


class StartCancelledError(Exception):
    """The engine was stopped while it was starting."""


def local_probes(port: int) -> Probes:
    """Probes of an engine on this machine."""
    return Probes(base_url=f"http://{HOST}:{port}/v1")


def wait_until_ready(
    process: EngineProcess, served: ServedModel, *, timeout_s: float, stopping: threading.Event
) -> None:
    """Wait until the engine lists its model and draws a token with it.

    Raises:
        PortTakenError: another process listens on the port, or did when the engine tried to bind.
        ReasonloopError: the engine ended, or is not ready in time; with the end of its log.
        StartCancelledError: ``stopping`` was set.
    """
    deadline = time.monotonic() + timeout_s
    reason: str | None = "it was not probed"
    while (left_s := deadline - time.monotonic()) > 0:
        if stopping.wait(_POLL_S):
            raise StartCancelledError
        if process.exit_code is not None:
            if not is_free(served.port):
                raise PortTakenError(served.port)
            raise ReasonloopError(f"{process.engine}, before it answered, {process.exit_summary}")
        reason = _unready_reason(process, served, left_s)
        if reason is None:
            return
    raise ReasonloopError(
        f"{process.engine} does not work {timeout_s:g} s after its start "
        f"(serve.start_timeout_s): {reason}; its log ends: {process.log_tail()}"
    )


def _unready_reason(process: EngineProcess, served: ServedModel, left_s: float) -> str | None:
    listeners = listening_pids(served.port)
    if not listeners:
        return f"nothing listens on port {served.port}"
    # vLLM binds with SO_REUSEPORT: another listener would receive a share of its requests.
    if not listeners <= {child.pid for child in process.processes}:
        raise PortTakenError(served.port)
    probes = local_probes(served.port)
    try:
        if served.name not in (listed := probes.models()):
            return f"it serves {', '.join(listed)} and not {served.name}"
        probes.draw_token(served.name, timeout_s=left_s)
    except NoAnswerError as error:
        return str(error)
    return None


_MAX_POLL_S = 3.0
_POLLS = 10
"""Polls per hang timeout, at least."""


@dataclass
class Watchdog:
    """Watches one start of an engine, from the moment that it was ready."""

    probes: Probes
    model: str
    health_route: str | None = field(kw_only=True)
    hang_timeout_s: float = field(kw_only=True)
    clock: Callable[[], float] = time.monotonic
    _tokens: float | None = None
    _silent_s: float = 0.0
    _probe: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.poll_s = min(_MAX_POLL_S, self.hang_timeout_s / _POLLS)
        self._last_poll = self.clock()

    def poll(self) -> None:
        """Look for progress, if a poll is due."""
        now = self.clock()
        if now < self._last_poll + self.poll_s:
            return
        # A pause of this process itself (SIGSTOP, suspend) must not count against the engine.
        self._silent_s += min(now - self._last_poll, 3 * self.poll_s)
        self._last_poll = now
        tokens = self.probes.tokens_so_far(timeout_s=self.poll_s)
        if tokens is not None and tokens != self._tokens:
            self._tokens = tokens
            self._silent_s = 0.0
        elif self._probe is None or not self._probe.is_alive():
            self._probe = threading.Thread(target=self._request, name="engine-probe", daemon=True)
            self._probe.start()

    def _request(self) -> None:
        try:
            if self.health_route:
                self.probes.check_health(self.health_route, timeout_s=self.hang_timeout_s)
            else:
                self.probes.draw_token(self.model, timeout_s=self.hang_timeout_s)
        except NoAnswerError:
            return
        self._silent_s = 0.0

    @property
    def is_hung(self) -> bool:
        """True if the silence will reach the timeout before the next poll."""
        return self._silent_s > self.hang_timeout_s - 2 * self.poll_s
