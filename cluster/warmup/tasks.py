"""The tasks of `plb warmup`: tiny engines, risk models and provisioning instances that use every kernel once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np

from cluster.simulation.ledger import find_demand, find_loads
from plb import (
    Application,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlacementStrategy,
    PlbConfig,
    Replica,
    Role,
    Service,
)
from plb.array_types import Int
from plb.compiler import kernel
from plb.extensions.configuration import TERMS, Configuration
from plb.extensions.energy_terms import CompiledTerm, begin, cost_at_node
from plb.model import UpgradeMark
from plb.provisioning import AUTO, Affinity, Instance, NodeType, provision, replan
from plb.ready_made import (
    LeastDomains,
    MetricBalance,
    MostMovedService,
    MoveCostBetweenDomains,
    SafetyCapacity,
    SameDomain,
)
from plb.registry import register_constraint, register_term
from plb.risk import DemandHistory
from plb.risk.peaks import MachinePeak, TaskSamples, parse, predict
from plb.state.arrays import Problem, Proposal, Solution
from plb.testing import verify

NODES = 4
PRIMARY, SECONDARY = Role.PRIMARY, Role.SECONDARY


def place_new_replicas() -> None:
    """Score nodes for new replicas and place them, with violation probabilities from a demand history."""
    engine = _tiny_engine(preferred_location_constraint_priority=2)
    engine.update_partition(Partition("new", service="wide"))
    engine.score("new")
    engine.apply(engine.place())


def follow_events() -> None:
    """Plan after a node has failed, and after reports, with violations tested at departures."""
    engine = _tiny_engine(evaluation="timeline")
    engine.refresh(0.0)
    engine.update_node(attrs.evolve(_node(NODES - 1), up=False))
    engine.report_loads([engine.replicas("wide")[0].index], [[30.0]])
    engine.refresh(1.0)


def evict() -> None:
    """Place a replica that fits only if others are moved."""
    engine = _tiny_engine()
    _add_service(engine, "small", 20.0)
    for node in range(NODES):
        _add_placed(engine, f"small/{node}", f"n{node}")
    _add_service(engine, "large", 80.0)
    engine.update_partition(Partition("large", service="large"))
    engine.place()


def place_beside_others() -> None:
    """Place a replica with affinity to another one whose node lacks capacity, and balance both."""
    engine = _tiny_engine()
    _add_service(engine, "leader", 20.0)
    _add_service(engine, "follower", 70.0, affinity_to="leader")
    _add_placed(engine, "leader", "n0")
    engine.update_partition(Partition("follower", service="follower"))
    engine.apply(engine.place())
    engine.balance()
    engine.violations(soft=True)


def repair() -> None:
    """Move replicas from nodes above their limits: first with a budget, then all of them; and out of a crowded rack."""
    engine = _tiny_engine(max_moves=1)
    _overload(engine)
    engine.repair()
    engine.configure(attrs.evolve(engine.config, max_moves=None))
    engine.repair()
    engine = _tiny_engine()
    crowded = (Replica(PRIMARY, "n0"), Replica(SECONDARY, "n3"))
    engine.update_partition(Partition("wide", service="wide", replicas=crowded))
    engine.configure(attrs.evolve(engine.config, one_action_per_refresh=True))
    engine.repair()


def balance() -> None:
    """Balance the load of nodes, and list the alternatives of a replica."""
    engine = _tiny_engine(w_imbalance=1e6, max_percentage_to_move=1.0)
    _add_service(engine, "small", 20.0)
    for number in range(3):
        _add_placed(engine, f"small/{number}", "n0")
    engine.balance()
    engine.alternatives("wide")
    engine.violation_probabilities()


def balance_full_nodes() -> None:
    """Balance with steps of several moves, and with exchanges of replicas of similar size."""
    engine = _tiny_engine(
        w_imbalance=1e6,
        max_percentage_to_move=1.0,
        exchange_moved_replicas=True,
        similar_exchange_share=0.5,
        larger_neighbourhood_share=0.5,
    )
    _add_service(engine, "small", 20.0)
    for number in range(3):
        _add_placed(engine, f"small/{number}", "n0")
    engine.balance()


def empty_nodes() -> None:
    """Balance with moves that empty nodes only."""
    reserving = Metric("cpu", placement_strategy=PlacementStrategy.RESERVATION, empty_nodes=NODES - 1.0)
    engine = _tiny_engine(metrics=[reserving], restricted_defragmentation_heuristic_enabled=True)
    engine.balance()


def place_one_at_a_time() -> None:
    """Place and repair by a placement policy, with affinity moves."""
    engine = _tiny_engine(policy="prv_worst_fit")
    _add_service(engine, "single", 20.0)
    engine.update_partition(Partition("new", service="single"))
    _add_service(engine, "follower", 5.0, affinity_to="wide")
    engine.update_partition(Partition("follower", service="follower"))
    engine.apply(engine.place())
    _add_service(engine, "heavy", 95.0)
    _add_placed(engine, "heavy", "n0")
    engine.repair()
    _overload(engine)
    engine.repair()


def bind_applications() -> None:
    """Place, explain and repair under the limits and the reservation of an application, which then change."""
    engine = _tiny_engine()
    engine.update_application(Application("small", most_nodes=1, node_reservation={"cpu": 90.0}))
    _add_service(engine, "part", 20.0, application="small")
    for name in ("part/0", "part/1"):
        engine.update_partition(Partition(name, service="part"))
    engine.apply(engine.place())
    _add_service(engine, "large", 90.0)
    engine.update_partition(Partition("large", service="large"))
    engine.place()
    engine.alternatives("part/0")
    engine.update_application(Application("small", node_capacity={"cpu": 30.0}, node_reservation={"cpu": 30.0}))
    engine.repair()


def plan_by_reports() -> None:
    """Plan with an estimator that uses reports."""
    engine = _tiny_engine(estimator="gaussian")
    _overload(engine)
    engine.repair()


def plan_by_the_past() -> None:
    """Plan with moments of the past, and tell probabilities from the present demand."""
    engine = _tiny_engine(estimator="historical-simulation")
    _overload(engine)
    engine.repair()
    engine.violation_probabilities()


def hand_over_and_drop() -> None:
    """Move the role of a primary before an upgrade, and drop surplus replicas."""
    engine = _tiny_engine()
    _add_service(engine, "beside", 1.0, target_replicas=2, affinity_to="wide")
    marked = Replica(PRIMARY, "n0", upgrade=UpgradeMark.SWAP_OUT)
    engine.update_partition(Partition("wide", service="wide", replicas=(marked, Replica(SECONDARY, "n1"))))
    copies = (Replica(PRIMARY, "n0"), *(Replica(SECONDARY, node) for node in ("n1", "n2")))
    engine.update_partition(Partition("beside", service="beside", replicas=copies))
    engine.place()


def plan_with_extension_terms() -> None:
    """Balance with extension terms: one in plain Python, and one with kernels."""
    for term in (_PlainTerm(), _SwiftTerm()):
        register_term(term)
        engine = _tiny_engine(extension_terms={term.name: 1.0}, spread_moves=term.name == _PlainTerm.name)
        engine.balance()
        engine.configure(attrs.evolve(engine.config, spread_moves=False))
        engine.balance()


def plan_with_ready_made_terms() -> None:
    """Balance with the terms of `plb.ready_made`, and compute their changes by a move, as property tests do."""
    terms = (
        SafetyCapacity({"cpu": 0.1}),
        MetricBalance("cpu", "disk"),
        MoveCostBetweenDomains({}, default=1.0),
        MostMovedService(),
    )
    capacities = {"cpu": 10.0, "disk": 10.0}
    for term in terms:
        facts = verify(term).given(nodes=[capacities] * 2, replicas=[(0, 4.0), (0, 2.0)], metrics=("cpu", "disk"))
        facts.moves((1, 1))
        begin(term, facts.configuration)
        cost_at_node(term, facts.configuration, 0)
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu"), Metric("disk")]), extension_terms=terms)
    for number in range(NODES):
        engine.update_node(Node(f"n{number}", capacities=capacities))
    engine.update_service(Service("wide", stateful=False))
    engine.update_partition(Partition("wide", service="wide", replicas=[Replica(Role.INSTANCE, "n0")]))
    engine.report_load("wide", "n0", {"cpu": 4.0})
    engine.balance()


def repair_extension_constraints() -> None:
    """Move the replicas that break a constraint in plain Python."""
    register_constraint(_EmptyNode())
    _tiny_engine(extension_constraints=[_EmptyNode.name]).repair()


def plan_with_ready_made_rules() -> None:
    """Place a replica, and then repair, with each rule of `plb.ready_made`."""
    for rule in (LeastDomains({"wide": 2, "new": 1}, of="partition"), SameDomain({"new": "wide"})):
        verify(rule).given(nodes=2, replicas=[(0, 1.0, "wide"), (1, 1.0, "wide"), (0, 1.0, "new")]).moves((2, 1))
        register_constraint(rule)
        engine = _tiny_engine(extension_constraints=[rule.name])
        engine.update_partition(Partition("new", service="wide"))
        engine.refresh(0.0)


def change_terms() -> None:
    """Compute the changes of the built-in energy terms by a move, as property tests do."""
    for term in TERMS:
        verify(term).given(nodes=[10.0, 10.0], replicas=[(0, 4.0), (0, 2.0)]).moves((1, 1))


def _tiny_engine(**settings: Any) -> PlacementAndLoadBalancing:
    """Return an engine with a few nodes and one partition, which has a demand history."""
    config = PlbConfig(**{"metrics": [Metric("cpu")], "held_out_nodes": 1, "checks": "phase", **settings})
    engine = PlacementAndLoadBalancing(config, history=_past_tenants({PRIMARY: 50.0, SECONDARY: 60.0}, 100.0))
    for number in range(NODES):
        engine.update_node(_node(number))
    load = {PRIMARY: {"cpu": 20.0}, SECONDARY: {"cpu": 10.0}}
    engine.update_service(Service("wide", tenant_class="a", target_replicas=2, default_load=load))
    copies = (Replica(PRIMARY, "n0"), Replica(SECONDARY, "n1"))
    engine.update_partition(Partition("wide", service="wide", replicas=copies))
    return engine


def _node(number: int) -> Node:
    """Return a node of three racks and two upgrade domains."""
    rack, upgraded = f"fd:/r{number % 3}", f"u{number % 2}"
    return Node(f"n{number}", capacities={"cpu": 100}, fault_domain=rack, upgrade_domain=upgraded)


def _past_tenants(level: Mapping[Role, float], maximum: float) -> DemandHistory:
    """Return a demand history with a trace for each role, of one class."""
    count = len(level)
    return DemandHistory.from_columns(
        ("cpu",),
        tenant_class=["a"] * count,
        role=[role.value for role in level],
        lifetime=[1e6] * count,
        level=[[one] for one in level.values()],
        initial=[[1.0]] * count,
        growth=[[600.0]] * count,
        maximum=[[maximum]] * count,
    )


def _add_service(engine: PlacementAndLoadBalancing, name: str, cpu: float, **fields: Any) -> None:
    load = {PRIMARY: {"cpu": cpu}, SECONDARY: {"cpu": cpu}}
    engine.update_service(Service(name, tenant_class="a", default_load=load, **fields))


def _add_placed(engine: PlacementAndLoadBalancing, name: str, node: str) -> None:
    """Add a partition with one replica on a node. Its service is the part of its name before the slash."""
    engine.update_partition(Partition(name, service=name.partition("/")[0], replicas=(Replica(PRIMARY, node),)))


def _overload(engine: PlacementAndLoadBalancing) -> None:
    """Add a second replica to each node of the first partition, with both above the limits of the node."""
    for node in ("n0", "n1"):
        _add_service(engine, f"more-{node}", 30.0)
        _add_placed(engine, f"more-{node}", node)
        engine.report_load("wide", node, {"cpu": 90.0})


class _PlainTerm:
    """A term in plain Python."""

    name = "warm_up_plain"

    def total(self, configuration: Configuration) -> float:
        """Return 0 for every configuration."""
        return 0.0 * configuration.nodes


@kernel
def _no_change(problem: Problem, solution: Solution, sums: Int, proposal: Proposal) -> float:  # noqa: ARG001  # as of every term
    """Return 0."""
    return 0.0


class _EmptyNode:
    """A constraint in plain Python."""

    name = "warm_up_empty_node"

    def refuses(self, configuration: Configuration, proposal: Proposal) -> bool:
        """Return whether a replica would come to the first node."""
        return any(one.target == 0 for one in configuration.relocations(proposal))

    def broken(self, configuration: Configuration) -> list[int]:
        """Return the replicas on the first node."""
        return [int(row) for row in configuration.rows_on(0)]


class _SwiftTerm(CompiledTerm):
    """A term with a kernel."""

    name = "warm_up_swift"
    total = _PlainTerm.total
    change = _no_change


def meter() -> None:
    """Meter a replica of a simulated cluster."""
    zeros, demand = np.zeros(1, np.int64), np.zeros((1, 1))
    samples, steps = np.ones((1, 1), np.float32), np.ones(1, np.int32)
    find_demand(zeros, zeros, zeros, zeros, steps, samples, np.ones(1), 1, 60, demand)
    find_loads(zeros, zeros, zeros > 0, demand, np.zeros((2, 1, 1)))


PREDICTORS = ("max(n-sigma;rc-like)", "n-sigma:form=paper", "per-machine-percentile", "historical-simulation", "oracle")
STREAMED = ("rc-like:warmup=2", "n-sigma:form=paper,warmup=2", "n-sigma:warmup=2", "historical-simulation:warmup=2")
USAGE = ([1.0], [2.0], [3.0])
"""Usage of one task in each step."""


def predict_peaks() -> None:
    """Predict the peaks of machines from columns of samples."""
    steps = len(USAGE)
    samples = TaskSamples.from_columns(
        machine=[0] * steps, task=[0] * steps, time=range(steps), usage=[one[0] for one in USAGE], limit=[4.0] * steps
    )
    predict(samples, [parse(text) for text in PREDICTORS], threads=1)


def predict_a_machine() -> None:
    """Predict the peak of one machine, step by step."""
    for text in STREAMED:
        machine = MachinePeak(parse(text))
        for usage in USAGE:
            machine.update(["task"], usage, [4.0])


PAPER_ALGORITHMS = (
    "WFD-Avg",
    "NCD-DotProduct",
    "SpreadWFD-Avg-BinSearch",
    "Match-DotProduct-BinSearch",
    "Medea-NodeCandidates",
)
RELEASED_ALGORITHMS = ("WFD-Avg", "NCD-DotProduct", "SpreadWFD-Avg-BinSearch")


def provision_as_in_the_paper() -> None:
    """Plan by algorithms of each kind, with the rules of the paper."""
    for name in PAPER_ALGORITHMS:
        provision(_tiny_instance(), name)


def provision_as_released() -> None:
    """Plan by the algorithms that differ in the authors' programs, with the rules of these."""
    for name in RELEASED_ALGORITHMS:
        provision(_tiny_instance(), name, rules="released")


