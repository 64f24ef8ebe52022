"""How near the search of the engine comes to a known optimum: `plb bench search`, with its figures and their table.

The energy is the objective of an instance alone: a move costs nothing, and nothing else has a weight. The initial
excess is the energy of the start minus the energy of the optimum. The measure is the share of the initial excess that
is left after a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs
import numpy as np
from rich.table import Table

from cluster.bench.search_instances import Fullness, Objective, SearchInstance, SearchShape, draw_instance
from cluster.tables import new_table
from plb.array_types import NOWHERE, Int
from plb.compiler import Stream, kernel, uniform, working_time
from plb.energy.terms import present_energy
from plb.engine import PlacementAndLoadBalancing
from plb.evaluation.delta import apply_proposal
from plb.evaluation.proposals import GENERATED, REJECTED, TALLY_SIZE, evaluate_in_place, refusal_in_place
from plb.model import Metric, Node, Partition, Replica, Role, Service
from plb.model.rules import NO_REFUSAL
from plb.planning.rule_priorities import rule_masks
from plb.ready_made import SafetyCapacity
from plb.ready_made.capacity_terms import SafetySteps, safety_change
from plb.search.budget import Budget
from plb.settings.config import LONG_SEARCH, PlbConfig
from plb.state.arrays import Problem, Proposal, Solution, are_siblings, proposed
from plb.testing import configuration_of
from plb.validation import check_known

EXCHANGES = 0.5
"""Share of exchanges among the proposals."""
PROBES = 4096
"""Proposals whose mean change of the energy is the first temperature."""
STRETCH = 4096
"""Proposals at one temperature."""
LAST_TEMPERATURE = 1e-5
"""Last temperature, as a share of the first one."""


@kernel(inline=True)
def _draw(problem: Problem, solution: Solution, enforced: int, rows: Int, rng: Stream) -> Proposal:
    """Return a random proposal for replicas in `rows`, (m,), of the engine.

    Its row is `NOWHERE` if one of the `enforced` rules, a mask, refuses it.
    """
    nowhere = Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    row = rows[int(uniform(rng) * rows.shape[0])]
    if uniform(rng) < EXCHANGES:
        partner = rows[int(uniform(rng) * rows.shape[0])]
        if are_siblings(problem, row, partner):
            return nowhere
        proposal = proposed(solution, row, solution.node[partner], partner)
    else:
        proposal = proposed(solution, row, int(uniform(rng) * problem.limit.shape[0]), NOWHERE)
    if proposal.target == proposal.source:
        return nowhere
    if refusal_in_place(problem, solution, enforced, proposal) != NO_REFUSAL:
        return nowhere
    return proposal


@kernel
def mean_change(
    problem: Problem,
    solution: Solution,
    enforced: int,
    rows: Int,
    steps: SafetySteps,
    weight: float,
    rng: Stream,
    tally: Int,
) -> float:
    """Return the mean absolute change of the energy by the allowed of PROBES random proposals, or 0.

    `enforced`: mask of rules; `rows`: (m,) engine rows; `steps` and `weight`: data and weight of the term for load
    above safety capacities; `tally` counts evaluations.
    """
    energy = present_energy(problem, solution)
    total, allowed = 0.0, 0
    for _ in range(PROBES):
        proposal = _draw(problem, solution, enforced, rows, rng)
        if proposal.row == NOWHERE:
            continue
        change = evaluate_in_place(problem, solution, REJECTED, proposal, tally) - energy
        if weight > 0.0:
            change += weight * safety_change(problem, solution, steps, proposal)
        total += abs(change)
        allowed += 1
    return total / max(1, allowed)


@kernel
def anneal_plainly(
    problem: Problem,
    solution: Solution,
    enforced: int,
    rows: Int,
    steps: SafetySteps,
    weight: float,
    temperature: float,
    rng: Stream,
    tally: Int,
) -> None:
    """Draw STRETCH proposals, and apply every proposal that the Metropolis rule accepts to `solution`.

    `enforced`: mask of the rules; `rows`: (m,) engine rows that may move; `tally`: (TALLY_SIZE,) counts the proposals.
    `weight`: weight of the load above the safety capacities; with 0 this load does not count. `steps`: data of this
    load.
    """
    for _ in range(STRETCH):
        tally[GENERATED] += 1
        proposal = _draw(problem, solution, enforced, rows, rng)
        if proposal.row == NOWHERE:
            continue
        highest = present_energy(problem, solution) - temperature * math.log(1.0 - uniform(rng))
        if weight > 0.0:
            highest -= weight * safety_change(problem, solution, steps, proposal)
        if evaluate_in_place(problem, solution, highest, proposal, tally) < REJECTED:
            apply_proposal(problem, solution, proposal)


def anneal_for(
    problem: Problem,
    solution: Solution,
    enforced: int,
    steps: SafetySteps,
    weight: float,
    seconds: float,
    seed: int,
) -> int:
    """Anneal for some seconds of `working_time` on one thread; modify `solution`, return the number of proposals.

    `enforced`: mask of rules; `steps`: data of the energy term for load above the safety capacities, with a `weight`.
    """
    rows, rng = np.flatnonzero(problem.movable), Stream(np.random.SeedSequence(seed))
    tally = np.zeros(TALLY_SIZE, np.int64)
    arguments = problem, solution, enforced, rows, steps, weight
    begun = working_time()
    first_temperature = mean_change(*arguments, rng, tally)
    while (share := (working_time() - begun) / seconds) < 1.0:
        anneal_plainly(*arguments, first_temperature * LAST_TEMPERATURE**share, rng, tally)
    return int(tally[GENERATED])


SECONDS, QUICK_SECONDS = 30.0, 3.0
"""Seconds of each search, and of each search of a short run."""
SHAPES = tuple(
    shape
    for fullness in Fullness
    for shape in (
        SearchShape(4, 100, 2, 1, 4, fullness, Objective.IMBALANCE),
        SearchShape(10, 500, 3, 2, 5, fullness, Objective.EXCESS_LOAD),
        SearchShape(20, 400, 4, 4, 10, fullness, Objective.IMBALANCE),
        SearchShape(50, 500, 4, 10, 25, fullness, Objective.EXCESS_LOAD),
        SearchShape(50, 1_000, 4, 4, 10, fullness, Objective.EXCESS_LOAD, transient=2),
        SearchShape(100, 400, 4, 4, 20, fullness, Objective.EXCESS_LOAD),
        SearchShape(100, 1_000, 6, 4, 20, fullness, Objective.EXCESS_LOAD),
        SearchShape(100, 2_000, 12, 4, 20, fullness, Objective.EXCESS_LOAD),
        SearchShape(100, 5_000, 4, 2, 10, fullness, Objective.EXCESS_LOAD),
        SearchShape(100, 20_000, 3, 4, 20, fullness, Objective.IMBALANCE),
    )
)
"""The instances that are measured."""
QUICK = ("loose-4-100", "tight-20-400", "tight-100-1000")
"""Names of the instances of a short run."""


@attrs.frozen
class SearchRun:
    """The result of one search."""

    energy: float
    """Energy at the end."""
    left: float
    """Share of the initial excess that is left."""
    seconds: float
    """Time that the search took, without compilation."""
    calls: int
    """Calls of the engine; 1 for the plain annealer."""
    proposals: int
    """Generated proposals."""


@attrs.frozen
class InstanceFigures:
    """The figures of one instance."""

    shape: SearchShape
    """Sizes of the instance."""
    full: tuple[float, float]
    """Smallest and largest share of a capacity that the perfect placement uses."""
    least_energy: float
    """Energy of the optimum."""
    start_energy: float
    """Energy of the start."""
    engine: SearchRun
    """The search of the engine."""
    plain: SearchRun
    """The search of the plain annealer."""

    @property
    def initial_excess(self) -> float:
        """Energy of the start minus the energy of the optimum."""
        return self.start_energy - self.least_energy

    def as_json(self) -> dict[str, Any]:
        """Return the figures under stable keys."""
        shape = {key: value for key, value in attrs.asdict(self.shape).items() if key not in ("fullness", "objective")}
        return {
            "name": self.shape.name,
            "fullness": self.shape.fullness.name.lower(),
            "objective": self.shape.objective.value,
            **shape,
            "full": list(self.full),
            "least_energy": self.least_energy,
            "start_energy": self.start_energy,
            "initial_excess": self.initial_excess,
            "engine": attrs.asdict(self.engine),
            "plain_annealer": attrs.asdict(self.plain),
        }


def shapes_of(names: Iterable[str] = (), nodes: Iterable[int] = ()) -> tuple[SearchShape, ...]:
    """Return the shapes of these names and numbers of nodes, by default all; unknown names raise `UnknownNameError`."""
    requested_names, requested_nodes = list(names), list(nodes)
    for name in requested_names:
        check_known("instance", name, [shape.name for shape in SHAPES], "bench search")
    node_counts = sorted({shape.nodes for shape in SHAPES})
    for node_count in requested_nodes:
        check_known("number of nodes", str(node_count), [*map(str, node_counts)], "bench search")
    return tuple(
        shape
        for shape in SHAPES
        if (not requested_names or shape.name in requested_names)
        and (not requested_nodes or shape.nodes in requested_nodes)
    )


def bench_search(
    shapes: Sequence[SearchShape] = SHAPES,
    *,
    seconds: float = SECONDS,
    seed: int = 0,
    report: Callable[[str], None] = lambda _step: None,
) -> list[InstanceFigures]:
    """Search each instance with the engine and with the plain annealer, on one thread, for some seconds each.

    `seed`: of the instances and the searches; `report` gets the name of each step before it starts.
    """
    return [_figures_of(shape, seconds, seed, report) for shape in shapes]


def _figures_of(shape: SearchShape, seconds: float, seed: int, report: Callable[[str], None]) -> InstanceFigures:
    """Search the instance of a shape both ways, `seconds` each, return the figures; `report` gets each step's name."""
    report(f"{shape.name}: drawing the instance")
    instance = draw_instance(seed, shape)
    used_shares = instance.node_loads(instance.perfect) / instance.capacity
    report(f"{shape.name}: the engine, {seconds:g} s")
    engine_run = search_by_engine(instance, seconds, seed)
    report(f"{shape.name}: plain annealer, {seconds:g} s")
    plain_run = search_plainly(instance, seconds, seed)
    return InstanceFigures(
        shape,
        (float(used_shares.min()), float(used_shares.max())),
        instance.least_energy,
        instance.energy(instance.start),
        engine_run,
        plain_run,
    )


