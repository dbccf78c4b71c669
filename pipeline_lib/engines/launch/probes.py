"""HTTP probes of a running engine: models, one token, token counters, health."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

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

    def post(self, path: str, body: Mapping[str, Any], *, timeout_s: float) -> None:
        """Send a command; the error holds the server's own message."""
        self._send("POST", f"{self.root_url}{path}", body=body, timeout_s=timeout_s)

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
