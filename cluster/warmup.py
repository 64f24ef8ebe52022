"""Compiles the kernels in advance, for later processes: `plb warmup`.

A small cluster goes through placement, repair and balancing under each kind of settings, and small instances through
provisioning and predictions; the cache of kernels keeps what they use (`plb.compiler.cache`). This runs in as many
processes as there are cores: each finds the kernels of the others, and none compiles a kernel that another compiles.
"""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cluster.runs.pool import map_in_processes
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
from plb.compiler import clock, kernel
from plb.extensions.configuration import TERMS, Configuration
from plb.extensions.energy_terms import CompiledTerm, begin, cost_at_node
from plb.model import UpgradeMark
from plb.phrasing import counted
from plb.provisioning import AUTO, Affinity, Instance, NodeType, provision, replan
from plb.ready_made import (
    LeastDomains,
    MetricBalance,
    MostMovedService,
    MoveCostBetweenDomains,
    SafetyCapacity,
    SameDomain,
)
from plb.risk import DemandHistory
from plb.risk.peaks import MachinePeak, TaskSamples, parse, predict
from plb.settings.config import SERVICE_FABRIC_FORM
from plb.state.arrays import Proposal
from plb.testing import verify

# a small cluster

PRIMARY, SECONDARY = Role.PRIMARY, Role.SECONDARY
NODES = 4
SERVICES: Mapping[str, tuple[float, Mapping[str, Any]]] = {
    "small": (20.0, {}),
    "large": (80.0, {}),
    "wide": (20.0, {"target_replicas": 2}),
    "beside": (5.0, {"target_replicas": 2, "affinity_to": "wide"}),
    "leader": (20.0, {}),
    "follower": (70.0, {"affinity_to": "leader"}),
    "part": (20.0, {"application": "bound"}),
    "heavy": (95.0, {}),
}
"""The cpu of a replica of each service, and its fields."""
BALANCING: Mapping[str, Any] = {"w_imbalance": 1e6, "max_percentage_to_move": 1.0}
ENGINES: Mapping[str, Mapping[str, Any]] = {
    "timeline": {"evaluation": "timeline", "max_moves": 1},
    "historical-simulation": {"estimator": "historical-simulation", "violation_cost": 1000.0},
    "peak predictors": {"estimator": "max(n-sigma:warmup=2;rc-like:warmup=2)"},
    "placement policies": {"policy": "prv_worst_fit"},
    "larger neighbourhoods": {
        **BALANCING,
        "exchange_moved_replicas": True,
        "similar_exchange_share": 0.5,
        "larger_neighbourhood_share": 0.5,
    },
    "empty nodes": {
        **BALANCING,
        "metrics": [Metric("cpu", placement_strategy=PlacementStrategy.RESERVATION, empty_nodes=3.0), Metric("disk")],
        "restricted_defragmentation_heuristic_enabled": True,
    },
    "Service Fabric": {**SERVICE_FABRIC_FORM, **BALANCING},
}
"""Settings by the name of the task that uses them."""


def _play(settings: Mapping[str, Any], **extensions: Any) -> None:
    """Let an engine place, repair and balance a small cluster, so that the kernels of these settings are compiled.

    `settings`: fields of `PlbConfig`; `extensions`: terms and constraints of the engine.
    """
    config = PlbConfig(**{"metrics": [Metric("cpu"), Metric("disk")], "held_out_nodes": 1, **settings})
    engine = PlacementAndLoadBalancing(config, history=_past_tenants(), **extensions)
    for number in range(NODES):
        engine.update_node(_node(number))
    engine.update_application(Application("bound", most_nodes=1, node_reservation={"cpu": 10.0}))
    for name, (cpu, fields) in SERVICES.items():
        load = {role: {"cpu": cpu, "disk": 1.0} for role in (PRIMARY, SECONDARY)}
        engine.update_service(Service(name, tenant_class="a", default_load=load, **fields))
    _evict(engine)
    _fill(engine)
    _overload(engine)
    _upgrade(engine)


def _node(number: int) -> Node:
    """Return node number `number`, in one of three racks and one of two upgrade domains."""
    rack, upgraded = f"fd:/r{number % 3}", f"u{number % 2}"
    return Node(f"n{number}", capacities={"cpu": 100, "disk": 100}, fault_domain=rack, upgrade_domain=upgraded)


