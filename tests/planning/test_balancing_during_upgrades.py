"""Balancing may wait for upgrades."""

from __future__ import annotations

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service


def test_an_upgrade_may_hold_balancing_back() -> None:
    """Balancing waits while a partition of the service domain is upgraded; other domains are balanced."""
    config = PlbConfig(metrics=[Metric("cpu"), Metric("disk")], allow_balancing_during_application_upgrade=False)
    engine = PlacementAndLoadBalancing(config, seed=1)
    for index in range(3):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 100.0, "disk": 100.0}))
    for metric in ("cpu", "disk"):
        engine.update_service(Service(metric, stateful=False, metrics={metric: 1.0}))
    for number, metric in enumerate(["cpu", "cpu", "cpu", "disk", "disk", "disk"]):
        name = f"{metric}/{number}"
        replicas = [Replica(Role.INSTANCE, "n0")]
        engine.update_partition(Partition(name, service=metric, replicas=replicas, upgrading=number == 0))
        engine.report_load(name, "n0", {metric: 10.0})
    moved = {move.partition.split("/")[0] for move in engine.balance().moves}
    assert moved == {"disk"}
    engine.update_partition(Partition("cpu/0", service="cpu", replicas=[Replica(Role.INSTANCE, "n0")]))
    assert {move.partition.split("/")[0] for move in engine.balance().moves} == {"cpu", "disk"}
