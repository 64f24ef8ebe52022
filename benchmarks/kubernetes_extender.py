"""Time of the calls of the scheduler of Kubernetes, filter and prioritize, without the network.

.venv/bin/python benchmarks/kubernetes_extender.py [--nodes 1000] [--pods 30000] [--calls 1000]
"""

from __future__ import annotations

import argparse
import json
import time
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np

from cluster.service.kubernetes.extender import Arguments, filtered, prioritized, scores_for
from cluster.service.replica import ClusterReplica
from cluster.service.searches import SearchThread
from cluster.service.service import LiveCluster
from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service

WORKLOADS = 100


def arguments(pod: int, nodes: int) -> bytes:
    """Return the body of a call for a pod and all nodes."""
    workload = f"web{pod % WORKLOADS}"
    owner = {"kind": "StatefulSet", "name": workload, "controller": True}
    container = {"name": "web", "resources": {"requests": {"cpu": f"{100 + pod % 400}m", "memory": "512Mi"}}}
    return json.dumps(
        {
            "Pod": {
                "metadata": {"name": f"{workload}-{pod}", "namespace": "shop", "ownerReferences": [owner]},
                "spec": {"containers": [container]},
            },
            "NodeNames": [f"n{index}" for index in range(nodes)],
        }
    ).encode()


def engine_of(nodes: int, pods: int) -> PlacementAndLoadBalancing:
    """Return a cluster with pods, each a partition of one of a hundred workloads."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu"), Metric("memory")]))
    capacities = {"cpu": 64.0, "memory": 262144.0}
    engine.update_nodes(
        [Node(f"n{index}", capacities=capacities, fault_domain=f"fd:/zone{index % 3}") for index in range(nodes)]
    )
    load = {Role.INSTANCE: {"cpu": 1.0, "memory": 1024.0}}
    for index in range(WORKLOADS):
        engine.update_service(Service(f"shop/StatefulSet/web{index}", stateful=False, default_load=load))
    engine.update_partitions(
        [
            Partition(
                f"pod{index}",
                service=f"shop/StatefulSet/web{index % WORKLOADS}",
                replicas=[Replica(Role.INSTANCE, f"n{index * 7 % nodes}")],
            )
            for index in range(pods)
        ]
    )
    return engine


def measure(nodes: int = 1000, pods: int = 30_000, calls: int = 1000) -> dict[str, Any]:
    """Return milliseconds of each call, from the bytes of the request to those of the answer: p50, p99 and most.

    Wall time, and time of the processor, which other processes do not disturb.
    """
    engine = engine_of(nodes, pods)
    reader = cast(ClusterReplica, SimpleNamespace(engine=engine, state=SimpleNamespace(now=0.0)))
    seconds = np.empty((calls, 2, 2))
    for pod in range(-20, calls):  # the first calls compile and make the arrays
        body = arguments(pod % calls, nodes)
        live = LiveCluster("main", reader, cast(SearchThread, None), 0)  # one that has kept no scores
        for verb, answer in enumerate((filtered, prioritized)):
            begin = time.perf_counter(), time.thread_time()
            request = msgspec.json.decode(body, type=Arguments)
            msgspec.json.encode(answer(scores_for(live, request.pod), request.node_names))
            seconds[max(0, pod), verb] = time.perf_counter() - begin[0], time.thread_time() - begin[1]
    return {
        f"{verb}_{clock}_ms": np.percentile(seconds[:, row, column] * 1e3, [50, 99, 100]).round(2).tolist()
        for row, verb in enumerate(("filter", "prioritize"))
        for column, clock in enumerate(("wall", "processor"))
    }


def main() -> None:
    """Measure, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("nodes", 1000), ("pods", 30_000), ("calls", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    print(json.dumps(measure(**vars(parser.parse_args())), indent=2))


if __name__ == "__main__":
    main()