def _past_tenants() -> DemandHistory:
    """Return a demand history with a trace for each role, of one class."""
    return DemandHistory.from_columns(
        ("cpu", "disk"),
        tenant_class=["a"] * 2,
        role=[PRIMARY.value, SECONDARY.value],
        lifetime=[1e6] * 2,
        level=[[50.0, 1.0], [60.0, 1.0]],
        initial=[[1.0, 1.0]] * 2,
        growth=[[600.0, 600.0]] * 2,
        maximum=[[100.0, 1.0]] * 2,
    )


def _partition(name: str, *replicas: Replica) -> Partition:
    """Return a partition with replicas, of the service that its name begins with, before any slash."""
    return Partition(name, service=name.partition("/")[0], replicas=replicas)


def _evict(engine: PlacementAndLoadBalancing) -> None:
    """Compile kernels of evictions: place replicas that fit only if others move, one with the replica it follows."""
    for number in range(NODES):
        engine.update_partition(_partition(f"small/{number}", Replica(PRIMARY, f"n{number}")))
    engine.balance()
    engine.update_partition(_partition("wide", Replica(PRIMARY, "n0"), Replica(SECONDARY, "n1")))
    engine.update_partition(_partition("large"))
    engine.place()
    engine.update_partition(_partition("leader", Replica(PRIMARY, "n0")))
    engine.update_partition(_partition("follower"))
    engine.apply(engine.place())
    list(engine.balance().moves)  # with their reasons


def _fill(engine: PlacementAndLoadBalancing) -> None:
    """Compile kernels of repair, affinity and applications: repair a crowded rack and node, and place replicas."""
    engine.update_partition(_partition("wide", Replica(PRIMARY, "n0"), Replica(SECONDARY, "n3")))
    surplus = (Replica(PRIMARY, "n0"), Replica(SECONDARY, "n1"), Replica(SECONDARY, "n2"))
    engine.update_partition(_partition("beside", *surplus))
    engine.update_partition(_partition("small/4", Replica(PRIMARY, "n0")))
    engine.repair()
    engine.balance()
    for name in ("small/5", "part/0", "part/1", "heavy"):
        engine.update_partition(_partition(name))
    engine.score("small/5")
    engine.apply(engine.place())


def _overload(engine: PlacementAndLoadBalancing) -> None:
    """Compile kernels of overload: repair nodes and an application above their limits, then again without a node."""
    replicas = engine.replicas("wide")
    engine.report_loads([replica.index for replica in replicas], [[90.0, 1.0]] * len(replicas))
    engine.update_application(Application("bound", node_capacity={"cpu": 30.0}, node_reservation={"cpu": 30.0}))
    engine.apply(engine.refresh(0.0))
    engine.update_node(attrs.evolve(_node(NODES - 1), up=False))
    engine.refresh(1.0)


def _upgrade(engine: PlacementAndLoadBalancing) -> None:
    """Compile kernels of upgrades and queries: hand a primary over, balance, ask for alternatives and violations."""
    marked = Replica(PRIMARY, "n0", upgrade=UpgradeMark.SWAP_OUT)
    engine.update_partition(_partition("wide", marked, Replica(SECONDARY, "n1")))
    engine.apply(engine.place())
    for plan in (engine.balance(), engine.repair()):
        list(plan.moves)
    engine.alternatives("wide")
    engine.violations(soft=True)
    engine.violation_probabilities()


# extensions


class _PlainTerm:
    """A term in plain Python."""

    name = "plain"

    def total(self, configuration: Configuration) -> float:
        """Return 0 for every configuration."""
        return 0.0 * configuration.nodes


@kernel
def _no_change(problem: Any, solution: Any, data: Any, sums: Any, proposal: Proposal) -> float:  # noqa: ARG001  # as a term must
    """Return 0, the change by a proposal of a term that only makes the kernels compile."""
    return 0.0


class _SwiftTerm(CompiledTerm):
    """A term with a kernel."""

    name = "swift"
    total = _PlainTerm.total
    change = _no_change


