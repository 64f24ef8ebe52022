"""The engine in a loop of a few lines, without a simulator: report loads, request a plan, apply it.

Run it with `.venv/bin/python examples/embedding.py`.
"""

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Role, Service

engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("memory")]), seed=7)
for index in range(4):
    engine.update_node(Node(f"n{index}", capacities={"memory": 64}))
engine.update_service(Service("orders", default_load={Role.PRIMARY: {"memory": 8}}))
partitions = [f"orders/{index}" for index in range(12)]
for partition in partitions:
    engine.update_partition(Partition(partition, service="orders"))
replicas = [engine.replicas(partition)[0].index for partition in partitions]

for now in (0.0, 600.0, 1200.0, 1800.0, 2400.0):  # in your program: at each measurement
    measured = [[8 + now / 50] if partition == "orders/3" else [8] for partition in partitions]
    engine.report_loads(replicas, measured)
    plan = engine.refresh(now)
    for move in plan.moves[:2]:
        print(f"{now:4g} s: {move}: {move.reason}")
    engine.apply(plan)

print({node: load["memory"] for node, load in engine.node_loads().items()})