def search_by_engine(instance: SearchInstance, seconds: float, seed: int) -> SearchRun:
    """Balance from the start of an instance for some seconds, call after call as each converges."""
    engine = engine_of(instance, instance.start, seed)
    rows = rows_of(engine, instance)
    engine.node_loads()  # makes the arrays of the cluster
    begun = working_time()
    calls = proposals = 0
    while (seconds_left := seconds - (working_time() - begun)) > 0:
        plan = engine.balance(budget=Budget(seconds=seconds_left))
        engine.apply(plan)
        calls, proposals = calls + 1, proposals + plan.proposals.generated
    elapsed = working_time() - begun
    energy = instance.energy(placement_of(engine, instance, rows))
    return SearchRun(energy, instance.share_left(energy), elapsed, calls, proposals)


def search_plainly(instance: SearchInstance, seconds: float, seed: int) -> SearchRun:
    """Search from the start of an instance for some seconds with `anneal_for`."""
    engine = engine_of(instance, instance.start, seed)
    rows = rows_of(engine, instance)
    configuration = configuration_of(engine)
    steps, weight = excess_load(instance).new_data(configuration), _weight_of_excess(instance)
    enforced = rule_masks(engine.config)[0]
    begun = working_time()
    proposals = anneal_for(configuration.problem, configuration.solution, enforced, steps, weight, seconds, seed)
    elapsed = working_time() - begun
    energy = instance.energy(configuration.solution.node[rows])
    return SearchRun(energy, instance.share_left(energy), elapsed, 1, proposals)