class _EmptyNode:
    """A constraint in plain Python."""

    name = "empty_node"

    def refuses(self, configuration: Configuration, proposal: Proposal) -> bool:
        """Return whether a replica would come to the first node."""
        return any(relocation.target == 0 for relocation in configuration.relocations(proposal))

    def broken(self, configuration: Configuration) -> list[int]:
        """Return the replicas on the first node."""
        return [int(row) for row in configuration.rows_on(0)]


READY_MADE_TERMS = (
    SafetyCapacity({"cpu": 0.1}),
    MetricBalance("cpu", "disk"),
    MoveCostBetweenDomains({}, default=1.0),
    MostMovedService(),
)
READY_MADE_RULES = (LeastDomains({"wide": 2, "large": 1}, of="partition"), SameDomain({"large": "wide"}))


def _extend() -> None:
    """Compile kernels of extensions: plan with terms and constraints in plain Python and with kernels."""
    _play({**BALANCING, "spread_moves": True}, extension_terms=[_PlainTerm()], extension_constraints=[_EmptyNode()])
    for terms in ([_SwiftTerm()], READY_MADE_TERMS):
        _play({**BALANCING, "spread_moves": False}, extension_terms=terms, extension_constraints=READY_MADE_RULES)


def _verify() -> None:
    """Compile kernels of property tests: compute the changes of terms and rules by a move."""
    for term in TERMS:
        verify(term).given(nodes=[10.0, 10.0], replicas=[(0, 4.0), (0, 2.0)]).moves((1, 1))
    capacities = {"cpu": 10.0, "disk": 10.0}
    for extension in READY_MADE_TERMS:
        facts = verify(extension).given(nodes=[capacities] * 2, replicas=[(0, 4.0), (0, 2.0)], metrics=("cpu", "disk"))
        facts.moves((1, 1))
        begin(extension, facts.configuration)
        cost_at_node(extension, facts.configuration, 0)
    for rule in READY_MADE_RULES:
        verify(rule).given(nodes=2, replicas=[(0, 1.0, "wide"), (1, 1.0, "wide"), (0, 1.0, "large")]).moves((2, 1))


# what is no engine

PREDICTORS = ("max(n-sigma;rc-like)", "n-sigma:form=paper", "per-machine-percentile", "historical-simulation", "oracle")
STREAMED = ("rc-like:warmup=2", "n-sigma:form=paper,warmup=2", "n-sigma:warmup=2", "historical-simulation:warmup=2")
USAGE = (1.0, 2.0, 3.0)
"""Usage of one task in each step."""
ALGORITHMS = {
    "paper": (
        "WFD-Avg",
        "NCD-DotProduct",
        "SpreadWFD-Avg-BinSearch",
        "Match-DotProduct-BinSearch",
        "Medea-NodeCandidates",
    ),
    "released": ("WFD-Avg", "NCD-DotProduct", "SpreadWFD-Avg-BinSearch"),
}
"""By rules, an algorithm of each kind; the released programs differ from the paper in these algorithms."""


def _predict() -> None:
    """Compile kernels of peak predictors: predict machines from columns of samples, and one machine step by step."""
    steps = len(USAGE)
    samples = TaskSamples.from_columns(
        machine=[0] * steps, task=[0] * steps, time=range(steps), usage=USAGE, limit=[4.0] * steps
    )
    predict(samples, [parse(text) for text in PREDICTORS], threads=1)
    for text in STREAMED:
        machine = MachinePeak(parse(text))
        for usage in USAGE:
            machine.update(["task"], [usage], [4.0])


def tiny_instance() -> Instance:
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


def _provision() -> None:
    """Compile kernels of provisioning: plan by an algorithm of each kind, by the search, and from a placement."""
    instance = tiny_instance()
    for rules, names in ALGORITHMS.items():
        for name in names:
            provision(instance, name, rules=rules)
    provision(instance, AUTO)
    replan(provision(instance, "FF"), most_moves=None)


def _meter() -> None:
    """Compile the kernels that compute demand and loads of a simulated cluster, with one replica."""
    zeros, demand = np.zeros(1, np.int64), np.zeros((1, 1))
    samples, steps = np.ones((1, 1), np.float32), np.ones(1, np.int32)
    find_demand(zeros, zeros, zeros, zeros, steps, samples, np.ones(1), 1, 60, demand)
    find_loads(zeros, zeros, zeros > 0, demand, np.zeros((2, 1, 1)))


