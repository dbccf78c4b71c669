"""ChatModel over workers, which join and leave while calls are drawn.

What is drawn depends on the requests alone: they are cut into parts of one size, whatever the number of workers.
Processes and machines are outside, behind `Directory`.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import ChatFormat, Completion, Decoding, Request
from pipeline_lib.engines.client.client import ServerChat
from pipeline_lib.engines.client.session import gather_all
from pipeline_lib.store.files import digest_json
from pipeline_lib.systems.pacore.pool_session import POLL_S, PoolSession
from pipeline_lib.systems.pacore.worker_table import Patience, WorkerTable
from pipeline_lib.systems.pacore.workers import (
    Directory,
    WorkerLostError,
    WorkerModel,
    served_models,
)


@dataclass(kw_only=True)
class WorkerPool:
    """Implements ChatModel over the workers of one or several models."""

    table: WorkerTable
    served: Sequence[WorkerModel]
    """Path i of a round is drawn by model i mod m; the first one synthesizes."""
    adapter: str | None = None
    arithmetic: str | None = None

    @property
    def models(self) -> Sequence[str]:
        """Their names if there are several; empty for one."""
        return [one.name for one in self.served] if len(self.served) > 1 else []

    @property
    def identity(self) -> str:
        """Of the model; a digest over several."""
        [first, *others] = [one.identity for one in self.served]
        return digest_json([first, *others]) if others else first

    def calls_in_use(self) -> dict[str, int]:
        """Answered calls of the workers of its models, by node id; a cluster may have others."""
        return self.table.calls_in_use(self.served)

    @property
    def engine(self) -> str:
        """The engines of the workers."""
        return f"workers with {', '.join(one.engine for one in self.served)}"

    @property
    def chat_format(self) -> ChatFormat:
        """Messages, which each worker renders by the template of its model."""
        return ServerChat(
            digest=", ".join(one.format_digest for one in self.served),
            is_compact=self.served[0].is_compact,
        )

    def room(self, prompt: str) -> int | None:
        """The smallest room of the models; None: unknown for all.

        Raises:
            EngineDownError: as `PoolSession.draw`.
        """
        rooms = [self._room(one, prompt) for one in self.served]
        return min((room for room in rooms if room is not None), default=None)

    def _room(self, model: WorkerModel, prompt: str) -> int | None:
        patience = Patience(model=model, seconds=self.table.patience_s)
        while True:
            for active in self.table.workers_of(model):
                if not active.worker.card.counts_tokens:
                    return None
                try:
                    return active.worker.room(prompt)
                except WorkerLostError:
                    self.table.drop(active)
            patience.check()
            time.sleep(POLL_S)
            self.table.update(self.table.directory.find())

    def complete(self, requests: Sequence[Request], decoding: Decoding) -> list[list[Completion]]:
        """Draw all completions, in the order of requests and seeds.

        Raises:
            BadInputError: as the engine of a worker.
            EngineDownError: as `PoolSession.draw`.
        """
        return asyncio.run(self._complete(requests, decoding))

    async def _complete(
        self, requests: Sequence[Request], decoding: Decoding
    ) -> list[list[Completion]]:
        async with self.open() as session:
            return await gather_all([session.draw(request, decoding) for request in requests])

    @asynccontextmanager
    async def open(self) -> AsyncIterator[PoolSession]:
        """Concurrent calls; within the block workers that join are used."""
        session = PoolSession(table=self.table, served=self.served)
        async with session.following():
            yield session


def open_pool(
    directory: Directory, names: Sequence[str], *, place: str, patience_s: float
) -> WorkerPool:
    """The pool of the models ``names``, each of which has a worker now.

    Args:
        directory: The workers.
        names: Models by name; the first one synthesizes.
        place: The cluster in messages.
        patience_s: Longest time without any worker of a model.

    Raises:
        BadInputError: a name is given twice, no worker serves it, or two workers serve different models by it.
    """
    found = directory.find()
    served = served_models(names, [worker.card for worker in found.values()], place=place)
    table = WorkerTable(directory=directory, patience_s=patience_s)
    table.update(found)
    return WorkerPool(table=table, served=served)
