"""Machine reassignment: how near the search comes to the best known costs, `plb bench reassignment`.

The instances come from the ROADEF/EURO challenge 2012 (`cluster.bench.reassignment_instances`). Each process is a
partition with one replica, and all its costs and constraints are ready-made terms and rules of the engine. The instance
computes the cost of the result without the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from rich.table import Table

from cluster.bench.reassignment_instances import ReassignmentInstance, find_instances, read_instance
from cluster.tables import new_table
from plb.compiler import working_time
from plb.engine import PlacementAndLoadBalancing
from plb.extensions.constraints import Constraint
from plb.extensions.energy_terms import EnergyTerm
from plb.model import Metric, Node, Partition, Replica, Role, Service
from plb.ready_made import (
    LeastDomains,
    MetricBalance,
    MostMovedService,
    MoveCostBetweenDomains,
    SafetyCapacity,
    SameDomain,
)
from plb.search.budget import Budget
from plb.settings.config import PlbConfig
from plb.validation import check_known

PROCESSES_ON_MACHINE = 20
"""Mean number of processes on a machine up to which the search begins hot, and half of its steps move several."""
MOST_ON_MACHINE = 100
"""Mean number of processes on a machine from which on the search makes single proposals only."""
PROCESSES_FOR_SOFT_CAPACITY = 10_000
"""Number of processes up to which each gets enough proposals in minutes for a hot search with soft capacity."""
SOFT: dict[str, Any] = {
    "soft_capacity": True,
    "last_temperature": 0.001,
    "exchange_probability": 0.25,
    "similar_exchange_share": 0.5,
}
"""Settings of the search with soft capacity. Few exchanges leave more proposals that return processes to where they
were, where transient resources have the most room for them."""
HARD: dict[str, Any] = {
    "soft_capacity": False,
    "last_temperature": 0.01,
    "exchange_probability": 0.5,
    "similar_exchange_share": 0.3,
}
"""Settings of the search with hard capacity. Moves leave one of two full machines with too much more often than
exchanges."""
FIRST_TEMPERATURE_HARD = 0.3
"""First temperature with hard capacity, in units of the first temperature with soft capacity."""
SECONDS_A_PROCESS = 0.1
"""Time of a chain for each process. With more, several chains make the result depend less on chance."""
MOST_CHAINS = 4
"""Largest number of chains of a search."""
BEST_KNOWN = {
    "a1_1": 44_306_501,
    "a1_2": 777_532_896,
    "a1_3": 583_005_717,
    "a1_4": 242_397_000,
    "a1_5": 727_578_309,
    "a2_1": 161,
    "a2_2": 720_671_548,
    "a2_3": 1_190_713_414,
    "a2_4": 1_680_368_578,
    "a2_5": 307_150_821,
    "b_1": 3_302_947_648,
    "b_2": 1_010_949_451,
    "b_3": 156_519_816,
    "b_4": 4_677_792_536,
    "b_5": 922_858_550,
    "b_6": 9_525_851_389,
    "b_7": 14_834_456_020,
    "b_8": 1_214_086_286,
    "b_9": 15_885_437_252,
    "b_10": 18_048_006_980,
}
"""Least published costs by name of an instance: Afsar, Artigues, Bourreau, Kedad-Sidhoum, "Machine reassignment
problem: the ROADEF/EURO challenge 2012", Annals of Operations Research 242, 2016, and later papers. Another source has
247,433,844 for a1_4."""


@attrs.frozen
class ReassignmentFigures:
    """The figures of one instance."""

    name: str
    """Its name."""
    machines: int
    processes: int
    services: int
    resources: int
    """Numbers of machines, processes, services and resources."""
    start: int
    """Cost of the original assignment."""
    costs: dict[str, int]
    """Costs of the result, by name."""
    violations: tuple[str, ...]
    """Constraints that the result breaks, in words."""
    seconds: float
    """Time of the search, without compilation."""
    proposals: int
    """Generated proposals."""

    @property
    def cost(self) -> int:
        """Cost of the result."""
        return sum(self.costs.values())

    @property
    def best_known(self) -> int | None:
        """The least published cost; None: unknown."""
        return BEST_KNOWN.get(self.name)

    @property
    def gap(self) -> float | None:
        """Excess of the cost over the best known cost, as a share of the best known cost; None: it is unknown."""
        return None if self.best_known is None else self.cost / self.best_known - 1.0

    @property
    def left(self) -> float | None:
        """Share of the start's cost above the best known cost that is left; None: unknown, or the start is the best."""
        if self.best_known is None or self.start == self.best_known:
            return None
        return (self.cost - self.best_known) / (self.start - self.best_known)

    def as_json(self) -> dict[str, Any]:
        """Return the figures under stable keys."""
        derived = {"cost": self.cost, "best_known": self.best_known, "gap": self.gap, "left": self.left}
        return attrs.asdict(self) | derived | {"violations": list(self.violations)}


