"""The engine in a loop of a few lines, without any simulator: report nodes, services and loads; get back plans.

Run it with `python examples/embedding.py`.
"""

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service

config = PlbConfig(metrics=[Metric("cpu", trend=False), Metric("memory"), Metric("disk")])
engine = PlacementAndLoadBalancing(config, seed=7)

for index in range(6):
    engine.update_node(
        Node(
            f"n{index}",
            capacities={"cpu": 80, "memory": 408, "disk": 5000},
            fault_domain=f"fd:/dc1/rack{index % 3}",
            upgrade_domain=f"ud{index}",
            properties={"ssd": "true", "zone": f"z{index % 2}"},
        )
    )

load = {"cpu": 3.0, "memory": 20.0, "disk": 400.0}
engine.update_service(
    Service(
        "orders",
        tenant_class="BC_Gen5_8",
        target_replicas=3,
        default_load={Role.PRIMARY: load, Role.SECONDARY: load},
        placement_constraint="ssd == true",
        move_cost="medium",
    )
)

# One replica of this partition stands already; the engine finds places for the other two.
engine.update_partition(Partition("orders/0", service="orders", replicas=[Replica(Role.PRIMARY, "n0")]))
plan = engine.refresh(now=0.0)
for move in plan.moves:
    print(f"{move}: {move.reason}")
engine.apply(plan)

# Demand grows beyond what the node may carry: the next plan mends that.
engine.report_load("orders/0", "n0", {"memory": 395.0})
engine.update_partition(Partition("orders/1", service="orders", replicas=[Replica(Role.PRIMARY, "n0")]))
print(*engine.violations(), sep="\n")
plan = engine.repair(now=600.0)
print(plan.explain("orders/1"))
print(f"energy {plan.energy_before.total:.3f} -> {plan.energy_after.total:.3f}; {plan.end_reason}")

# What fits nowhere is said, with the rule that each node fails.
engine.update_service(Service("archive", default_load={Role.PRIMARY: {"disk": 6000.0}}))
engine.update_partition(Partition("archive/0", service="archive"))
print(*engine.place("archive/0").unplaced)
