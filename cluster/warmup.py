"""Compile every kernel ahead, so that the first plan of a later process does not wait: `plb warmup`."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.provisioning import Affinity, Instance, NodeType, provision, replan
from plb.risk import DemandHistory, ObservedRisk, ReplicaOutlook
from plb.risk.peaks import TaskSamples, parse, predict

PAPER_ALGORITHMS = (
    "auto",
    "WFD-Avg",
    "NCD-DotProduct",
    "SpreadWFD-Avg-BinSearch",
    "Match-DotProduct-BinSearch",
    "Medea-NodeCandidates",
)
RELEASED_ALGORITHMS = ("WFD-Avg", "NCD-DotProduct", "SpreadWFD-Avg-BinSearch")
PREDICTORS = ("max(n-sigma;rc-like)", "n-sigma:form=paper", "per-machine-percentile", "oracle")


def warm_up(report: Callable[[str], None] = lambda _step: None) -> None:
    """Make small plans and predictions that need every kernel; a second run in the same environment takes a second.

    Parameters
    ----------
    report
        Called with the name of each step before it begins.
    """
    engine = _tiny_engine()
    report("placement")
    engine.apply(engine.place())
    report("placement with moves of existing replicas")
    _fill_up(engine)
    engine.place()
    report("placement beside others")
    _follow(engine)
    engine.place()
    report("repair")
    for node in ("n0", "n1"):
        engine.report_load("wide", node, {"cpu": 90.0})
    engine.repair()
    report("balancing")
    engine.balance()
    report("placement policies")
    engine.configure(attrs.evolve(engine.config, policy="prv_worst_fit"))
    engine.place()
    engine.repair()
    report("an estimator that goes by reports")
    engine.configure(attrs.evolve(engine.config, estimator="gaussian"))
    engine.repair()
    report("risk models that go by samples")
    replica = ReplicaOutlook(None, Role.INSTANCE, 0.0, {}, 0, samples={"cpu": [1.0] * 3})
    ObservedRisk("rc-like:warmup=2", steps={"cpu": 1.0}).predicted_peaks([replica])
    report("peak predictions")
    samples = TaskSamples.from_columns(machine=[0] * 3, task=[0] * 3, time=range(3), usage=[1.0] * 3, limit=[2.0] * 3)
    predict(samples, [parse(text) for text in PREDICTORS], threads=1)
    report("provisioning")
    warm_up_provisioning()


def warm_up_provisioning() -> None:
    """Make small plans that need every kernel of provisioning."""
    instance = _tiny_instance()
    for name in PAPER_ALGORITHMS:
        provision(instance, name)
    for name in RELEASED_ALGORITHMS:
        provision(instance, name, rules="released")
    replan(provision(instance, "FF"), most_moves=None)


def _tiny_instance() -> Instance:
    """Return an instance that needs one node more than its lower bound, so that searches begin."""
    ones = np.ones(2, np.int32)
    return Instance(
        name="tiny",
        resources=("cpu",),
        applications=("a", "b"),
        replicas=ones,
        demand=ones[:, None, None],
        affinity=Affinity.from_columns([0], [1], [0], 2),
        nodes=(NodeType("node", 2 * ones[:1]),),
        units=(1.0,),
    )


def _tiny_engine() -> PlacementAndLoadBalancing:
    history = DemandHistory.from_columns(
        ("cpu",),
        tenant_class=["a", "a"],
        role=[0, 1],
        lifetime=[1e6, 1e6],
        level=[[50.0], [60.0]],
        initial=[[1.0], [1.0]],
        growth=[[600.0], [600.0]],
        maximum=[[100.0], [100.0]],
    )
    config = PlbConfig(metrics=[Metric("cpu")], held_out_nodes=1, checks="phase")
    engine = PlacementAndLoadBalancing(config, history=history)
    for index in range(4):
        engine.update_node(
            Node(f"n{index}", capacities={"cpu": 100}, fault_domain=f"fd:/r{index % 3}", upgrade_domain=f"u{index % 2}")
        )
    load = {Role.PRIMARY: {"cpu": 20.0}, Role.SECONDARY: {"cpu": 10.0}}
    engine.update_service(Service("wide", tenant_class="a", target_replicas=2, default_load=load))
    engine.update_service(Service("large", tenant_class="a", default_load={Role.PRIMARY: {"cpu": 80.0}}))
    copies = (Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1"))
    engine.update_partition(Partition("wide", service="wide", replicas=copies))
    engine.update_partition(Partition("other", service="wide"))
    return engine


def _fill_up(engine: PlacementAndLoadBalancing) -> None:
    """Leave no node with room for a large replica."""
    engine.update_service(Service("small", tenant_class="a", default_load={Role.PRIMARY: {"cpu": 20.0}}))
    for index in range(4):
        engine.update_partition(
            Partition(f"small/{index}", service="small", replicas=(Replica(Role.PRIMARY, f"n{index}"),))
        )
    engine.update_partition(Partition("large", service="large"))


def _follow(engine: PlacementAndLoadBalancing) -> None:
    """Let a large replica have to stand beside a small one, where there is no room for it."""
    for name, load, leader in (("leader", 10.0, None), ("follower", 70.0, "leader")):
        load_of = {Role.PRIMARY: {"cpu": load}}
        engine.update_service(Service(name, tenant_class="a", default_load=load_of, affinity_to=leader))
    engine.update_partition(Partition("leader", service="leader", replicas=(Replica(Role.PRIMARY, "n0"),)))
    engine.update_partition(Partition("follower", service="follower"))
