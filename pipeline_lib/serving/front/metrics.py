"""``/metrics`` in Prometheus' text format, with vLLM's metric names.

So one dashboard, and one watchdog, reads both engines.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from pipeline_lib.serving.front.async_engine import AsyncEngine

_LABELS = ("model_name",)


@dataclass(eq=False, kw_only=True)
class EngineMetrics(Collector):
    """Collects the engine's counters on each scrape."""

    engine: AsyncEngine
    model_name: str

    @override
    def collect(self) -> Iterator[Metric]:
        """One sample of each metric."""
        running, waiting = self.engine.running_and_waiting()
        yield self._gauge("vllm:num_requests_running", "Completions being drawn.", running)
        yield self._gauge("vllm:num_requests_waiting", "Completions that wait.", waiting)
        counters = self.engine.counters
        yield self._counter("vllm:prompt_tokens", "Prompt tokens read.", counters.prompt_tokens)
        yield self._counter("vllm:generation_tokens", "Tokens drawn.", counters.completion_tokens)
        ended = CounterMetricFamily(
            "vllm:request_success", "Completions that ended.", labels=(*_LABELS, "finished_reason")
        )
        for reason, count in counters.finished.items():
            ended.add_metric([self.model_name, reason.value], count)
        yield ended

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def _gauge(self, name: str, meaning: str, value: int) -> Metric:
        family = GaugeMetricFamily(name, meaning, labels=_LABELS)
        family.add_metric([self.model_name], value)
        return family

    def _counter(self, name: str, meaning: str, value: int) -> Metric:
        family = CounterMetricFamily(name, meaning, labels=_LABELS)
        family.add_metric([self.model_name], value)
        return family
