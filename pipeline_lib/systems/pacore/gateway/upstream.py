"""The interface of the gateway to an engine's server or a pool of workers."""

from typing import Protocol

from pipeline_lib.engines.chat_model import Completion, Decoding, Request
from pipeline_lib.engines.client.session import OnDrawn, ignore_drawn
from pipeline_lib.engines.client.stream_parsing import OnDelta


class Upstream(Protocol):
    """Concurrent calls in one event loop; a call that fails is a completion with an error."""

    @property
    def retries(self) -> int:
        """Calls that were sent once more, after a restart or to another worker."""
        ...

    async def draw(
        self, request: Request, decoding: Decoding, on_drawn: OnDrawn = ignore_drawn
    ) -> list[Completion]:
        """The completions of a request, in the order of its seeds.

        Raises:
            BadInputError: the model is not served any more.
            EngineDownError: there was no answer, and no worker, for ``serve.start_timeout_s``.
        """
        ...

    async def stream(self, request: Request, decoding: Decoding, on_delta: OnDelta) -> Completion:
        """The completion of a request with one seed; its text goes to ``on_delta`` as it comes.

        Raises:
            BadInputError: as `draw`.
            EngineDownError: as `draw`.
        """
        ...

    async def check(self) -> None:
        """Return if a call would be answered now.

        Raises:
            BadInputError: as `draw`.
            EngineDownError: it would not.
        """
        ...
