"""Scaling of the engine: memory, bulk reports and refreshes at 30 replicas per node, 3 metrics, 100 repetitions.

Partitions have four replicas in racks and upgrade domains and are up to forty days old. The history has 2,000 traces.
All data are described with the public methods of the engine. Every size has its own process, for its peak of memory.
Seconds are CPU seconds of the process, the least of three after the first refresh. A refresh searches 4,000
proposals.

    python benchmarks/scale.py
    python benchmarks/scale.py 40 400
    python benchmarks/scale.py 10000 --own-services
    python benchmarks/scale.py 1000 --past             # plans that avoid violations, by a week of hours
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import attrs
import numpy as np

from cluster.bench.engine import CAPACITY, METRICS, REPLICAS_A_NODE, bench_node
from plb import Metric, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service, Snapshot
from plb.risk.demand_history import DemandHistory

SIZES = (40, 400, 4_000, 10_000)
REPLICAS_A_PARTITION = 4
RACKS = 5
MEAN = 0.55 * CAPACITY / REPLICAS_A_NODE
PROPOSALS = 4_000
DAY = 86_400.0


class Cluster:
    """An engine, and its reported loads.

    Parameters
    ----------
    nodes
        Number of nodes.
    own_services
        Whether each partition has a service of its own, and not all the same.
    """

    def __init__(self, nodes: int, *, own_services: bool = False, **settings: Any) -> None:
        self.nodes, self.own_services = nodes, own_services
        self.random = np.random.default_rng(7)
        even = 0.0 if settings else 1.0
        metrics = [Metric(name, trend=name != "cpu", balancing_threshold=even) for name in METRICS]
        self.history = _history(self.random)
        self.engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics, **settings), seed=7, history=self.history)
        self._now = 0.0
        self._moved = self._broken = 0
        self._is_up = True
        self.engine.update_nodes(bench_node(index) for index in range(nodes))
        self.partitions = nodes * REPLICAS_A_NODE // REPLICAS_A_PARTITION
        self.engine.update_service(bench_service("tenants"))
        for index in range(self.partitions if own_services else 0):
            self.engine.update_service(bench_service(f"p{index}"))
        self.rows = self.engine.update_partitions(
            self._partition(index, -float(self.random.uniform(0, 40 * DAY))) for index in range(self.partitions)
        )
        self.loads = MEAN * self.random.uniform(0.2, 1.8, (len(self.rows), len(METRICS)))
        self._overloaded = np.zeros(len(self.rows), np.bool_)

    def _partition(self, index: int, created: float = 0.0, shift: int = 0) -> Partition:
        """Return a partition in four fault domains and upgrade domains; `shift` moves it by this number of nodes."""
        places = [(index + shift + 11 * step) % self.nodes for step in range(REPLICAS_A_PARTITION)]
        roles = [Role.PRIMARY] + [Role.SECONDARY] * (REPLICAS_A_PARTITION - 1)
        copies = [Replica(role, f"n{place}") for role, place in zip(roles, places, strict=True)]
        service = f"p{index}" if self.own_services else "tenants"
        return Partition(f"p{index}", service=service, replicas=copies, created=created)

    def move(self, partitions: int) -> None:
        """Move all replicas of a number of partitions to other nodes."""
        for index in range(self._moved, self._moved + partitions):
            self.engine.update_partition(self._partition(index, shift=1))
        self._moved += partitions

    def crowd_a_rack(self) -> None:
        """Move a secondary of a partition to the rack of the primary, and that of the last call back."""
        self.mend()
        healthy = self._partition(self.partitions - self._broken)
        primary, moved, *others = healthy.replicas
        there = attrs.evolve(moved, node=f"n{(self.partitions - self._broken + RACKS) % self.nodes}")
        self.engine.update_partition(attrs.evolve(healthy, replicas=(primary, there, *others)))

    def overload_a_node(self) -> None:
        """Report loads by which a node is a little above its limit, and those of the last call as they were."""
        self.mend()
        node = self.nodes // 2 + self._broken
        hosts = {
            index
            for step in range(REPLICAS_A_PARTITION)
            for index in range((node - 11 * step) % self.nodes, self.partitions, self.nodes)
        }
        replicas = (one for index in hosts for one in self.engine.replicas(f"p{index}"))
        self._overloaded = np.isin(self.rows, [one.index for one in replicas if one.node == f"n{node}"])
        loads = self.loads[self._overloaded]
        self.engine.report_loads(self.rows[self._overloaded], loads * (1.001 * CAPACITY / loads.sum(axis=0)))

    def mend(self) -> None:
        """Undo what the last of these calls has changed."""
        if self._broken:
            self.engine.update_partition(self._partition(self.partitions - self._broken))
        self.engine.report_loads(self.rows[self._overloaded], self.loads[self._overloaded])
        self._overloaded[:] = False
        self._broken += 1

    def report(self, share: float = 1.0) -> None:
        """Change the loads of a share of the replicas by up to a tenth, and report these in bulk."""
        count = max(1, int(share * len(self.rows)))
        chosen = self.random.permutation(len(self.rows))[:count]
        self.loads[chosen] *= self.random.uniform(0.9, 1.1, (count, len(METRICS)))
        self.engine.report_loads(self.rows[chosen], self.loads[chosen])

    def wait(self) -> None:
        """Advance the time by ten minutes."""
        self._now += 600.0

    def refresh(self) -> None:
        """Request a plan."""
        self.engine.refresh(self._now, budget=PROPOSALS)

    def fail_or_return(self) -> None:
        """Let the first node fail if it is up, else return, and request a plan."""
        self._is_up = not self._is_up
        self.engine.update_node(attrs.evolve(bench_node(0), up=self._is_up))
        self.refresh()

    def place(self) -> None:
        """Add a partition, and place its replicas."""
        self._place("tenants")

    def _place(self, service: str) -> None:
        """Add a partition of a service, and place its replicas."""
        self._now += 1.0
        name = f"new{self._now}"
        self.engine.update_partition(Partition(name, service=service, created=self._now))
        self.engine.apply(self.engine.place(name, now=self._now, budget=PROPOSALS))

    def place_of_new_service(self) -> None:
        """Add a service with a partition, and place its replicas."""
        service = bench_service(f"service{self._now}")
        self.engine.update_service(service)
        self._place(service.name)

    def snapshot(self) -> None:
        """Write the engine as bytes."""
        self.data = self.engine.snapshot().to_bytes()

    def restart(self) -> None:
        """Continue from these bytes."""
        self.engine = PlacementAndLoadBalancing.from_snapshot(Snapshot.from_bytes(self.data), history=self.history)

    def score(self) -> None:
        """Score all nodes for a partition that waits for a place."""
        self.engine.score("waiting", now=self._now)


def bench_service(name: str) -> Service:
    """Return a service of the tenant class of the history."""
    return Service(name, tenant_class="class", target_replicas=REPLICAS_A_PARTITION)


def _history(random: np.random.Generator) -> DemandHistory:
    """Return traces that outlive the benchmark, half of them of primaries."""
    traces = 2_000
    level = 1.5 * MEAN * random.gamma(2.0, 0.5, (traces, len(METRICS)))
    return DemandHistory.from_columns(
        METRICS,
        tenant_class=["class"] * traces,
        role=np.repeat([Role.PRIMARY, Role.SECONDARY], traces // 2),
        lifetime=random.uniform(DAY, 200 * DAY, traces),
        level=level,
        initial=0.5 * level,
        growth=random.uniform(0, DAY, (traces, len(METRICS))),
        maximum=4.0 * level,
    )


def _seconds(action: Callable[[], object]) -> float:
    begun = time.process_time()
    action()
    return time.process_time() - begun


def _resident() -> int:
    """Return the largest memory of the process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(nodes: int, *, own_services: bool) -> dict[str, str]:
    """Return the figures of one size by name."""
    Cluster(40).refresh()  # loads the kernels
    before = _resident()
    begun = time.process_time()
    cluster = Cluster(nodes, own_services=own_services)
    found = {"nodes": f"{nodes:,}", "replicas": f"{len(cluster.rows):,}"}
    found["describe it"] = _time(time.process_time() - begun)
    described = _resident()
    cluster.report()
    found["report all loads in bulk"] = _time(min(_bulk_report(cluster) for _ in range(5)))
    found["first refresh"] = _time(_seconds(cluster.refresh))
    changes: dict[str, Callable[[], object]] = {
        "nothing changed": lambda: None,
        "ten minutes later": cluster.wait,
        "1 % of the loads changed": lambda: cluster.report(0.01),
        "all loads changed": cluster.report,
        "ten partitions moved": lambda: cluster.move(10),
        "a partition crowds a rack": cluster.crowd_a_rack,
        "a node above its limit": cluster.overload_a_node,
    }
    for name, change in changes.items():
        found[f"refresh, {name}"] = _time(min(_refresh_after(cluster, change) for _ in range(3)))
    cluster.mend()
    cluster.fail_or_return()
    found["a node fails or returns: event and refresh"] = _time(min(_seconds(cluster.fail_or_return) for _ in range(4)))
    cluster.place()
    found["place a partition"] = _time(min(_seconds(cluster.place) for _ in range(3)))
    cluster.place_of_new_service()
    found["place a partition of a new service"] = _time(min(_seconds(cluster.place_of_new_service) for _ in range(3)))
    cluster.engine.update_partition(Partition("waiting", service="tenants", created=cluster._now))
    cluster.engine.score("waiting", now=cluster._now)
    found["score of a partition, all nodes"] = _time(min(_seconds(cluster.score) for _ in range(3)))
    memory = _resident()
    found["snapshot, to bytes"] = _time(min(_seconds(cluster.snapshot) for _ in range(3)))
    found["of it bytes"] = _megabytes(len(cluster.data))
    found["an engine from these bytes"] = _time(min(_seconds(cluster.restart) for _ in range(3)))
    found["first refresh of this engine"] = _time(_seconds(cluster.refresh))
    found["peak memory"] = _megabytes(memory)
    found["of it interpreter and kernels"] = _megabytes(before)
    found["of it the description"] = _megabytes(described - before)
    found["bytes a replica"] = f"{(memory - before) / len(cluster.rows):,.0f}"
    return found


