"""Draws of one model: in process, or at a server that already runs."""

import asyncio
import functools
import pathlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.client.client import OpenAIModel
from pipeline_lib.engines.client.session import EndpointDraws, SingleDraws
from pipeline_lib.engines.embedded.draws import WaveDraws, open_live
from pipeline_lib.engines.embedded.embedded_engine import shared_engine
from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.engines.running_engine import attach
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.systems.apr.countdown.grammar import CountdownGrammar
from pipeline_lib.systems.apr.model_record import ThreadModelRecord
from pipeline_lib.systems.apr.runtime import Runtime, TextTokens

_BATCH = 64
"""Sequences decoded together in process."""
_NO_BOUND = 1 << 30
"""In process a wave has all draws that can be made; the engine bounds its batch."""


@dataclass(frozen=True, kw_only=True)
class ThreadModel:
    """A model's folder with what is read of it before anything is drawn."""

    folder: pathlib.Path
    record: ThreadModelRecord
    serve: ServeParams | None
    """The server that has it; None: it is drawn in process."""

    @functools.cached_property
    def tokens(self) -> TextTokens:
        """Its tokens; BadInputError without a tokenizer."""
        return TextTokens.of(load_tokenizer(str(self.folder)))

    @asynccontextmanager
    async def open_runtime(
        self, *, temperature: float, seed: int, first_success: bool
    ) -> AsyncIterator[Runtime]:
        """A runtime of the model's window, for the duration of the block.

        Raises:
            BadInputError: the model cannot be read, or the server does not serve exactly one model.
            ReasonloopError: the server does not answer.
        """
        async with self._open_draws() as draws:
            bound = _NO_BOUND if self.serve is None else self.serve.concurrency
            yield Runtime(
                grammar=CountdownGrammar(style=self.record.style),
                draws=draws,
                decoding=Decoding(temperature=temperature, max_new_tokens=self.record.window),
                slots=asyncio.Semaphore(bound),
                seed=seed,
                tokens=self.tokens,
                window=self.record.window,
                first_success=first_success,
            )

    @asynccontextmanager
    async def _open_draws(self) -> AsyncIterator[SingleDraws]:
        if self.serve is None:
            base = shared_engine(str(self.folder), batch_size=_BATCH)
            async with open_live(base) as engine:
                yield WaveDraws(engine=engine)
            return
        client = OpenAIModel(
            endpoint=attach(self.serve, by_chat=False).endpoint,
            serve=self.serve,
            encode=self.tokens.encode,
        )
        async with client.open() as session:
            yield EndpointDraws(session=session)
