"""The speed at which the engine scores configurations: `plb bench engine`.

The comparison is [1] section 8.5: Service Fabric needs 432 ms to enumerate and score 1,000 configurations, and 890 ms
with the expected failovers. A configuration counts as scored if its proposal passed the constraints and its energy, or
a bound that was enough to reject it, was computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import attrs
import numpy as np

from cluster.bench.clusters import REPLICAS_A_NODE, bench_cluster
from cluster.bench.decisions import decision_seconds, fastest
from cluster.bench.figures import EngineFigures, SizeFigures
from cluster.bench.kernels import arithmetic, score_fully, score_only
from cluster.bench.start import cold_first_plan, warm_first_plan
from plb.compiler import Stream
from plb.engine import PlacementAndLoadBalancing
from plb.evaluation.proposals import REACHED_MONTE_CARLO, SCORED, TALLY_SIZE
from plb.model.rules import ALL_RULES
from plb.planning.problem import start_solution
from plb.risk import Evaluation
from plb.search.budget import Budget
from plb.search.move_generation import Choice
from plb.state.arrays import Problem, Solution
from plb.testing import configuration_of

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
    """Measure each size with 3 metrics, 100 repetitions, 30 replicas a node, and fault and upgrade domains.

    Parameters
    ----------
    sizes
        Numbers of nodes.
    proposals
        Number of proposals for each figure.
    seconds
        Times after which the quality of a search is measured.
    cold
        True: also measure the first plan of a process without compiled kernels.
    seed
        Seed of the clusters and of all random numbers.
    report
        Called with the name of each step before it starts.
    """
    found = []
    for nodes in sorted(sizes):
        _report_of_size(report, nodes, f"describing {nodes * REPLICAS_A_NODE:,} replicas")
        bench = SizeBench(bench_cluster(nodes, seed), proposals, seed, partial(_report_of_size, report, nodes))
        found.append(bench.figures(tuple(seconds)))
    report("first plan of a new process")
    warm = warm_first_plan().seconds
    if cold:
        report("first plan of a new process that compiles the kernels")
    return EngineFigures(tuple(found), warm, cold_first_plan()[0].seconds if cold else None)


def _report_of_size(report: Callable[[str], None], nodes: int, step: str) -> None:
    report(f"{nodes:,} nodes: {step}")


class SizeBench:
    """The measurements of one size.

    Parameters
    ----------
    engine
        An engine with a cluster, from `cluster.bench.clusters.bench_cluster`.
    proposals, seed, report
        As in `bench_engine`.
    """

    def __init__(
        self,
        engine: PlacementAndLoadBalancing,
        proposals: int,
        seed: int,
        report: Callable[[str], None] = lambda _step: None,
    ) -> None:
        self.engine, self.proposals, self.seed, self.report = engine, proposals, seed, report
        self._describe()

    def _describe(self) -> None:
        """Read the arrays for the measurements from the engine."""
        self.configuration = configuration_of(self.engine)
        self.problem: Problem = self.configuration.problem
        self.solution: Solution = start_solution(self.problem)
        movable = np.flatnonzero(self.problem.movable)
        self.choice = Choice(movable[:0], movable, len(movable), ALL_RULES, 0.0, 0.0)

    def figures(self, seconds: tuple[float, ...]) -> SizeFigures:
        """Measure everything."""
        self.report("scoring")
        cold = self.temperature_for(0.05)
        half, five = self.early(self.temperature_for(0.5)), self.early(cold)
        full, arithmetic = self.full(), self._arithmetic()
        two_threads = self._on_two_threads(cold)
        self.report("deciding")
        decisions = decision_seconds(self.engine, "tenants")
        self.report("evaluating at departures")
        timeline_five, timeline_decisions = self._at_departures()
        self.report("refreshing")
        report_seconds, refresh_seconds = self._refresh()
        return SizeFigures(
            nodes=len(self.problem.limit),
            replicas=self.replicas,
            full=full,
            early_half=half[0],
            early_five=five[0],
            two_threads=two_threads,
            arithmetic=arithmetic,
            reached_monte_carlo_half=half[1],
            reached_monte_carlo_five=five[1],
            bytes_per_replica=self.bytes_per_replica(),
            timeline_five=timeline_five,
            report_seconds=report_seconds,
            refresh_seconds=refresh_seconds,
            decision_seconds=decisions,
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
        """Return the number of proposals that were scored, reached the repetitions, and would have been accepted."""
        tally = np.zeros(TALLY_SIZE, np.int64)
        rng = Stream(self.seed)
        solution = self.solution if solution is None else solution
        drawn = self.proposals if proposals is None else proposals
        accepted = score_only(self.problem, solution, self.choice, temperature, rng, drawn, tally)
        return int(tally[SCORED]), int(tally[REACHED_MONTE_CARLO]), accepted

    def early(self, temperature: float) -> tuple[float, float]:
        """Return scored configurations a second with early rejection, and the share that reached the repetitions."""
        scored, reached, _ = self.score(temperature)
        return scored / fastest(lambda: self.score(temperature)), reached / scored

    def _on_two_threads(self, temperature: float) -> float:
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
        """Return the moves a second of a loop with only the 2·R·K additions and comparisons."""
        rng = np.random.default_rng(self.seed)
        rows = rng.choice(self.choice.movable, self.proposals)
        targets = rng.integers(len(self.problem.limit), size=self.proposals)
        sources = self.solution.node[rows]
        arithmetic(self.problem, self.solution, rows[:10], sources[:10], targets[:10])
        return self.proposals / fastest(lambda: arithmetic(self.problem, self.solution, rows, sources, targets))

    def _refresh(self) -> tuple[float, float]:
        """Return the seconds of a report of all loads, and of the refresh after it."""
        rows = self.choice.movable
        random = np.random.default_rng(self.seed)
        before = self.problem.load[rows] * self.configuration.description.quanta
        after = before * random.uniform(0.9, 1.1, before.shape)
        found = []
        for loads in (after, before, after, before):
            reported = fastest(partial(self.engine.report_loads, rows, loads), 1)
            found.append((reported, fastest(lambda: self.engine.refresh(now=0.0, budget=PLANNED), 1)))
        return min(one for one, _ in found), min(one for _, one in found)

    def _at_departures(self) -> tuple[float, dict[str, float]]:
        """Return scored configurations a second, and the seconds of decisions, with `timeline` evaluation."""
        config = self.engine.config
        self.engine.configure(attrs.evolve(config, evaluation=Evaluation.TIMELINE))
        self._describe()
        five = self.early(self.temperature_for(0.05))[0]
        decisions = decision_seconds(self.engine, "tenants")
        self.engine.configure(config)
        self._describe()
        return five, decisions

    def temperature_for(self, acceptance: float) -> float:
        """Return a temperature at which approximately this share of the scored proposals is accepted."""
        low, high = 1e-9, 1e3
        for _ in range(BISECTIONS):
            middle = math.sqrt(low * high)
            scored, _, accepted = self.score(middle, proposals=self.proposals // 10)
            low, high = (low, middle) if accepted > acceptance * scored else (middle, high)
        return math.sqrt(low * high)

    def _quality(self, seconds: tuple[float, ...]) -> dict[float, float]:
        """Return the decrease of the energy by balancing for different times, by the largest decrease of all times.

        Imbalance has so large a weight that moves lower the energy.
        """
        self.engine.configure(attrs.evolve(self.engine.config, w_imbalance=BALANCING_WEIGHT))
        decrease = {}
        for limit in seconds:
            self.report(f"balancing for {limit:g} s")
            plan = self.engine.balance(budget=Budget(seconds=limit))
            decrease[limit] = plan.energy_before.total - plan.energy_after.total
        most = max(decrease.values(), default=0.0)
        return {limit: share / most if most else 1.0 for limit, share in decrease.items()}
