"""Workers: processes or machines that draw completions, as the pool sees them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline_lib.engines.chat_model import Completion, Decoding, Request
from pipeline_lib.errors import BadInputError


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
) -> list[WorkerModel]:
    """The models that workers serve as ``names``; ``place`` is the cluster in messages.

    Raises:
        BadInputError: a name is given twice, no worker serves it, two workers serve different models by it, or
            only some of the models read words.
    """
    for name in names:
        if names.count(name) > 1:
            raise BadInputError(f"models: {name} is given twice; give each model once")
    served = [_served_model(name, cards, place) for name in names]
    if len({one.is_compact for one in served}) > 1:
        [compact, *_] = [one.name for one in served if one.is_compact]
        raise BadInputError(
            f"models: {compact} reads compact prompts, and others read words; use them one at a time"
        )
    return served


def _served_model(name: str, cards: Sequence[WorkerCard], place: str) -> WorkerModel:
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
