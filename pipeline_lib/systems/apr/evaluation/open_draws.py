"""Draws of one model: in process, or at a server that already runs."""

import asyncio
import pathlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.engines.client.client import OpenAIModel
from pipeline_lib.engines.client.single_draws import EndpointDraws, SingleDraws
from pipeline_lib.engines.embedded.draws import WaveDraws, open_live
from pipeline_lib.engines.embedded.embedded_engine import shared_engine
from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.engines.running_engine import attach
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.systems.apr.countdown.grammar import CountdownGrammar
from pipeline_lib.systems.apr.draw_text import TextTokens
from pipeline_lib.systems.apr.model_record import ThreadModelRecord
from pipeline_lib.systems.apr.rollout import Root
from pipeline_lib.systems.apr.rollouts import check_room
from pipeline_lib.systems.apr.runtime import Runtime

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_BATCH = 64
"""Sequences decoded together in process."""
_NO_BOUND = 1 << 30
"""In process a wave has all draws that can be made; the engine bounds its batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadModel:
    """A model's folder with what is read of it before anything is drawn."""

    folder: pathlib.Path
    record: ThreadModelRecord
    tokenizer: "PreTrainedTokenizerBase"
    serve: ServeParams | None
    """The server that has it; None: it is drawn in process."""

    @classmethod
    def read(
        cls, folder: pathlib.Path, record: ThreadModelRecord, serve: ServeParams | None
    ) -> "ThreadModel":
        """The model in ``folder``.

        Raises:
            BadInputError: the tokenizer is missing.
        """
        tokenizer = load_tokenizer(str(folder))
        return cls(folder=folder, record=record, tokenizer=tokenizer, serve=serve)

    @property
    def _tokens(self) -> TextTokens:
        return TextTokens.of(self.tokenizer)

    def check_room(self, roots: Sequence[Root]) -> None:
        """Refuse prompts that fill the window.

        Raises:
            BadInputError: one does.
        """
        check_room(roots, self._tokens, window=self.record.window)

    @asynccontextmanager
    async def open_runtime(
        self, *, temperature: float, seed: int, first_success: bool
    ) -> AsyncIterator[Runtime]:
        """A runtime of the model's window, for the duration of the block.

        Raises:
            BadInputError: the model cannot be read, or the server does not serve exactly one model.
            ReasonloopError: the server does not answer.
        """
        tokens = self._tokens
        async with self._open_draws(tokens) as draws:
            bound = _NO_BOUND if self.serve is None else self.serve.concurrency
            yield Runtime(
                grammar=CountdownGrammar(style=self.record.style),
                draws=draws,
                decoding=Decoding(temperature=temperature, max_new_tokens=self.record.window),
                slots=asyncio.Semaphore(bound),
                seed=seed,
                tokens=tokens,
                window=self.record.window,
                first_success=first_success,
            )

    @asynccontextmanager
    async def _open_draws(self, tokens: TextTokens) -> AsyncIterator[SingleDraws]:
        if self.serve is None:
            base = shared_engine(str(self.folder), batch_size=_BATCH)
            async with open_live(base) as engine:
                yield WaveDraws(engine=engine)
            return
        client = OpenAIModel(
            endpoint=attach(self.serve, by_chat=False).endpoint,
            serve=self.serve,
            encode=tokens.encode,
        )
        async with client.open() as session:
            yield EndpointDraws(session=session)
