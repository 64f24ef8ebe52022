"""How fast the engine scores configurations: `plb bench engine`.

The yardstick is [1] section 8.5: Service Fabric needs 432 ms to enumerate and score 1,000 configurations, 890 ms with
the expected failovers. A configuration counts as scored when its proposal passed the constraints and its energy, or a
bound that settles its fate, was computed (design section 6).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from plb.arrays import NOWHERE, Int, Problem, Solution
from plb.config import PlbConfig
from plb.constraints import ALL_RULES, NO_REFUSAL
from plb.energy.failovers import violations_left
from plb.energy.score import energy_of
from plb.engine import PlacementAndLoadBalancing
from plb.kernel import kernel
from plb.model import Metric, Node, Partition, Replica, Role, Service
from plb.problem import start_solution
from plb.risk.demand import DemandHistory
from plb.search.proposal import REACHED_MONTE_CARLO, SCORED, TALLY_SIZE, Choice, draw_proposal, judge, refusal_in_place
from plb.search.transition import (
    fragmentation_of_proposal,
    imbalance_of_proposal,
    movement_after,
    present_energy,
    violations_at_target,
)
from plb.testing import configuration_of

PAPER_PER_SECOND = 1000 / 0.890
"""Configurations a second of the modified component in [1] section 8.5."""


@attrs.frozen
class EngineFigures:
    """What `plb bench engine` reports; figures a second are scored configurations on one thread.

    Parameters
    ----------
    full
        (a) All repetitions of both nodes evaluated for every proposal.
    early_half, early_five
        (b) Early rejection, at 50 % and at 5 % acceptance on a fixed state.
    arithmetic
        A loop over moves drawn beforehand that does only the 2·R·K adds and compares.
    reached_monte_carlo_half, reached_monte_carlo_five
        Share of scored configurations whose repetitions were evaluated.
    first_plan_seconds
        Time from `import plb` to the first plan in a new process, with compiled kernels.
    bytes_per_replica
        Memory of the arrays, a replica.
    """

    nodes: int
    replicas: int
    full: float
    early_half: float
    early_five: float
    arithmetic: float
    reached_monte_carlo_half: float
    reached_monte_carlo_five: float
    first_plan_seconds: float
    bytes_per_replica: float

    @property
    def ratio(self) -> float:
        """Full evaluation relative to the arithmetic-only loop."""
        return self.full / self.arithmetic

    def rows(self) -> list[tuple[str, str]]:
        """Return the figures as lines of a table: what, and how much."""
        return [
            ("(a) all repetitions of both nodes", f"{self.full:,.0f} /s"),
            ("    arithmetic-only loop", f"{self.arithmetic:,.0f} /s"),
            ("    ratio", f"{self.ratio:.2f}"),
            ("(b) early rejection, 50 % accepted", f"{self.early_half:,.0f} /s"),
            ("    share that reached the repetitions", f"{self.reached_monte_carlo_half:.0%}"),
            ("(b) early rejection, 5 % accepted", f"{self.early_five:,.0f} /s"),
            ("    share that reached the repetitions", f"{self.reached_monte_carlo_five:.0%}"),
            ("    times Service Fabric as modified by [1] (8.5)", f"{self.early_five / PAPER_PER_SECOND:,.0f}"),
            ("first plan of a new process, kernels cached", f"{self.first_plan_seconds:.2f} s"),
            ("memory", f"{self.bytes_per_replica:,.0f} bytes a replica"),
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the figures under the keys of design section 13."""
        return {
            "proposals_per_second": self.early_five,
            "arithmetic_ratio": self.ratio,
            "first_plan_seconds": self.first_plan_seconds,
            "sizes": [
                {
                    "nodes": self.nodes,
                    "replicas": self.replicas,
                    "proposals_per_second": self.early_five,
                    "bytes_per_replica": self.bytes_per_replica,
                }
            ],
            "details": attrs.asdict(self) | {"paper_per_second": PAPER_PER_SECOND},
        }