def engine_of(instance: SearchInstance, placement: Int, seed: int) -> PlacementAndLoadBalancing:
    """Return an engine with an instance in a placement, (M,), whose energy is the objective of the instance.

    Moves are free, any number of replicas may move, the only chain has rounds of a proposal for each replica, no
    partition has roles to swap, and capacities have no margin for violations.
    """
    shape = instance.shape
    weight = _weight_of_excess(instance)
    terms = [excess_load(instance)] if weight > 0 else []
    metrics = [
        Metric(f"m{index}", quantum=1.0, violation_threshold=1.0, transient=index < shape.transient)
        for index in range(shape.metrics)
    ]
    config = PlbConfig(
        metrics=metrics,
        extension_terms={term.name: weight for term in terms},
        w_imbalance=0.0 if weight > 0 else 1.0,
        w_failovers=0.0,
        w_overload=0.0,
        ignore_cost_in_scoring=True,
        max_percentage_to_move=1.0,
        chains=1,
        threads=1,
        swap_primary_probability=0.0,
        **LONG_SEARCH,
        simulated_annealing_iterations_per_round=shape.replicas,
    )
    engine = PlacementAndLoadBalancing(config, seed=seed, extension_terms=terms)
    for index, (capacity, rack) in enumerate(zip(instance.capacity.tolist(), instance.rack.tolist(), strict=True)):
        capacities = dict(zip(config.metric_names, capacity, strict=True))
        engine.update_node(Node(f"n{index}", capacities=capacities, fault_domain=f"fd:/rack{rack}"))
    engine.update_service(Service("tenants", stateful=False, target_replicas=shape.siblings))
    for name, nodes in zip(_partitions(instance), placement.reshape(-1, shape.siblings).tolist(), strict=True):
        replicas = tuple(Replica(Role.INSTANCE, f"n{node}") for node in nodes)
        engine.update_partition(Partition(name, service="tenants", replicas=replicas))
    engine.report_loads(rows_of(engine, instance), instance.load)
    return engine


