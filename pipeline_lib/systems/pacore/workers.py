"""Workers: processes or machines that draw completions, as the pool sees them."""

from dataclasses import dataclass
from typing import Protocol

from pipeline_lib.engines.chat_model import Completion, Decoding, Request


class WorkerLostError(Exception):
    """The worker is gone, or cannot be reached; its call may be sent to another one."""


class WorkerLeavingError(Exception):
    """The worker takes no further calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerModel:
    """The model of a worker; equal for workers whose completions are the same."""

    name: str
    """As given to the worker."""
    identity: str
    engine: str
    format_digest: str
    """Of its chat template."""
    is_compact: bool
    """As `ChatFormat.is_compact`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCard:
    """Capabilities of a worker."""

    node_id: str
    """Given by its operator."""
    model: WorkerModel
    counts_tokens: bool
    """The room of a prompt is known."""
    calls_together: int
    """Calls that it should have at a time, those that wait for the engine included."""


class Worker(Protocol):
    """A worker that takes calls. Prompts are those of `ServerChat`; the worker applies the template."""

    @property
    def card(self) -> WorkerCard:
        """Its capabilities."""

    def room(self, prompt: str) -> int | None:
        """As `ChatModel.room`. WorkerLostError: there is no answer."""

    async def draw(self, request: Request, decoding: Decoding) -> list[Completion]:
        """The completions of a request, in the order of its seeds.

        Raises:
            WorkerLostError: the worker was lost before it answered.
            WorkerLeavingError: nothing was drawn.
        """