def bench_engine(*, nodes: int = 40, replicas: int = 1200, proposals: int = 1_000_000, seed: int = 0) -> EngineFigures:
    """Measure on one thread: 3 metrics, 100 repetitions, fault and upgrade domains on.

    Parameters
    ----------
    proposals
        Proposals drawn for each figure.
    """
    problem = bench_problem(nodes, replicas, seed)
    solution = start_solution(problem)
    movable = np.flatnonzero(problem.movable)
    choice = Choice(movable[:0], movable, len(movable), ALL_RULES, 0.0, 0.0)

    def rate(temperature: float) -> tuple[float, float, float]:
        tally = np.zeros(TALLY_SIZE, np.int64)
        rng = np.random.Generator(np.random.PCG64(seed))
        begun = time.perf_counter()
        accepted = _score_only(problem, solution, choice, temperature, rng, proposals, tally)
        seconds = time.perf_counter() - begun
        scored = int(tally[SCORED])
        return scored / seconds, accepted / scored, float(tally[REACHED_MONTE_CARLO]) / scored

    _score_fully(problem, solution, choice, np.random.default_rng(seed), 10)
    rate(0.0)
    rng = np.random.Generator(np.random.PCG64(seed))
    begun = time.perf_counter()
    scored = _score_fully(problem, solution, choice, rng, proposals)
    full = scored / (time.perf_counter() - begun)
    half = rate(_temperature_for(0.5, rate))
    five = rate(_temperature_for(0.05, rate))
    arrays = (*problem[:-4], *solution)
    held = sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
    return EngineFigures(
        nodes=nodes,
        replicas=replicas,
        full=full,
        early_half=half[0],
        early_five=five[0],
        arithmetic=_arithmetic_rate(problem, solution, proposals, seed),
        reached_monte_carlo_half=half[2],
        reached_monte_carlo_five=five[2],
        first_plan_seconds=first_plan_seconds(),
        bytes_per_replica=held / replicas,
    )


