"""Single completions that are awaited: the seam between programs of many dependent calls and engines.

A `ChatModel` draws many completions in one blocking call. Here each call has its own task, limit and
stop strings, joins what the engine is drawing, and is cancelled with its task.
"""

from dataclasses import dataclass
from typing import Protocol

from pipeline_lib.engines.chat_model import Completion, Decoding, Request
from pipeline_lib.engines.client.session import Session


class SingleDraws(Protocol):
    """An engine that draws one completion per call; any number of calls may be open."""

    @property
    def names_stops(self) -> bool:
        """False: `Completion.stopped_by` is never set, so a stop string and an end token look alike."""
        ...

    async def draw(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        """One completion of a rendered prompt; a failed one has an error."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointDraws:
    """Implements SingleDraws on the open connections to a server, which stops drawing what is cancelled."""

    session: Session

    @property
    def names_stops(self) -> bool:
        """As the server's dialect says; False for servers that are not known."""
        return self.session.dialect.names_stops

    async def draw(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        """One completion.

        Raises:
            BadInputError: the model is not served any more.
            EngineDownError: the server has not answered for ``serve.start_timeout_s``.
        """
        [drawn] = await self.session.draw(Request(prompt=prompt, seeds=[seed]), decoding)
        return drawn