def models_of(directory: Path, names: Iterable[str] = ()) -> list[Path]:
    """Return the model files of a directory; with `names`, only the files of these instances."""
    models = {path.name.removeprefix("model_").partition(".")[0]: path for path in find_instances(directory)}
    for name in (requested := list(names)):
        check_known("instance", name, models, f"directory {directory}")
    return [path for name, path in models.items() if not requested or name in requested]


def bench_reassignment(
    models: Sequence[Path],
    *,
    seconds: float,
    seed: int = 0,
    report: Callable[[str], None] = lambda _step: None,
) -> list[ReassignmentFigures]:
    """Search each instance, by its model file, for some seconds on one thread; `report` gets the name of each step."""
    figures = []
    for model in models:
        instance = read_instance(model)
        report(f"{instance.name}, {seconds:g} s")
        figures.append(search_instance(instance, seconds, seed))
    return figures


def search_instance(instance: ReassignmentInstance, seconds: float, seed: int) -> ReassignmentFigures:
    """Balance from the original assignment of an instance for some seconds, and return the figures of the result."""
    chains = int(seconds / (SECONDS_A_PROCESS * len(instance.service)))
    engine = engine_of(instance, seed, chains=min(max(1, chains), MOST_CHAINS))
    engine.node_loads()  # makes the arrays of the cluster
    begun = working_time()
    plan = engine.balance(budget=Budget(seconds=seconds))
    elapsed = working_time() - begun
    assignment = instance.original.copy()
    for move in plan.moves:
        assignment[int(move.partition.removeprefix("p"))] = int(str(move.target).removeprefix("m"))
    return ReassignmentFigures(
        instance.name,
        len(instance.capacity),
        len(instance.service),
        len(instance.spread),
        instance.capacity.shape[1],
        instance.cost(instance.original),
        instance.costs(assignment),
        tuple(instance.violations(assignment)),
        elapsed,
        plan.proposals.generated,
    )


def engine_of(instance: ReassignmentInstance, seed: int, **settings: Any) -> PlacementAndLoadBalancing:
    """Return an engine whose energy is the cost of an instance up to a constant factor.

    `settings` replace or add fields of `PlbConfig`.
    """
    terms = _terms_of(instance)
    config = PlbConfig(
        **{
            "metrics": [
                Metric(f"r{resource}", quantum=1.0, transient=bool(transient))
                for resource, transient in enumerate(instance.transient)
            ],
            "capacity_limit": "capacity",
            "extension_terms": {term.name: float(weight) for term, weight in terms},
            "w_imbalance": 0.0,
            "w_failovers": 0.0,
            "w_overload": 0.0,
            "fault_domain_constraint_priority": -1,
            "upgrade_domain_constraint_priority": -1,
            "max_percentage_to_move": 1.0,
            "use_move_cost_reports": True,
            "swap_primary_probability": 0.0,
            "chains": 1,
            "threads": 1,
            **search_settings(instance),
            **settings,
        }
    )
    engine = PlacementAndLoadBalancing(
        config, seed=seed, extension_terms=[term for term, _ in terms], extension_constraints=_rules_of(instance)
    )
    _describe(engine, instance)
    return engine


def search_settings(instance: ReassignmentInstance) -> dict[str, Any]:
    """Return the settings of the search, which follow from the sizes of an instance.

    The unit of the temperature is the mean cost of the load of a process if all of the load is above the safety
    capacities. The more processes a machine has, the less one process changes, so the cooler the search begins.
    Instances with many processes search cooler and with hard capacity, as each process gets fewer proposals. Steps of
    several moves list the processes of machines, which takes long where these are many.
    """
    processes_on_machine = len(instance.service) / len(instance.capacity)
    temperature_unit = float((instance.requirement @ instance.load_weight).mean())
    damping = min(1.0, PROCESSES_ON_MACHINE / processes_on_machine)
    is_small = len(instance.service) <= PROCESSES_FOR_SOFT_CAPACITY
    first_temperature = temperature_unit * damping * (1.0 if is_small else FIRST_TEMPERATURE_HARD)
    return {
        **(SOFT if is_small else HARD),
        "cooling": "by_budget",
        "absolute_initial_temperature": max(1.0, first_temperature),
        "exchange_moved_replicas": True,
        "larger_neighbourhood_share": 0.5 * damping**2 if processes_on_machine < MOST_ON_MACHINE else 0.0,
        "larger_neighbourhoods": ["ejection_chain"],
        "simulated_annealing_iterations_per_round": 1000,
    }