def bench_problem(nodes: int, replicas: int, seed: int) -> Problem:
    """Return a cluster of partitions with four replicas each, filled to where some nodes are at risk."""
    rng = np.random.default_rng(seed)
    metrics = [Metric("cpu", trend=False), Metric("memory"), Metric("disk")]
    capacity = np.array([80.0, 408.0, 5000.0])
    history = _bench_history(rng, capacity, replicas / nodes)
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=metrics, w_imbalance=1.0), seed=seed, history=history)
    for index in range(nodes):
        engine.update_node(
            Node(
                f"n{index}",
                capacities=dict(zip(("cpu", "memory", "disk"), capacity, strict=True)),
                fault_domain=f"fd:/rack{index % 5}",
                upgrade_domain=f"ud{index % 10}",
            )
        )
    engine.update_service(Service("tenants", tenant_class="class", target_replicas=4))
    for index in range(replicas // 4):
        first = int(rng.integers(nodes))
        places = [(first + 11 * step) % nodes for step in range(4)]  # four different fault and upgrade domains
        roles = [Role.PRIMARY] + [Role.SECONDARY] * 3
        copies = [Replica(role, f"n{place}") for role, place in zip(roles, places, strict=True)]
        engine.update_partition(Partition(f"p{index}", service="tenants", replicas=tuple(copies)))
    rows = np.array([r.index for index in range(replicas // 4) for r in engine.replicas(f"p{index}")])
    mean = 0.55 * capacity * nodes / replicas
    engine.report_loads(rows, mean * rng.uniform(0.2, 1.8, (len(rows), 3)))
    return configuration_of(engine).problem


def _bench_history(rng: np.random.Generator, capacity: Any, replicas_per_node: float) -> DemandHistory:
    traces = 2000
    mean = 0.8 * capacity / replicas_per_node
    level = mean * rng.gamma(2.0, 0.5, (traces, 3))
    roles = np.repeat(np.array([0, 1], np.int8), traces // 2)
    return DemandHistory.from_columns(
        ("cpu", "memory", "disk"),
        tenant_class=["class"] * traces,
        role=roles,
        lifetime=np.full(traces, 1e7),
        level=level,
        initial=0.5 * level,
        growth=np.full((traces, 3), 3600.0),
        maximum=1e6 * np.ones((traces, 3)),
    )


def _temperature_for(acceptance: float, rate: Callable[[float], tuple[float, float, float]]) -> float:
    """Return a temperature at which about this share of the scored proposals is accepted."""
    low, high = 1e-9, 1e3
    for _ in range(24):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if rate(middle)[1] > acceptance else (middle, high)
    return math.sqrt(low * high)


@kernel
def _score_only(
    problem: Problem,
    solution: Solution,
    choice: Choice,
    temperature: float,
    rng: np.random.Generator,
    proposals: int,
    tally: Int,
) -> int:
    """Draw and judge proposals against the present state, and take none; return how many would have been taken."""
    energy = present_energy(problem, solution)
    accepted = 0
    for _ in range(proposals):
        row, target, partner = draw_proposal(problem, solution, choice, rng)
        if row == NOWHERE or target == solution.node[row]:
            continue
        if refusal_in_place(problem, solution, choice.enforced, row, target, partner) != NO_REFUSAL:
            continue
        highest = energy - temperature * math.log(1.0 - rng.random())
        accepted += judge(problem, solution, highest, row, target, partner, tally) < math.inf
    return accepted


@kernel
def _score_fully(problem: Problem, solution: Solution, choice: Choice, rng: np.random.Generator, proposals: int) -> int:
    """Draw proposals and evaluate all repetitions of both nodes of those that pass; return how many did."""
    scored = 0
    lowest = math.inf
    for _ in range(proposals):
        row, target, partner = draw_proposal(problem, solution, choice, rng)
        if row == NOWHERE or target == solution.node[row]:
            continue
        if refusal_in_place(problem, solution, choice.enforced, row, target, partner) != NO_REFUSAL:
            continue
        here = solution.node[row]
        violations = solution.counts[0] - solution.violating[here] - solution.violating[target]
        violations += violations_left(
            solution.aggregate[here], solution.ceiling[here], problem.threshold[here], problem.peak[row], solution.hit
        )
        violations += violations_at_target(problem, solution, row, target, partner)
        after = energy_of(
            problem.weights,
            movement_after(problem, solution, row, target, partner),
            imbalance_of_proposal(problem, solution, row, target, partner),
            fragmentation_of_proposal(problem, solution, row, target, partner),
            violations,
        )
        lowest = min(lowest, after)
        scored += 1
    return scored if lowest < math.inf else 0


def _arithmetic_rate(problem: Problem, solution: Solution, proposals: int, seed: int) -> float:
    """Return moves a second of a loop that does nothing but the 2·R·K adds and compares."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(np.flatnonzero(problem.movable), proposals)
    targets = rng.integers(len(problem.limit), size=proposals)
    sources = solution.node[rows]
    _arithmetic(problem, solution, rows[:10], sources[:10], targets[:10])
    begun = time.perf_counter()
    _arithmetic(problem, solution, rows, sources, targets)
    return proposals / (time.perf_counter() - begun)


@kernel
def _arithmetic(problem: Problem, solution: Solution, rows: Int, sources: Int, targets: Int) -> int:
    hits = 0
    aggregate, peak = solution.aggregate, problem.peak
    for index in range(rows.shape[0]):
        row, source, target = rows[index], sources[index], targets[index]
        cpu, memory, disk = problem.threshold[target, 0], problem.threshold[target, 1], problem.threshold[target, 2]
        for k in range(aggregate.shape[2]):
            at_source = (
                (aggregate[source, 0, k] - peak[row, 0, k] >= cpu)
                | (aggregate[source, 1, k] - peak[row, 1, k] >= memory)
                | (aggregate[source, 2, k] - peak[row, 2, k] >= disk)
            )
            at_target = (
                (aggregate[target, 0, k] + peak[row, 0, k] >= cpu)
                | (aggregate[target, 1, k] + peak[row, 1, k] >= memory)
                | (aggregate[target, 2, k] + peak[row, 2, k] >= disk)
            )
            hits += int(at_source) + int(at_target)
    return hits


FIRST_PLAN = """
import time
begun = time.perf_counter()
import plb
metrics = [plb.Metric("cpu", trend=False), plb.Metric("memory"), plb.Metric("disk")]
engine = plb.PlacementAndLoadBalancing(plb.PlbConfig(metrics=metrics), seed=0)
for index in range(40):
    engine.update_node(plb.Node(f"n{index}", capacities={"cpu": 80, "memory": 408, "disk": 5000},
                                fault_domain=f"fd:/rack{index % 5}", upgrade_domain=f"ud{index % 10}"))
engine.update_service(plb.Service("tenants", target_replicas=4))
for index in range(10):
    engine.update_partition(plb.Partition(f"p{index}", service="tenants"))
assert len(engine.refresh(now=0.0).moves) == 40
print(time.perf_counter() - begun)
"""


def first_plan_seconds() -> float:
    """Return the seconds from `import plb` to the first plan in a new process, once the kernels are compiled."""
    import subprocess
    import sys

    def once() -> float:
        run = subprocess.run([sys.executable, "-c", FIRST_PLAN], capture_output=True, text=True, check=True)
        return float(run.stdout)

    once()
    return min(once() for _ in range(3))
