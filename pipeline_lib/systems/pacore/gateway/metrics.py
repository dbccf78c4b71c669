"""Counts of the gateway, and the limit of requests in flight."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from prometheus_client.core import Metric, SummaryMetricFamily

from pipeline_lib.engines.server.errors import ApiError
from pipeline_lib.engines.server.front import counter, gauge
from pipeline_lib.sampling.compute_cost import NOTHING, Cost

_PREFIX = "reasonloop_pacore_"


class Failure(StrEnum):
    """Why a request has no answer."""

    CALL_FAILED = "call_failed"
    """A call of the last round failed."""
    ENGINE_DOWN = "engine_down"
    CLIENT_LEFT = "client_left"
    FULL = "full"


@dataclass(kw_only=True)
class GatewayMetrics:
    """Counts since the start; changed in the event loop alone."""

    model_name: str
    most_in_flight: int
    retries: Callable[[], int]
    """Calls that were sent once more, after a restart of the engine or the loss of a worker."""
    calls_by_worker: Callable[[], Mapping[str, int]] | None = None
    """Answered calls of the workers that take calls now, by node id; None: an engine answers."""
    in_flight: int = 0
    answered: int = 0
    failures: Counter[Failure] = field(default_factory=lambda: Counter(dict.fromkeys(Failure, 0)))
    cost: Cost = NOTHING
    """Of the calls that have ended."""
    _rounds: int = 0
    _round_seconds: float = 0.0

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """One of the requests in flight. ApiError: 429; there are too many."""
        if self.in_flight >= self.most_in_flight:
            self.failures[Failure.FULL] += 1
            raise ApiError(
                429, f"{self.in_flight} requests are in flight, the most there may be; try again"
            )
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    def add_round(self, seconds: float) -> None:
        """Count a round with its compaction."""
        self._rounds += 1
        self._round_seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """One sample of each metric."""
        labels = {"model_name": self.model_name}
        yield gauge(f"{_PREFIX}requests_in_flight", "Open requests.", self.in_flight, labels)
        if self.calls_by_worker is not None:
            by_worker = self.calls_by_worker()
            yield gauge(f"{_PREFIX}workers", "Workers that take calls.", len(by_worker), labels)
            calls = "Requests of up to 8 paths that it answered."
            yield counter(f"{_PREFIX}worker_calls", calls, by_worker, labels, by="worker")
        failures = {failure.value: float(self.failures[failure]) for failure in Failure}
        sums = {
            "requests_answered": ("Requests with an answer.", self.answered),
            "calls": ("Calls of the engine, failed ones included.", self.cost.calls),
            "failed_calls": ("Calls of the engine that failed.", self.cost.failed_calls),
            "retried_calls": ("Calls sent again after a restart or a lost worker.", self.retries()),
            "prompt_tokens": ("Prompt tokens of all calls.", self.cost.prompt_tokens),
            "completion_tokens": ("Tokens drawn by all calls.", self.cost.completion_tokens),
        }
        for name, (meaning, value) in sums.items():
            yield counter(f"{_PREFIX}{name}", meaning, value, labels)
        meaning = "Requests without an answer."
        yield counter(f"{_PREFIX}failures", meaning, failures, labels, by="reason")
        seconds = SummaryMetricFamily(
            f"{_PREFIX}round_seconds", "Seconds per round.", labels=tuple(labels)
        )
        seconds.add_metric([*labels.values()], self._rounds, self._round_seconds)
        yield seconds