def _terms_of(instance: ReassignmentInstance) -> list[tuple[EnergyTerm, int]]:
    """Return the energy terms of the costs of an instance, with their weights, without terms that are always 0."""
    machines, resources = instance.capacity.shape
    metric_names, node_names = [f"r{index}" for index in range(resources)], [f"m{index}" for index in range(machines)]
    safety_rows = instance.safety.tolist()
    safety_of_node = {
        node: dict(zip(metric_names, safety_row, strict=True))
        for node, safety_row in zip(node_names, safety_rows, strict=True)
    }
    weights = dict(zip(metric_names, instance.load_weight.tolist(), strict=True))
    terms: list[tuple[EnergyTerm, int]] = [(SafetyCapacity(loads=safety_of_node, weights=weights), 1)]
    for number, balance in enumerate(instance.balances):
        first_metric, second_metric = metric_names[balance.first], metric_names[balance.second]
        terms.append(
            (MetricBalance(first_metric, second_metric, balance.target, name=f"balance_{number}"), balance.weight)
        )
    terms.append((MostMovedService(), instance.weights[1]))
    if instance.machine_cost.any():
        terms.append((MoveCostBetweenDomains(instance.machine_cost, domains=node_names), instance.weights[2]))
    return terms


def _rules_of(instance: ReassignmentInstance) -> list[Constraint]:
    """Return the rules of conflict, spread and dependency of an instance, without rules that nothing can break."""
    process_counts = np.bincount(instance.service, minlength=len(instance.spread)).tolist()
    conflicting = {f"s{service}": size for service, size in enumerate(process_counts) if size > 1}
    spread = {f"s{service}": locations for service, locations in enumerate(instance.spread.tolist()) if locations > 1}
    needs: dict[str, list[str]] = {}
    for service, required in instance.needs.tolist():
        if service != required:
            needs.setdefault(f"s{service}", []).append(f"s{required}")
    rules: list[Constraint] = []
    if conflicting:
        rules.append(LeastDomains(conflicting, level="node", name="conflict"))
    if spread:
        rules.append(LeastDomains(spread, level="property:location", name="spread"))
    if needs:
        rules.append(SameDomain(needs, level="property:neighbourhood", name="dependency"))
    return rules


def _describe(engine: PlacementAndLoadBalancing, instance: ReassignmentInstance) -> None:
    """Add the machines and processes of an instance to an engine."""
    metrics = engine.config.metric_names
    machines = zip(instance.capacity.tolist(), instance.location, instance.neighbourhood, strict=True)
    for machine, (capacity, location, neighbourhood) in enumerate(machines):
        properties = {"location": str(location), "neighbourhood": str(neighbourhood)}
        capacities = dict(zip(metrics, capacity, strict=True))
        engine.update_node(Node(f"m{machine}", capacities=capacities, properties=properties))
    for service in range(len(instance.spread)):
        engine.update_service(Service(f"s{service}", stateful=False))
    processes = zip(instance.service.tolist(), instance.original.tolist(), strict=True)
    for process, (service, machine) in enumerate(processes):
        replica = Replica(Role.INSTANCE, f"m{machine}")
        engine.update_partition(Partition(f"p{process}", service=f"s{service}", replicas=[replica]))
    for process, cost in enumerate((instance.weights[0] * instance.process_cost).tolist()):
        if cost != 1:
            engine.report_move_cost(f"p{process}", Role.INSTANCE, cost)
    rows = np.array([engine.replicas(f"p{process}")[0].index for process in range(len(instance.service))], np.int64)
    engine.report_loads(rows, instance.requirement)


COLUMNS: dict[str, Callable[[ReassignmentFigures], str]] = {
    "instance": lambda row: row.name,
    "machines": lambda row: f"{row.machines:,}",
    "processes": lambda row: f"{row.processes:,}",
    "start": lambda row: f"{row.start:,}",
    "cost": lambda row: f"{row.cost:,}",
    "best known": lambda row: "–" if row.best_known is None else f"{row.best_known:,}",
    "gap": lambda row: "–" if row.gap is None else f"{row.gap:.2%}",
    "left": lambda row: "–" if row.left is None else f"{row.left:.3%}",
    "broken": lambda row: f"{len(row.violations)}",
    "s": lambda row: f"{row.seconds:.0f}",
    "proposals/s": lambda row: f"{row.proposals / row.seconds:,.0f}",
}


def table_of(figures: Iterable[ReassignmentFigures]) -> Table:
    """Return a table of the figures of instances."""
    caption = "gap: cost above the best known one; left: the same as a share of the start's; broken: constraints"
    table = new_table(COLUMNS, caption=caption)
    for instance in figures:
        table.add_row(*(text(instance) for text in COLUMNS.values()))
    return table
