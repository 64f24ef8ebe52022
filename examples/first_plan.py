"""The first plan: two replicas of a partition on three nodes."""

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Service

engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]))
for number in range(3):
    engine.update_node(Node(f"n{number}", capacities={"cpu": 16}, fault_domain=f"fd:/rack{number}"))
loads = {"primary": {"cpu": 4}, "secondary": {"cpu": 1}}
engine.update_service(Service("orders", target_replicas=2, default_load=loads))
engine.update_partition(Partition("orders/0", service="orders"))
plan = engine.refresh(now=0.0)
print(*plan.moves, sep="\n")
engine.apply(plan)
print(engine.node_loads())
