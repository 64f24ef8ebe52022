"""The engine in another discrete-event simulator: salabim (https://www.salabim.org).

Tenants with two replicas arrive, grow and depart, copies take time, and two nodes fail and recover. Every process
reports events to the engine and applies the returned plan.

Run it with `.venv/bin/pip install salabim` and `.venv/bin/python examples/embedding_in_salabim.py`.
"""

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

import attrs

from plb import (
    Metric,
    MoveKind,
    Node,
    Partition,
    PlacedReplica,
    PlacementAndLoadBalancing,
    Plan,
    PlbConfig,
    Replica,
    Role,
    Service,
)

try:
    import salabim as sim
except ModuleNotFoundError:
    sys.exit("salabim is not installed; get it by: .venv/bin/pip install salabim")

HOUR = 3600.0  # seconds, like all times here
METERING = 600.0
BETWEEN_ARRIVALS = HOUR / 3  # on average
LIFETIME = 12 * HOUR  # on average
COPIED_PER_SECOND = 0.02  # GB
NODES = {
    name: Node(name, capacities={"memory": 64}, fault_domain=f"fd:/dc1/rack{index % 3}")
    for index, name in enumerate(("n0", "n1", "n2", "n3", "n4", "n5"))
}

draws = random.Random(7)
counts: Counter[str] = Counter()
tenants: dict[str, "Tenant"] = {}
copies: dict[tuple[str, str], "Copy"] = {}  # in progress, by partition and source

engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("memory")]), seed=7)
for node in NODES.values():
    engine.update_node(node)
load = {"memory": 2.0}
engine.update_service(Service("tenants", target_replicas=2, default_load={Role.PRIMARY: load, Role.SECONDARY: load}))


class Tenant(sim.Component):
    """A tenant, from arrival to departure."""

    def process(self) -> Iterator[None]:
        """Place the tenant, wait for its lifetime, and remove it."""
        name, now = self.name(), self.env.now()
        engine.update_partition(Partition(name, service="tenants", created=now))
        plan = engine.place(name, now=now)
        if plan.unplaced:
            counts["refused"] += 1
            engine.remove_partition(name)
            return
        counts["placed"] += 1
        tenants[name] = self
        self.born, self.growth = now, draws.uniform(0.0, 0.5) / HOUR
        apply_plan(plan)
        yield self.hold(draws.expovariate(1 / LIFETIME))
        for (partition, _), copy in list(copies.items()):
            if partition == name:
                copy.abandon()
        del tenants[name]
        engine.remove_partition(name)

    def memory(self) -> float:
        """Return the present usage of each replica in GB."""
        age: float = self.env.now() - self.born
        return min(2 + self.growth * age, 12.0)


class Arrivals(sim.Component):
    """Starts tenants."""

    def process(self) -> Iterator[None]:
        """Start one tenant after another."""
        while True:
            Tenant()
            yield self.hold(draws.expovariate(1 / BETWEEN_ARRIVALS))


class Metering(sim.Component):
    """Reports the usage of tenants, and refreshes the engine."""

    def process(self) -> Iterator[None]:
        """Meter at fixed times."""
        while True:
            yield self.hold(METERING)
            for name, tenant in tenants.items():
                for role in (Role.PRIMARY, Role.SECONDARY):
                    engine.report_role_load(name, role, {"memory": tenant.memory()})
            counts["violations"] += len(engine.violations())
            apply_plan(engine.refresh(self.env.now()))


class Copy(sim.Component):
    """A copy of a replica, which is on its target at once and leaves its source at the end."""

    def setup(self, partition: str, source: str) -> None:
        """Record partition and source."""
        self.key = partition, source
        copies[partition, source] = self

    def process(self) -> Iterator[None]:
        """Copy the data, then leave the source."""
        partition, source = self.key
        yield self.hold(tenants[partition].memory() / COPIED_PER_SECOND)
        del copies[self.key]
        engine.vacate(partition, source)

    def abandon(self) -> None:
        """End the copy, because the tenant has left or a node is lost."""
        del copies[self.key]
        self.cancel()


class Outage(sim.Component):
    """A node that fails and is repaired."""

    def setup(self, node: str, repair: float) -> None:
        """Record the node and the duration of the repair."""
        self.node, self.repair = node, repair

    def process(self) -> Iterator[None]:
        """Fail and recover."""
        engine.update_node(attrs.evolve(NODES[self.node], up=False), now=self.env.now())
        touched = [name for name in tenants if self.node in {one.node for one in engine.replicas(name)}]
        for name in touched:
            lose(name, self.node)
        plan = engine.refresh(self.env.now())
        say(f"{self.node} is down; {len(touched)} tenants lose a replica, {len(plan.moves)} moves begin")
        apply_plan(plan)
        yield self.hold(self.repair)
        engine.update_node(NODES[self.node], now=self.env.now())
        say(f"{self.node} is up again")


def lose(partition: str, node: str) -> None:
    """Report to the engine the remaining replicas of a partition after the loss of a node."""
    replicas = engine.replicas(partition)
    for one in replicas:
        if one.leaving and one.node is not None:
            copies[partition, one.node].abandon()
    engine.update_partition(Partition(partition, service="tenants", replicas=left_without(node, replicas)))


def left_without(node: str, replicas: Sequence[PlacedReplica]) -> list[Replica]:
    """Return the replicas after the loss of a node: moves end, and a secondary replaces a lost primary."""
    nodes = {one.role: one.node for one in replicas if not one.leaving and one.node not in (node, None)}
    for one in replicas:  # if the target of a move is lost, its source stays; otherwise the source is removed
        if one.leaving and one.node not in (node, None):
            nodes.setdefault(one.role, one.node)
    if nodes and Role.PRIMARY not in nodes:
        nodes = {Role.PRIMARY: nodes[Role.SECONDARY]}
    return [Replica(role, where) for role, where in nodes.items()]


def apply_plan(plan: Plan) -> None:
    """Begin the moves of a plan."""
    engine.apply(plan, leaving=True)
    for move in plan.moves:
        counts[f"{move.kind.value}s"] += 1
        if move.kind is MoveKind.MOVE:
            Copy(partition=move.partition, source=move.source)


def say(text: str) -> None:
    """Print an event with its time."""
    print(f"{env.now() / HOUR:4.1f} h: {text}")


sim.yieldless(False)
env = sim.Environment()
Arrivals()
Metering()
Outage(node="n2", repair=2 * HOUR, at=20 * HOUR)
Outage(node="n4", repair=1 * HOUR, at=30 * HOUR)
for day in (1, 2):
    env.run(till=day * 24 * HOUR)
    counted = ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))
    say(f"{len(tenants)} tenants run; so far {counted}")