def provision_by_search() -> None:
    """Plan by the search that improves the plans of the algorithms."""
    provision(_tiny_instance(), AUTO)


def provision_from_placement() -> None:
    """Plan from a present placement."""
    replan(provision(_tiny_instance(), "FF"), most_moves=None)


def _tiny_instance() -> Instance:
    """Return an instance that needs one node more than its lower bound, so that searches run."""
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


PROVISIONING: Mapping[str, Callable[[], None]] = {
    "provisioning as in the paper": provision_as_in_the_paper,
    "provisioning by search": provision_by_search,
    "provisioning from a placement": provision_from_placement,
    "provisioning as released": provision_as_released,
}
TASKS: Mapping[str, Callable[[], None]] = {
    "placement": place_new_replicas,
    "changes between plans": follow_events,
    **PROVISIONING,
    "repair": repair,
    "peak predictions": predict_peaks,
    "extension terms": plan_with_extension_terms,
    "ready-made terms": plan_with_ready_made_terms,
    "energy terms": change_terms,
    "extension constraints": repair_extension_constraints,
    "full nodes": balance_full_nodes,
    "empty nodes": empty_nodes,
    "ready-made rules": plan_with_ready_made_rules,
    "placement policies": place_one_at_a_time,
    "evictions for new replicas": evict,
    "peaks of a machine": predict_a_machine,
    "placement with affinity": place_beside_others,
    "applications": bind_applications,
    "estimators": plan_by_reports,
    "historical_simulation": plan_by_the_past,
    "upgrades": hand_over_and_drop,
    "balancing": balance,
    "metering": meter,
}
"""The longest tasks are first, so that processes end at about the same time; they compile the shared kernels."""
