"""Middleware against cross-site requests from browsers: checks Host and Origin.

By DNS rebinding a web page can make its own name resolve to 127.0.0.1 and is then of the same
origin as a local server; only ``Host`` reveals it. ``Origin`` reveals other cross-site requests.
Clients other than browsers can forge both, so this is not authentication.

Engines in another environment import this folder by PYTHONPATH, so it imports nothing of the
project.
"""

import ipaddress
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(:[0-9]{1,5})?")
_ORIGIN = re.compile(r"https?://(.{1,300})")
_POLICY_VIOLATION = 1008


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """Accepted host names, besides localhost and loopback addresses."""

    names: frozenset[str] = frozenset()
    """In lower case."""
    any_address: bool = False
    """Accept any IP address, for a server on all interfaces: rebinding needs a name."""

    def allow(self, authority: str) -> bool:
        """True if ``name`` or ``name:port`` is accepted."""
        found = _HOST.fullmatch(authority.strip().lower())
        if found is None:
            return False
        name = found[1].strip("[]").removesuffix(".")
        if name == "localhost" or name in self.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return self.any_address or address.is_loopback


class HostGuard:
    """ASGI middleware: 403 where Host or Origin names anything but ``hosts``."""

    def __init__(self, app: App, hosts: Hosts | None = None) -> None:
        self._app = app
        self._hosts = hosts or Hosts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass allowed requests on."""
        if scope["type"] == "lifespan" or (problem := self._problem(scope)) is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            await _refuse(problem, send)

    def _problem(self, scope: Scope) -> str | None:
        """The header that is refused and the remedy, or None."""
        sent = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in sent if name == b"host"]
        origins = [value for name, value in sent if name == b"origin"]
        if len(hosts) != 1 or not self._hosts.allow(hosts[0]):
            return "Host: this name is not allowed; use 127.0.0.1, or allow the name"
        for origin in origins:
            found = _ORIGIN.fullmatch(origin.lower())
            if found is None or not self._hosts.allow(found[1]):
                return "Origin: requests from other sites are refused"
        return None


async def _refuse(problem: str, send: Send) -> None:
    error = {"message": problem, "type": "invalid_request_error", "param": None, "code": None}
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
