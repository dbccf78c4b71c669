"""The workers of a cluster that are in use, and what became of their calls."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipeline_lib.engines.client.connection import EngineDownError
from pipeline_lib.systems.pacore.workers import Directory, Worker, WorkerModel


@dataclass(kw_only=True)
class ActiveWorker:
    """A worker in use."""

    id: str
    worker: Worker
    calls: int = 0
    """In flight."""

    @property
    def load(self) -> float:
        """Calls in flight, as a share of those it should have."""
        return self.calls / self.worker.card.calls_together


@dataclass(kw_only=True)
class WorkerTable:
    """Workers that take calls, and counts since the start."""

    directory: Directory
    patience_s: float
    """Longest time without any worker of a model."""
    lost_calls: int = 0
    """Calls whose worker was lost."""
    calls_by_worker: Counter[str] = field(default_factory=Counter)
    """Answered calls by node id."""
    _active: dict[str, ActiveWorker] = field(init=False, default_factory=dict)

    def workers_of(self, model: WorkerModel) -> list[ActiveWorker]:
        """The workers of a model that are in use."""
        return [one for one in self._active.values() if one.worker.card.model == model]

    def calls_in_use(self, models: Sequence[WorkerModel]) -> dict[str, int]:
        """Answered calls of the workers of ``models`` that are in use, by node id."""
        names = [one.worker.card.node_id for model in models for one in self.workers_of(model)]
        return {name: self.calls_by_worker[name] for name in names}

    def update(self, found: Mapping[str, Worker]) -> None:
        """Use these workers; others have left."""
        known = self._active
        self._active = {
            name: known.get(name) or ActiveWorker(id=name, worker=worker)
            for name, worker in found.items()
        }

    def drop(self, active: ActiveWorker) -> None:
        """Do not use a worker until it is found again."""
        self._active.pop(active.id, None)


@dataclass(kw_only=True)
class Patience:
    """Time without any worker of a model."""

    model: WorkerModel
    seconds: float
    _since: float = field(init=False, default_factory=time.monotonic)

    def renew(self) -> None:
        """There is a worker."""
        self._since = time.monotonic()

    def check(self) -> None:
        """Return while the time is not over.

        Raises:
            EngineDownError: it is.
        """
        if time.monotonic() - self._since > self.seconds:
            raise EngineDownError(
                f"no worker of {self.model.name} for {self.seconds:g} s; start one and run the same "
                "command again, finished answers are kept"
            )
