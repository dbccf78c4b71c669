"""``/metrics`` in Prometheus' text format, with vLLM's metric names.

So one dashboard, and one watchdog, reads both engines.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from pipeline_lib.engines.embedded.async_engine import AsyncEngine
from pipeline_lib.engines.server.prometheus import counter, counters_by, gauge


@dataclass(eq=False, kw_only=True)
class EngineMetrics(Collector):
    """Collects the engine's counters on each scrape."""

    engine: AsyncEngine
    model_name: str

    @override
    def collect(self) -> Iterator[Metric]:
        """One sample of each metric."""
        running, waiting = self.engine.running_and_waiting()
        counters, labels = self.engine.counters, {"model_name": self.model_name}
        yield gauge("vllm:num_requests_running", "Completions being drawn.", running, labels)
        yield gauge("vllm:num_requests_waiting", "Completions that wait.", waiting, labels)
        yield counter("vllm:prompt_tokens", "Prompt tokens read.", counters.prompt_tokens, labels)
        yield counter("vllm:generation_tokens", "Tokens drawn.", counters.completion_tokens, labels)
        finished = {reason.value: count for reason, count in counters.finished.items()}
        yield counters_by(
            "finished_reason", "vllm:request_success", "Completions that ended.", finished, labels
        )
