"""Metrics in Prometheus' text format, collected on each scrape."""

from collections.abc import Mapping

from fastapi import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

Labels = Mapping[str, str]


def metrics_response(collector: Collector) -> Response:
    """All metrics of one collector."""
    registry = CollectorRegistry()
    registry.register(collector)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


def gauge(name: str, meaning: str, value: float, labels: Labels) -> Metric:
    """A number that rises and falls."""
    family = GaugeMetricFamily(name, meaning, labels=tuple(labels))
    family.add_metric([*labels.values()], value)
    return family


def counter(name: str, meaning: str, value: float, labels: Labels) -> Metric:
    """A sum since the start."""
    family = CounterMetricFamily(name, meaning, labels=tuple(labels))
    family.add_metric([*labels.values()], value)
    return family


def counters_by(
    label: str, name: str, meaning: str, values: Mapping[str, float], labels: Labels
) -> Metric:
    """A sum for each value of ``label``."""
    family = CounterMetricFamily(name, meaning, labels=(*labels, label))
    for key, value in values.items():
        family.add_metric([*labels.values(), key], value)
    return family
