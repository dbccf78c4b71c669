"""Workers without Ray, and a pool of them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipeline_lib.engines.chat_model import Request
from pipeline_lib.systems.pacore.worker_pool import WorkerInfo, WorkerModel, WorkerPool, open_pool
from tests.unit.systems.pacore.scripted_chat import scripted, text_of


@dataclass(eq=False)
class FakeWorker:
    """Draws at once, or raises its fault."""

    node_id: str
    model: str = "A"
    identity: str = "weights"
    is_compact: bool = False
    room_tokens: int | None = None
    calls_together: int = 2
    fault: Callable[[], Exception] | None = None
    calls: list[Request] = field(default_factory=list)
    most_in_flight: int = 0
    in_flight: int = 0

    @property
    def info(self) -> WorkerInfo:
        model = WorkerModel(
            name=self.model,
            identity=self.identity,
            engine="fake",
            format_digest="format",
            is_compact=self.is_compact,
        )
        return WorkerInfo(
            node_id=self.node_id,
            model=model,
            counts_tokens=self.room_tokens is not None,
            calls_together=self.calls_together,
        )

    def room(self, _prompt):
        if self.fault is not None:
            raise self.fault()
        return self.room_tokens

    async def draw(self, request, decoding):
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0.01)
        self.in_flight -= 1
        if self.fault is not None:
            raise self.fault()
        self.calls.append(request)
        answer = scripted(lambda prompt, seed: text_of(self.model + prompt, seed))
        [drawn] = answer.complete([request], decoding)
        return drawn


def found_of(workers: Sequence[FakeWorker]):
    """Workers that stay listed whatever they do."""
    return lambda: {worker.node_id: worker for worker in workers}


def pool_of(*workers: FakeWorker, models: Sequence[str] = ("A",), patience_s=5.0) -> WorkerPool:
    return open_pool(found_of(workers), models, place="here", patience_s=patience_s)