def excess_load(instance: SearchInstance) -> SafetyCapacity:
    """Return the energy term for the load above the safety capacities; it is 0 if that is not the objective."""
    if instance.shape.objective is not Objective.EXCESS_LOAD:
        return SafetyCapacity()
    names = [f"m{index}" for index in range(instance.shape.metrics)]
    loads = {f"n{node}": dict(zip(names, safety, strict=True)) for node, safety in enumerate(instance.safety.tolist())}
    return SafetyCapacity(loads=loads)


def _partitions(instance: SearchInstance) -> list[str]:
    """Return the names of the partitions of an instance."""
    return [f"p{index}" for index in range(instance.shape.replicas // instance.shape.siblings)]


def _weight_of_excess(instance: SearchInstance) -> float:
    """Return the weight of the load above the safety capacities, 0 where it is not the objective."""
    return 1.0 / float(instance.load.sum()) if instance.shape.objective is Objective.EXCESS_LOAD else 0.0


def rows_of(engine: PlacementAndLoadBalancing, instance: SearchInstance) -> Int:
    """Return the engine row of each replica of an instance, (M,), in a new engine of `engine_of`."""
    return np.array([replica.index for name in _partitions(instance) for replica in engine.replicas(name)])


def placement_of(engine: PlacementAndLoadBalancing, instance: SearchInstance, rows: Int) -> Int:
    """Return the node of each replica of an instance, (M,), in an engine; `rows`: the result of `rows_of`."""
    node_of_row = {replica.index: replica.node for name in _partitions(instance) for replica in engine.replicas(name)}
    return np.array([int(str(node_of_row[row])[1:]) for row in rows.tolist()])


COLUMNS: dict[str, Callable[[InstanceFigures], str]] = {
    "instance": lambda row: row.shape.name,
    "objective": lambda row: row.shape.objective.value,
    "metrics": lambda row: f"{row.shape.metrics}",
    "full": lambda row: f"{row.full[0]:.0%} to {row.full[1]:.0%}",
    "initial excess": lambda row: f"{row.initial_excess:.4f}",
    "left by the engine": lambda row: f"{row.engine.left:.2%}",
    "by a plain annealer": lambda row: f"{row.plain.left:.2%}",
    "calls": lambda row: f"{row.engine.calls:,}",
    "proposals/s": lambda row: f"{row.engine.proposals / row.engine.seconds:,.0f}",
    "plain proposals/s": lambda row: f"{row.plain.proposals / row.plain.seconds:,.0f}",
}


def table_of(figures: Iterable[InstanceFigures], seconds: float) -> Table:
    """Return a table of the figures, a line for each instance; `seconds`: time of each search."""
    caption = f"instance: fullness, nodes, replicas; left: share of the initial excess after {seconds:g} s"
    table = new_table(COLUMNS, caption=caption, texts=2)
    for instance in figures:
        table.add_row(*(column(instance) for column in COLUMNS.values()))
    return table
