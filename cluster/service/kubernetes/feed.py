"""A feed: it tells a served cluster what Kubernetes has, so that the extender and plans answer from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import accumulate, groupby
from urllib.parse import quote

import httpx
import msgspec

from cluster.service.client import Client
from cluster.service.events import ClusterEvent, ReportLoads
from cluster.service.kubernetes.description import KubernetesCluster, partitions_of
from cluster.service.kubernetes.extender import ANY_WORKLOAD
from cluster.service.kubernetes.sources import Observed
from cluster.service.service import AT_ONCE
from plb.errors import PlbError
from plb.model.documents import Document


class Feed:
    """Makes a served cluster equal to a cluster of Kubernetes, round by round; further objects are removed.

    Each object of the log goes to `log`.
    """

    def __init__(self, client: Client, log: Callable[[Document], None]) -> None:
        self._client, self._log = client, log
        self._cluster: KubernetesCluster | None = None
        """The cluster as the service knows it; None: the next round asks the service."""
        self._told: Counter[str] = Counter()
        """Events of this round by kind, and loads."""

    def run(self, observed: Observed, now: float) -> None:
        """Tell the service what has changed in a cluster read at `now`, in seconds since 1970, and log how much.

        Raise `PlbError` if the service does not answer or refuses the request. The next round then asks the service
        for its cluster.
        """
        self._told.clear()
        try:
            cluster = self._cluster or self._served(observed, now)
            self._cluster = None
            now = cluster.tell(observed, now, self._send)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise PlbError(f"the service does not answer: {error or type(error).__name__}") from None
        if not self._told["refused loads"]:  # otherwise replicas may be elsewhere than they were told to be
            self._cluster = cluster
        time = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        event_counts = dict(sorted(self._told.items()))
        self._log({"time": time, "nodes": len(observed.nodes), "pods": len(cluster.pods), "events": event_counts})

    def _served(self, observed: Observed, now: float) -> KubernetesCluster:
        """Return what the service has, with the pods of its partitions; give it the service of unknown workloads."""
        document, places = self._client.description(), dict[str, str]()
        is_live = any(at is None for at, _ in observed.usages)
        if is_live and document["now"] > now:
            raise PlbError(f"the service is at {document['now']}, after {now}, the seconds since 1970 here")
        self._client.events([{"type": "service", "service": {"name": ANY_WORKLOAD, "stateful": False}}])
        nodes = [node["name"] for node in self._client.get("nodes")]
        for node in nodes:
            places |= dict.fromkeys(self._client.get(f"nodes/{quote(node, safe='')}")["partitions"], node)
        metrics = [metric["name"] for metric in document["settings"]["metrics"]]
        cluster = KubernetesCluster(metrics, nodes, partitions_of(observed.pods, places))
        cluster.reported = [] if is_live else [document["now"]]
        return cluster

    def _send(self, events: Sequence[ClusterEvent]) -> list[str | None]:
        """Send events; return for each why it was refused, or None."""
        problems: list[str | None] = []
        work = accumulate(event.weight for event in events)
        for _, batch in groupby(zip(work, events, strict=True), lambda pair: pair[0] // AT_ONCE):
            documents = msgspec.to_builtins([event for _, event in batch])
            problems += [answer.get("problem", {}).get("detail") for answer in self._client.events(documents)]
        for event, problem in zip(events, problems, strict=True):
            kind = event.kind if problem is None else f"refused {event.kind}"
            self._told[kind] += len(event.loads) if isinstance(event, ReportLoads) else 1
            if problem is not None:
                self._log({"error": problem})
        return problems
