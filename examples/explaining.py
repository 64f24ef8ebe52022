"""Explanations of the engine: violations, reasons of moves, and why a replica is not placed or not moved.

Run it with `.venv/bin/python examples/explaining.py`.
"""

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service

config = PlbConfig(metrics=[Metric("cpu")], capacity_limit="capacity")
engine = PlacementAndLoadBalancing(config, seed=7)
for name, rack, zone, cpu in (
    ("n0", "rack0", "z0", 10),
    ("n1", "rack0", "z0", 10),
    ("n2", "rack1", "z0", 10),
    ("n3", "rack1", "z0", 4),
    ("n4", "rack1", "z1", 10),
):
    node = Node(name, capacities={"cpu": cpu}, fault_domain=f"fd:/dc1/{rack}", properties={"zone": zone})
    engine.update_node(node)

load = {Role.PRIMARY: {"cpu": 5}, Role.SECONDARY: {"cpu": 5}}
engine.update_service(Service("db", target_replicas=2, default_load=load, placement_constraint="zone == z0"))

print("# what is wrong now")
both_in_a_rack = [Replica(Role.PRIMARY, "n0", pinned=True), Replica(Role.SECONDARY, "n1")]
engine.update_partition(Partition("db/0", service="db", replicas=both_in_a_rack))
for violation in engine.violations():
    print(violation)

print("# why it moves")
plan = engine.repair()
print(plan.explain("db/0"))
reason = plan.moves[0].reason
print(reason.rule, reason.domain, dict(reason.numbers))
engine.apply(plan)

print("# why it fits nowhere")
engine.update_partition(Partition("db/1", service="db", replicas=[Replica(Role.PRIMARY, "n1", pinned=True)]))
engine.report_load("db/0", "n2", {"cpu": 8})
pinned = [Replica(Role.PRIMARY, "n0", pinned=True), Replica(Role.SECONDARY, "n2", pinned=True)]
engine.update_partition(Partition("db/0", service="db", replicas=pinned))
plan = engine.place()
print(plan.explain("db/1"))
print(plan.unplaced[0].ruled_out)

print("# why it stays")
plan = engine.refresh(now=60.0)
print(plan.explain("db/0"))
