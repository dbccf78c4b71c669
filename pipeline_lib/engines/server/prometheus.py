"""Metrics in Prometheus' text format, collected on each scrape."""

from collections.abc import Iterable, Mapping

from fastapi import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

Labels = Mapping[str, str]


class _Collected(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = [*metrics]

    @override
    def collect(self) -> Iterable[Metric]:
        return self._metrics


def metrics_response(metrics: Iterable[Metric]) -> Response:
    """One sample of each metric."""
    registry = CollectorRegistry()
    registry.register(_Collected(metrics))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def gauge(name: str, meaning: str, value: float, labels: Labels) -> Metric:
    """A number that rises and falls."""
    family = GaugeMetricFamily(name, meaning, labels=tuple(labels))
    family.add_metric([*labels.values()], value)
    return family


def counter(
    name: str, meaning: str, value: float | Mapping[str, float], labels: Labels, *, by: str = ""
) -> Metric:
    """A sum since the start, or one for each value of the label ``by``."""
    values = value if isinstance(value, Mapping) else {"": value}
    family = CounterMetricFamily(name, meaning, labels=(*labels, *([by] if by else [])))
    for key, one in values.items():
        family.add_metric([*labels.values(), *([key] if by else [])], one)
    return family
