"""Workers: processes or machines that draw completions, as the pool sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline_lib.errors import BadInputError
from pipeline_lib.serving.chat_model import Completion, Decoding, Request


class WorkerLostError(Exception):
    """The worker is gone, or cannot be reached; its call may be sent to another one."""


class WorkerLeavingError(Exception):
    """The worker takes no further calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """The model of a worker; equal for workers whose completions are the same."""

    name: str
    """As given to the worker."""
    identity: str
    engine: str
    format_digest: str
    """Of its chat template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCard:
    """Capabilities of a worker."""

    node_id: str
    """Given by its operator."""
    model: ServedModel
    counts_tokens: bool
    """The room of a prompt is known."""
    calls_together: int
    """Calls that it should have at a time, those that wait for the engine included."""


class Worker(Protocol):
    """A worker that takes calls. Prompts are those of `ServerChat`; the worker applies the template."""

    @property
    def card(self) -> WorkerCard:
        """Its capabilities."""
        ...

    def room(self, prompt: str) -> int | None:
        """As `ChatModel.room`.

        Raises:
            WorkerLostError: there is no answer.
        """
        ...

    async def draw(self, request: Request, decoding: Decoding) -> list[Completion]:
        """The completions of a request, in the order of its seeds.

        Raises:
            WorkerLostError: the worker was lost before it answered.
            WorkerLeavingError: nothing was drawn.
        """
        ...


class Directory(Protocol):
    """The workers of a cluster."""

    def find(self) -> Mapping[str, Worker]:
        """The workers that take calls now, by an id that no later worker has."""
        ...


def served_models(
    names: Sequence[str], cards: Sequence[WorkerCard], *, place: str
) -> list[ServedModel]:
    """The models that workers serve as ``names``; ``place`` is the cluster in messages.

    Raises:
        BadInputError: a name is given twice, no worker serves it, or two workers serve different models by it.
    """
    for name in names:
        if names.count(name) > 1:
            raise BadInputError(f"models: {name} is given twice; give each model once")
    return [_served_model(name, cards, place) for name in names]


def _served_model(name: str, cards: Sequence[WorkerCard], place: str) -> ServedModel:
    models = {card.model: card.node_id for card in cards if card.model.name == name}
    if not models:
        others = ", ".join(sorted({card.model.name for card in cards}))
        there = f"there are workers of {others}" if others else "there are no workers"
        raise BadInputError(f"{place}: no worker serves {name}; {there}")
    if len(models) > 1:
        one, other, *_ = models.values()
        raise BadInputError(
            f"{place}: workers {one} and {other} serve different models as {name}; stop one of them"
        )
    [model] = models
    return model