def measure_past(nodes: int, *, own_services: bool) -> dict[str, str]:
    """Return the figures of plans that avoid violations, by name; replicas have busy hours of their own."""
    settings = {"estimator": "historical-simulation:horizon=1", "violation_cost": 1.0}
    Cluster(40, **settings).refresh()  # loads the kernels
    cluster = Cluster(nodes, own_services=own_services, **settings)
    engine, random, count = cluster.engine, cluster.random, len(cluster.rows)
    size, busiest = random.lognormal(0.0, 0.8, (count, len(METRICS))), random.uniform(0.0, 24.0, (count, 1))
    size *= MEAN / size.mean()

    def report_a_week() -> None:
        for hour in range(-168, 0):
            by_hour = 1.0 + 0.6 * np.cos(2 * np.pi * (hour - busiest) / 24.0)
            engine.report_loads(cluster.rows, size * by_hour * random.uniform(0.8, 1.2, size.shape), at=3600.0 * hour)

    found = {"nodes": f"{nodes:,}", "replicas": f"{count:,}", "report a week of hours": _time(_seconds(report_a_week))}
    for name, at in {"first plan": 0.0, "plan of the next day": DAY, "plan in the same hour": DAY + 60.0}.items():
        begun = time.process_time()
        plan = engine.refresh(at)
        found[name], found[f"{name}: moves"] = _time(time.process_time() - begun), f"{len(plan.moves):,}"
        engine.apply(plan)
    return found


def _bulk_report(cluster: Cluster) -> float:
    """Return the time of a report of all loads."""
    loads = cluster.loads * cluster.random.uniform(0.9, 1.1, cluster.loads.shape)
    return _seconds(lambda: cluster.engine.report_loads(cluster.rows, loads))


def _refresh_after(cluster: Cluster, change: Callable[[], object]) -> float:
    """Return the time of a refresh after a change."""
    change()
    return _seconds(cluster.refresh)


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MB"


def _time(seconds: float) -> str:
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{1000 * seconds:,.1f} ms"


def main() -> None:
    """Measure each size and print a table with one column per size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nodes", nargs="*", type=int, default=SIZES, help="numbers of nodes, one column each")
    parser.add_argument("--own-services", action="store_true", help="give each partition a service of its own")
    parser.add_argument("--past", action="store_true", help="measure plans that avoid violations, by a week of hours")
    options = parser.parse_args()
    measured = measure_past if options.past else measure
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        columns = list(pool.map(partial(measured, own_services=options.own_services), options.nodes))
    for name in columns[0]:
        print(f"{name:<40}" + "".join(f"{column[name]:>14}" for column in columns))


if __name__ == "__main__":
    main()
