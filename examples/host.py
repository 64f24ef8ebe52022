"""A host in SimPy: a node is lost, nodes are upgraded in turn, moves take time and are limited, and plans are logged.

Run it with `.venv/bin/python examples/host.py`, or with the name of a file for the log of plans, one in JSON a line.
"""

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs
import simpy

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, Plan, PlbConfig, Replica, Role, Service

HOUR = 3600.0  # seconds, like all times here
METERING, COPY, RESTART, REPAIR = 600.0, 240.0, 900.0, 2 * HOUR
MOST_MOVES = 2  # in an hour
NODES = {
    f"n{index}": Node(
        f"n{index}",
        capacities={"memory": 64},
        fault_domain=f"fd:/rack{index % 3}",
        upgrade_domain=f"ud{index % 3}",
    )
    for index in range(6)
}
PARTITIONS = [f"db/{index}" for index in range(18)]

env = simpy.Environment()
log: list[str] = []
engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("memory")], max_moves_per_hour=MOST_MOVES), seed=7)
engine.update_nodes(NODES.values())
engine.update_service(Service("db", target_replicas=2))
engine.update_partitions(Partition(name, service="db") for name in PARTITIONS)


def memory(partition: str) -> float:
    """Return what a replica of a partition uses now, in GB: more for some, and by day more than by night."""
    index = PARTITIONS.index(partition)
    day = 1.0 + 0.5 * math.sin(2 * math.pi * (env.now / (24 * HOUR) + index / 9))
    return (4.0 + index % 5) * day


def carry_out(cause: str, plan: Plan) -> None:
    """Log a plan and begin its moves; each replica that moves stays on its source until it is copied."""
    engine.apply(plan, leaving=True)
    if not plan.moves and not plan.unplaced:
        return
    log.append(json.dumps({"time": env.now, "cause": cause, "plan": plan.to_dict()}))
    kinds = Counter(f"{move.kind.value} ({move.reason.rule})" for move in plan.moves)
    say(f"{cause}: {', '.join(f'{count} {kind}' for kind, count in kinds.items())}")
    for move in plan.moves:
        if move.kind.value == "move":
            env.process(copy(move.partition, move.source))


def copy(partition: str, source: str | None) -> Iterator[simpy.Event]:
    """Copy a replica, then let it leave its source, if that is not lost meanwhile."""
    yield env.timeout(COPY)
    if any(replica.leaving and replica.node == source for replica in engine.replicas(partition)):
        engine.vacate(partition, str(source))


def metering() -> Iterator[simpy.Event]:
    """Report the loads every ten minutes, and carry out what the engine plans."""
    while True:
        for partition in PARTITIONS:
            for role in (Role.PRIMARY, Role.SECONDARY):
                engine.report_role_load(partition, role, {"memory": memory(partition)})
        carry_out("refresh", engine.refresh(env.now))
        for violation in engine.violations():
            say(f"violation: {violation}")
        yield env.timeout(METERING)


def describe(partition: str, *, without: str = "", upgrading: bool = False, **changes: dict[str, Any]) -> None:
    """Describe a partition as it is, `without` a lost node, and with `changes` of its replicas by node."""
    replicas = {replica.node: replica for replica in engine.replicas(partition) if replica.node not in (None, without)}
    standing = [replica for replica in replicas.values() if not replica.leaving]
    roles = {replica.role for replica in standing}
    described = []
    for node, replica in replicas.items():
        role, leaving = replica.role, replica.leaving
        if leaving and role not in roles:  # the target of its move is lost, so it stays
            leaving = False
        if Role.PRIMARY not in roles and without and not leaving:  # the host elects a primary
            role = Role.PRIMARY
        described.append(Replica(role, str(node), leaving=leaving, **changes.get(str(node), {})))
    engine.update_partition(Partition(partition, service="db", replicas=described, upgrading=upgrading))


def loss(node: str) -> Iterator[simpy.Event]:
    """Lose a node with all that is on it, and get it back empty."""
    yield env.timeout(3 * HOUR + 300)
    engine.update_node(attrs.evolve(NODES[node], up=False), now=env.now)
    for partition in engine.partitions_on(node):
        describe(partition, without=node)
    carry_out(f"{node} is lost", engine.refresh(env.now))
    yield env.timeout(REPAIR)
    engine.update_node(NODES[node], now=env.now)
    say(f"{node} is back")


def upgrade() -> Iterator[simpy.Event]:
    """Restart the nodes domain by domain; primaries leave each node before it restarts, and return."""
    yield env.timeout(8 * HOUR + 300)
    done: list[str] = []
    for domain in sorted({str(node.upgrade_domain) for node in NODES.values()}):
        nodes = [node for node in NODES.values() if node.upgrade_domain == domain]
        primaries = {name: node.name for node in nodes for name in engine.partitions_on(node.name) if leads(name, node)}
        for node in nodes:
            engine.update_node(attrs.evolve(node, deactivation_intent="restart"), now=env.now)
        for partition, name in primaries.items():
            describe(partition, upgrading=True, **{name: {"upgrade": "swap_out"}})
        carry_out(f"{domain} is about to restart", engine.place(list(primaries), now=env.now))
        for node in nodes:
            engine.update_node(attrs.evolve(node, up=False), now=env.now)
            for partition in engine.partitions_on(node.name):
                describe(partition, upgrading=True, **{node.name: {"state": "down"}})
        yield env.timeout(RESTART)
        for node in nodes:
            engine.update_node(node, now=env.now)
            for partition in engine.partitions_on(node.name):
                mark = {"upgrade": "primary_returns"} if primaries.get(partition) == node.name else {}
                describe(partition, upgrading=bool(mark), **{node.name: mark})
        done.append(domain)
        engine.update_upgraded_domains(done)
        carry_out(f"{domain} has restarted", engine.place(list(primaries), now=env.now))
        for partition in primaries:
            describe(partition)
    engine.update_upgraded_domains([])


def leads(partition: str, node: Node) -> bool:
    """Return whether the primary of a partition is on a node."""
    return any(replica.node == node.name and replica.role is Role.PRIMARY for replica in engine.replicas(partition))


def say(text: str) -> None:
    """Print an event with its time."""
    print(f"{env.now / HOUR:5.2f} h: {text}")


env.process(metering())
env.process(loss("n2"))
env.process(upgrade())
env.run(until=12 * HOUR)

plans = [(entry["time"], Plan.from_dict(entry["plan"])) for entry in map(json.loads, log)]
balancing = [(time, move) for time, plan in plans for move in plan.moves if move.kind.value == "move"]
busiest = max(sum(start <= time < start + HOUR for time, _ in balancing) for start, _ in balancing)
print(f"{len(plans)} plans in the log; at most {busiest} moves in an hour; the first move:")
print(f"{balancing[0][1]}: {balancing[0][1].reason}")
if len(sys.argv) > 1:
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in log)