TASKS: Mapping[str, Callable[[], None]] = {
    "engine": partial(_play, {"checks": "phase", "preferred_location_constraint_priority": 2}),
    "provisioning": _provision,
    "peak predictions": _predict,
    "extensions": _extend,
    **{name: partial(_play, settings) for name, settings in ENGINES.items()},
    "property tests": _verify,
    "metering": _meter,
}
"""The longest tasks are first, so that processes end at about the same time; the first compiles the shared kernels."""


# the run and its log


class Compilations(logging.Filter):
    """Collects the announcements of compilations and the warnings of the engine, and hides them from other handlers."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []
        """Texts of the warnings of the engine."""
        self._begun: list[tuple[str, float]] = []
        """Name of each kernel, and the second at which its compilation began."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Process a log record; return whether other handlers receive it."""
        if record.pathname == clock.__file__ and isinstance(record.args, tuple):
            self._begun.append((str(record.args[0]), time.perf_counter()))
        elif record.levelno >= logging.WARNING:
            self.warnings.append(record.getMessage())
        else:
            return True
        return False

    def kernels(self) -> list[tuple[str, float]]:
        """Return name of each compiled kernel, and seconds until the next compilation began, or until now."""
        begins = pairwise([*self._begun, ("", time.perf_counter())])
        return [(name, later - earlier) for (name, earlier), (_, later) in begins]


@contextmanager
def collected() -> Iterator[Compilations]:
    """Collect compilations during the block; yield the object that collects them."""
    logger, compilations = clock.logger, Compilations()
    level = logger.level
    logger.addFilter(compilations)
    logger.setLevel(logging.INFO)
    try:
        yield compilations
    finally:
        logger.setLevel(level)
        logger.removeFilter(compilations)


@attrs.frozen
class WarmupResult:
    """The result of a task."""

    task: str
    """Name of the task."""
    seconds: float
    """Seconds from its beginning to its end."""
    kernels: Sequence[tuple[str, float]]
    """Compiled kernels: name, and seconds until the next compilation began."""
    warnings: Sequence[str]
    """Warnings of the engine during the task."""
    error: str | None = None
    """The traceback, if the task failed."""

    def lines(self) -> list[str]:
        """Return the lines of the log on this task."""
        outcome = f"{counted(len(self.kernels), 'kernel')} compiled, {self.seconds:.2f} s"
        kernels = [f"{seconds:8.2f} s  {name}" for name, seconds in self.kernels]
        error = [] if self.error is None else self.error.splitlines()
        return [f"{self.task}: {'failed' if self.error else outcome}", *kernels, *self.warnings, *error]


def warm_up(jobs: int | None = None) -> Iterator[WarmupResult]:
    """Compile every kernel that is not on disk, in `jobs` processes, and yield the result of each task as it ends."""
    return map_in_processes(_do, TASKS, jobs=jobs)


def _do(task: str) -> WarmupResult:
    """Run the task of a name; an exception is part of its result, so that the others continue."""
    began, error = time.perf_counter(), None
    with collected() as compilations:
        try:
            TASKS[task]()
        except Exception:
            error = traceback.format_exc()
        kernels = compilations.kernels()
    return WarmupResult(task, time.perf_counter() - began, kernels, compilations.warnings, error)


class WarmupLog:
    """A file in the directory of the kernels, to which every run appends. A run continues if writing fails."""

    def __init__(self, directory: Path | None, jobs: int) -> None:
        self.path = None if directory is None else directory / "warmup.log"
        self.problem = None if directory is not None else "there is no home directory; set PLB_CACHE_DIR"
        """Why nothing is written; None: the log is written."""
        self.add([f"{datetime.now().astimezone().isoformat(' ', 'seconds')}: plb warmup --jobs {jobs}"])

    def add(self, lines: Sequence[str]) -> None:
        """Append lines, each after the number of this process."""
        if self.path is None or self.problem is not None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{os.getpid()} {line}\n" for line in lines))
        except OSError as error:
            self.problem = f"{self.path}: {error.strerror}"

    def where(self) -> str:
        """Return a sentence with the path of the log, or the reason why there is none."""
        if self.problem is None:
            return f"Log of the compilations: {self.path}"
        return f"There is no log of the compilations: {self.problem}"
