"""The wait for an engine that does not answer: one request polls it on behalf of all."""

import asyncio
import time
from dataclasses import dataclass, field

from openai import AsyncOpenAI

from pipeline_lib.engines.client.connection import Connection


@dataclass(slots=True, kw_only=True)
class Outage:
    """Since when an engine has not answered.

    Patience is counted from the first failure, so that requests which come later, or have waited for
    others, do not wait the whole time again.
    """

    connection: Connection
    client: AsyncOpenAI
    retries: int = 0
    """Requests that were sent once more after a restart."""
    _since: float | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def admit(self) -> None:
        """Return unless patience with the engine has ended; then one probe instead of a request's retries."""
        if self._since is not None and self._patience_s == 0:
            await self.probe(patience_s=0.0)

    async def wait(self) -> None:
        """Return once the engine lists its model again, after a request failed.

        Raises:
            BadInputError: the server refuses the request or does not serve the model.
            EngineDownError: it has not answered for ``serve.start_timeout_s``.
        """
        self._since = self._since or time.monotonic()
        async with self._lock:
            await self.probe(patience_s=self._patience_s)
        self.retries += 1

    async def probe(self, *, patience_s: float) -> None:
        """Return once the engine lists its model; as `wait`, within ``patience_s``."""
        await self.connection.await_model(self.client, patience_s=patience_s)
        self.end()

    @property
    def _patience_s(self) -> float:
        """Remaining seconds until a request fails at once."""
        now = time.monotonic()
        return max(0.0, self.connection.serve.start_timeout_s - (now - (self._since or now)))

    def end(self) -> None:
        """The engine has answered."""
        self._since = None
