"""The speed at which the engine scores configurations: `plb bench engine`, with its figures and their table.

The comparison is [1] section 8.5: Service Fabric needs 432 ms to enumerate and score 1,000 configurations, and 890 ms
with the expected failovers. A configuration counts as scored if its proposal passed the constraints and its energy, or
a bound that was enough to reject it, was computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import attrs
import numpy as np
from rich.table import Table

from cluster.bench.kernels import arithmetic, decision_seconds, fastest, score_fully, score_only
from cluster.bench.start import cold_first_plan, warm_first_plan
from cluster.tables import new_table
from plb.array_types import Float
from plb.compiler import Stream
from plb.engine import PlacementAndLoadBalancing
from plb.evaluation.proposals import REACHED_MONTE_CARLO, SCORED, TALLY_SIZE
from plb.model import Metric, Node, Partition, Replica, Role, Service
from plb.model.rules import ALL_RULES
from plb.risk import Evaluation
from plb.risk.demand_history import DemandHistory
from plb.search.annealing.move_generation import Choice
from plb.search.budget import Budget
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution
from plb.testing import configuration_of

METRICS = ("cpu", "memory", "disk")
CAPACITY = np.array([80.0, 408.0, 5000.0])
REPLICAS_A_NODE = 30
ROLES = (Role.PRIMARY, Role.SECONDARY, Role.SECONDARY, Role.SECONDARY)
"""Roles of the replicas of a partition."""
TRACES = 2000
DAY = 86_400.0


def bench_cluster(
    nodes: int, seed: int, *, metrics: Sequence[str] = METRICS, repetitions: int = 100
) -> PlacementAndLoadBalancing:
    """Return an engine with 30 replicas a node in five racks, and so much load that some nodes are at risk.

    `seed`: of the loads, the placement and the demand history; `repetitions`: Monte Carlo repetitions.
    """
    rng = np.random.default_rng(seed)
    capacity = _capacities(metrics)
    config = PlbConfig(
        metrics=[Metric(name, trend=name != "cpu") for name in metrics],
        w_imbalance=1.0,
        w_overload=0.0,
        max_percentage_to_move=1.0,
        repetitions=repetitions,
    )
    engine = PlacementAndLoadBalancing(config, seed=seed, history=_history(rng, metrics))
    for index in range(nodes):
        engine.update_node(bench_node(index, metrics))
    engine.update_service(Service("tenants", tenant_class="class", target_replicas=len(ROLES)))
    names = [f"p{index}" for index in range(nodes * REPLICAS_A_NODE // len(ROLES))]
    stride = 11 if nodes > 11 * (len(ROLES) - 1) else 1  # with fewer nodes, a stride of 11 may return to the first
    for name in names:
        first_node = int(rng.integers(nodes))
        replica_nodes = [
            (first_node + stride * step) % nodes for step in range(len(ROLES))
        ]  # four fault and upgrade domains
        replicas = tuple(Replica(role, f"n{node}") for role, node in zip(ROLES, replica_nodes, strict=True))
        engine.update_partition(Partition(name, service="tenants", replicas=replicas))
    rows = np.array([replica.index for name in names for replica in engine.replicas(name)])
    engine.report_loads(rows, 0.55 * capacity / REPLICAS_A_NODE * rng.uniform(0.2, 1.8, (len(rows), len(metrics))))
    return engine


def bench_node(index: int, metrics: Sequence[str] = METRICS) -> Node:
    """Return node number `index` of `bench_cluster`, in one of five racks and one of ten upgrade domains."""
    capacities = dict(zip(metrics, _capacities(metrics).tolist(), strict=True))
    rack, upgrade_domain = f"fd:/rack{index % 5}", f"ud{index % 10}"
    return Node(f"n{index}", capacities=capacities, fault_domain=rack, upgrade_domain=upgrade_domain)


def _capacities(metrics: Sequence[str]) -> Float:
    """Return the capacity of a node of `bench_cluster` by metric, (R,)."""
    return np.asarray(CAPACITY[np.minimum(np.arange(len(metrics)), len(CAPACITY) - 1)])


def _history(rng: np.random.Generator, metrics: Sequence[str]) -> DemandHistory:
    """Return a demand history with random traces of one class, half primaries, half secondaries."""
    count = len(metrics)
    level = 0.8 * _capacities(metrics) / REPLICAS_A_NODE * rng.gamma(2.0, 0.5, (TRACES, count))
    return DemandHistory.from_columns(
        metrics,
        tenant_class=["class"] * TRACES,
        role=np.repeat(np.array([0, 1], np.int8), TRACES // 2),
        lifetime=rng.uniform(DAY, 200 * DAY, TRACES),
        level=level,
        initial=0.5 * level,
        growth=rng.uniform(0.1 * DAY, DAY, (TRACES, count)),
        maximum=1e6 * np.ones((TRACES, count)),
    )


PAPER_PER_SECOND = 1000 / 0.890
"""Configurations a second of the modified component in [1] section 8.5."""


@attrs.frozen
class SizeFigures:
    """The figures of one size. Speeds are scored configurations a second on one thread."""

    nodes: int
    """Number of nodes."""
    replicas: int
    """Number of replicas."""
    full: float
    """(a) All repetitions of both nodes evaluated for every proposal."""
    early_half: float
    """(b) Early rejection, at 50 % acceptance on a fixed state."""
    early_five: float
    """(b) Early rejection, at 5 % acceptance on a fixed state."""
    two_threads: float
    """As `early_five`, on two threads at once."""
    arithmetic: float
    """Moves a second of a loop over prepared moves with only the 2·R·K additions and comparisons."""
    reached_monte_carlo_half: float
    """Share of evaluated configurations whose repetitions were evaluated, at 50 % acceptance."""
    reached_monte_carlo_five: float
    """Share of evaluated configurations whose repetitions were evaluated, at 5 % acceptance."""
    bytes_per_replica: float
    """Bytes of the arrays of a search for each replica."""
    timeline_five: float
    """As `early_five`, with repetitions evaluated at every departure (`plb.energy.expected_failovers`)."""
    report_seconds: float
    """Seconds of a report of all loads, each changed by up to a tenth."""
    refresh_seconds: float
    """Seconds of the refresh after this report."""
    decision_seconds: dict[str, float]
    """Seconds of the placement of one replica by each policy, with evaluation by peaks."""
    timeline_decision_seconds: dict[str, float]
    """Seconds of the placement of one replica by each policy, with evaluation at departures."""
    quality: dict[float, float]
    """By seconds of balancing: the decrease of the energy, relative to the largest decrease of all times."""

    @property
    def ratio(self) -> float:
        """Speed of the full evaluation divided by the speed of the arithmetic loop."""
        return self.full / self.arithmetic

    def as_json(self) -> dict[str, Any]:
        """Return the figures as plain JSON values."""
        quality = {f"{seconds:g}": share for seconds, share in self.quality.items()}
        return attrs.asdict(self) | {"proposals_per_second": self.early_five, "ratio": self.ratio, "quality": quality}


@attrs.frozen
class EngineFigures:
    """The figures of `plb bench engine`."""

    sizes: tuple[SizeFigures, ...]
    """Figures by size, in ascending order."""
    first_plan_seconds: float
    """Time from `import plb` to the first plan in a new process, with compiled kernels."""
    cold_first_plan_seconds: float | None
    """Time from `import plb` to the first plan in a new process, without compiled kernels; None: not measured."""

    def as_json(self) -> dict[str, Any]:
        """Return the figures under stable keys."""
        smallest = self.sizes[0]
        return {
            "proposals_per_second": smallest.early_five,
            "arithmetic_ratio": smallest.ratio,
            "first_plan_seconds": self.first_plan_seconds,
            "cold_first_plan_seconds": self.cold_first_plan_seconds,
            "sizes": [size.as_json() for size in self.sizes],
            "paper_per_second": PAPER_PER_SECOND,
        }


LINES: dict[str, Callable[[SizeFigures], str]] = {
    "(a) all repetitions of both nodes": lambda size: f"{size.full:,.0f}",
    "    arithmetic-only loop": lambda size: f"{size.arithmetic:,.0f}",
    "    ratio": lambda size: f"{size.ratio:.2f}",
    "(b) early rejection, 50 % accepted": lambda size: f"{size.early_half:,.0f}",
    "    reached the repetitions, 50 %": lambda size: f"{size.reached_monte_carlo_half:.0%}",
    "(b) early rejection, 5 % accepted": lambda size: f"{size.early_five:,.0f}",
    "    reached the repetitions, 5 %": lambda size: f"{size.reached_monte_carlo_five:.0%}",
    "    on two threads": lambda size: f"{size.two_threads:,.0f}",
    "    two threads / one": lambda size: f"{size.two_threads / size.early_five:.2f}",
    "    times Service Fabric as modified by [1] (8.5)": lambda size: f"{size.early_five / PAPER_PER_SECOND:,.0f}",
    "    with `timeline` evaluation": lambda size: f"{size.timeline_five:,.0f}",
    "replicas": lambda size: f"{size.replicas:,}",
    "bytes a replica": lambda size: f"{size.bytes_per_replica:,.0f}",
    "report of all loads": lambda size: _time(size.report_seconds),
    "refresh after it": lambda size: _time(size.refresh_seconds),
}


def table_of(figures: EngineFigures) -> Table:
    """Return a table of the figures, a column for each size."""
    sizes = figures.sizes
    headings = ("scored configurations a second", *(f"{size.nodes:,} nodes" for size in sizes))
    table = new_table(headings, caption=_caption(figures))
    for label, line in LINES.items():
        table.add_row(label, *map(line, sizes))
    for seconds in sizes[0].quality:
        table.add_row(
            f"energy won after {seconds:g} s of balancing", *(f"{size.quality[seconds]:.0%}" for size in sizes)
        )
    for policy in sizes[0].decision_seconds:
        table.add_row(f"place by {policy}", *(_time(size.decision_seconds[policy]) for size in sizes))
    for policy in sizes[0].timeline_decision_seconds:
        if policy.startswith("prv"):
            label = f"place by {policy}, `timeline`"
            table.add_row(label, *(_time(size.timeline_decision_seconds[policy]) for size in sizes))
    return table


def _caption(figures: EngineFigures) -> str:
    """Return the caption of the table: the times of first plans."""
    warm = f"first plan of a new process: {figures.first_plan_seconds:.2f} s with compiled kernels"
    if figures.cold_first_plan_seconds is None:
        return warm
    return f"{warm}, {figures.cold_first_plan_seconds:.0f} s without"


def _time(seconds: float) -> str:
    """Return a time as text in s, ms or µs."""
    for unit, units_a_second in (("s", 1.0), ("ms", 1e3)):
        if seconds * units_a_second >= 1:
            return f"{seconds * units_a_second:.1f} {unit}"
    return f"{seconds * 1e6:.0f} µs"


SIZES = (40, 400, 4_000, 10_000)
"""Numbers of nodes."""
QUALITY_SECONDS = (0.01, 0.1, 1.0, 10.0)
"""Times of balancing in seconds after which the quality is measured."""
BALANCING_WEIGHT = 1e6
"""A weight of imbalance so large that moves lower the energy."""
BISECTIONS = 20
"""Bisections of the range in which a temperature is searched."""
PLANNED = 4_000
"""Budget of proposals of a refresh."""


def bench_engine(
    sizes: Iterable[int] = SIZES,
    *,
    proposals: int = 200_000,
    seconds: Iterable[float] = QUALITY_SECONDS,
    seed: int = 0,
    cold: bool = True,
    report: Callable[[str], None] = lambda _step: None,
) -> EngineFigures:
    """Measure clusters of `sizes` nodes, with 3 metrics and 100 repetitions.

    `proposals`: proposals of a measurement of speed; `seconds`: times of balancing after which the quality is measured;
    `cold`: whether to measure a first plan that compiles its kernels; `report` gets the name of each step before it
    starts.
    """
    figures_of_sizes = []
    for nodes in sorted(sizes):
        report(f"{nodes:,} nodes: describing {nodes * REPLICAS_A_NODE:,} replicas")
        bench = SizeBench(bench_cluster(nodes, seed), proposals, seed, report)
        figures_of_sizes.append(bench.figures(tuple(seconds)))
    report("first plan of a new process")
    first_plan_seconds = warm_first_plan().seconds
    if cold:
        report("first plan of a new process that compiles the kernels")
    return EngineFigures(tuple(figures_of_sizes), first_plan_seconds, cold_first_plan()[0].seconds if cold else None)


class SizeBench:
    """The measurements of one size, on an engine of `bench_cluster`.

    `proposals`, `seed` and `report` are as in `bench_engine`.
    """

    def __init__(
        self,
        engine: PlacementAndLoadBalancing,
        proposals: int,
        seed: int,
        report: Callable[[str], None] = lambda _step: None,
    ) -> None:
        """Prepare measurements of `engine` with `proposals` proposals each; `report` gets the name of each step."""
        self.engine, self.proposals, self.seed, self._report = engine, proposals, seed, report
        self._describe()

    def report(self, step: str) -> None:
        """Report that a step of this size begins."""
        self._report(f"{len(self.problem.limit):,} nodes: {step}")

    def _describe(self) -> None:
        """Set configuration, problem, a solution of its own, and the choice of any movable replica, from the engine."""
        self.configuration = configuration_of(self.engine)
        self.problem: Problem = self.configuration.problem
        self.solution: Solution = self.configuration.solution.copy()
        movable = np.flatnonzero(self.problem.movable)
        self.choice = Choice(movable[:0], movable, len(movable), ALL_RULES, 0.0, 0.0)

    def figures(self, seconds: tuple[float, ...]) -> SizeFigures:
        """Return all figures of this size; `seconds`: times of balancing after which the quality is measured."""
        self.report("scoring")
        low_temperature = self.temperature_for(0.05)
        early_half, early_five = self.early(self.temperature_for(0.5)), self.early(low_temperature)
        full, arithmetic = self.full(), self._arithmetic()
        two_threads = self._on_two_threads(low_temperature)
        self.report("deciding")
        decision_times = decision_seconds(self.engine, "tenants")
        self.report("evaluating at departures")
        timeline_five, timeline_decisions = self._at_departures()
        self.report("refreshing")
        report_seconds, refresh_seconds = self._refresh()
        return SizeFigures(
            nodes=len(self.problem.limit),
            replicas=self.replicas,
            full=full,
            early_half=early_half[0],
            early_five=early_five[0],
            two_threads=two_threads,
            arithmetic=arithmetic,
            reached_monte_carlo_half=early_half[1],
            reached_monte_carlo_five=early_five[1],
            bytes_per_replica=self.bytes_per_replica(),
            timeline_five=timeline_five,
            report_seconds=report_seconds,
            refresh_seconds=refresh_seconds,
            decision_seconds=decision_times,
            timeline_decision_seconds=timeline_decisions,
            quality=self._quality(seconds),
        )

    @property
    def replicas(self) -> int:
        """Number of placed replicas."""
        return int((self.problem.origin >= 0).sum())

    def bytes_per_replica(self) -> float:
        """Return the bytes of the arrays of a search for each replica."""
        arrays = (*self.problem, *self.solution)
        size = sum({id(array): array.nbytes for array in arrays if isinstance(array, np.ndarray)}.values())
        return size / self.replicas

    def score(
        self, temperature: float, solution: Solution | None = None, proposals: int | None = None
    ) -> tuple[int, int, int]:
        """Return how many proposals were scored, reached the repetitions, and would have been accepted.

        `solution`: the placement to propose for; `proposals`: how many to draw; None for the bench's own.
        """
        tally = np.zeros(TALLY_SIZE, np.int64)
        rng = Stream(self.seed)
        solution = self.solution if solution is None else solution
        proposal_count = self.proposals if proposals is None else proposals
        accepted = score_only(self.problem, solution, self.choice, temperature, rng, proposal_count, tally)
        return int(tally[SCORED]), int(tally[REACHED_MONTE_CARLO]), accepted

    def early(self, temperature: float) -> tuple[float, float]:
        """Return scored configurations a second with early rejection, and the share that reached the repetitions."""
        scored, reached, _ = self.score(temperature)
        return scored / fastest(lambda: self.score(temperature)), reached / scored

    def _on_two_threads(self, temperature: float) -> float:
        """Return scored configurations a second with early rejection on two threads at once."""
        solutions = [self.solution.copy(), self.solution.copy()]
        scored = self.score(temperature)[0]
        with ThreadPoolExecutor(2) as pool:

            def both() -> None:
                list(pool.map(lambda solution: self.score(temperature, solution), solutions))

            return 2 * scored / fastest(both)

    def full(self) -> float:
        """Return the scored configurations a second if all repetitions of both nodes are evaluated."""

        def once() -> int:
            rng = Stream(self.seed)
            return score_fully(self.problem, self.solution, self.choice, rng, self.proposals)

        return once() / fastest(once)

    def _arithmetic(self) -> float:
        """Return the moves a second of a loop with only the additions and comparisons, for R metrics, K repetitions."""
        rng = np.random.default_rng(self.seed)
        rows = rng.choice(self.choice.movable, self.proposals)
        targets = rng.integers(len(self.problem.limit), size=self.proposals)
        sources = self.solution.node[rows]
        arithmetic(self.problem, self.solution, rows[:10], sources[:10], targets[:10])
        return self.proposals / fastest(lambda: arithmetic(self.problem, self.solution, rows, sources, targets))

    def _refresh(self) -> tuple[float, float]:
        """Return the seconds of a report of all loads, and of the refresh after it."""
        rows = self.choice.movable
        rng = np.random.default_rng(self.seed)
        loads_before = self.problem.load[rows] * self.configuration.description.quanta
        loads_after = loads_before * rng.uniform(0.9, 1.1, loads_before.shape)
        seconds = []
        for loads in (loads_after, loads_before, loads_after, loads_before):
            report_seconds = fastest(partial(self.engine.report_loads, rows, loads), 1)
            seconds.append((report_seconds, fastest(lambda: self.engine.refresh(now=0.0, budget=PLANNED), 1)))
        reports, refreshes = zip(*seconds, strict=True)
        return min(reports), min(refreshes)

    def _at_departures(self) -> tuple[float, dict[str, float]]:
        """Return scored configurations a second, and the seconds of decisions by policy, with `timeline` evaluation."""
        config = self.engine.config
        self.engine.configure(attrs.evolve(config, evaluation=Evaluation.TIMELINE))
        self._describe()
        early_five = self.early(self.temperature_for(0.05))[0]
        decision_times = decision_seconds(self.engine, "tenants")
        self.engine.configure(config)
        self._describe()
        return early_five, decision_times

    def temperature_for(self, acceptance: float) -> float:
        """Return a temperature at which about the share `acceptance` of the scored proposals is accepted."""
        low, high = 1e-9, 1e3
        for _ in range(BISECTIONS):
            middle = math.sqrt(low * high)
            scored, _, accepted = self.score(middle, proposals=self.proposals // 10)
            low, high = (low, middle) if accepted > acceptance * scored else (middle, high)
        return math.sqrt(low * high)

    def _quality(self, seconds: tuple[float, ...]) -> dict[float, float]:
        """Return, by time of balancing, the decrease of the energy as a share of the largest decrease of all times."""
        self.engine.configure(attrs.evolve(self.engine.config, w_imbalance=BALANCING_WEIGHT))
        decrease = {}
        for time_limit in seconds:
            self.report(f"balancing for {time_limit:g} s")
            plan = self.engine.balance(budget=Budget(seconds=time_limit))
            decrease[time_limit] = plan.energy_before.total - plan.energy_after.total
        largest = max(decrease.values(), default=0.0)
        return {time_limit: share / largest if largest else 1.0 for time_limit, share in decrease.items()}
