"""Figures of the service for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from starlette.types import Scope

from cluster.service.replica import OPEN
from cluster.service.service import PlacementService

SECONDS = (0.001, 0.002, 0.005, 0.015, 0.025, 0.1, 0.5, 2.0, 10.0)
"""Bounds of the buckets of the duration of a request."""
METHODS = ("GET", "HEAD", "OPTIONS", "PUT", "POST", "DELETE")
"""Methods that are told apart."""


class Metrics:
    """The figures of a service, in a registry of its own."""

    def __init__(self, service: PlacementService) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("plb_requests", "Requests answered", labels, registry=self._registry)
        self._seconds = Histogram(
            "plb_request_seconds", "Duration of requests", ("method", "route"), buckets=SECONDS, registry=self._registry
        )
        self._registry.register(self)

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        route = getattr(scope.get("route"), "path_format", "other")
        method = scope["method"] if route != "other" and scope["method"] in METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        """Return the figures of the clusters; the registry calls this."""
        log = GaugeMetricFamily("plb_log_failed", "Whether the last writing of the log failed")
        log.add_metric([], float(self._service.failure is not None))
        yield log
        words = {"sequence": "Sequence number of the last event", "generation": "Number of structural events"}
        for field, text in {**words, "open_plans": "Plans that wait for a search or a decision"}.items():
            gauge = GaugeMetricFamily(f"plb_cluster_{field}", text, labels=["cluster"])
            for name, live in self._service.clusters.items():
                state = live.reader.state
                plans = sum(plan.status in OPEN for plan in state.plans.values())
                values = {"sequence": live.sequence, "generation": state.generation, "open_plans": plans}
                gauge.add_metric([name], values[field])
            yield gauge

    def text(self) -> bytes:
        """Return the figures in the format of Prometheus."""
        return generate_latest(self._registry)
