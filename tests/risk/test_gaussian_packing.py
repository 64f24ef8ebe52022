"""Packing, compared with algorithm 1 of [2] in plain Python, and invariants of every packing."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from plb.errors import ConflictError, InvalidValueError, PlbError
from plb.risk.gaussian import (
    GPA,
    PAPER_TESTS,
    PERCENTS,
    Cantelli,
    Demands,
    FitTest,
    GaussianPacking,
    Machines,
    MeanTimes,
    Percentile,
    TaskStatistics,
    observe,
    pack,
)

CAPACITY = 30.0
MARGIN = 1e-12
"""Examples in which the two computations might round to different sides are excluded."""

Tasks = list[tuple[float, float]]
MOMENTS = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 6)), min_size=1, max_size=25)
"""Mean and standard deviation of each task."""
OVERLOADS = st.sampled_from([0.1, 0.05, 0.01, 0.001])


def fit_bin(tasks: Tasks, members: list[int], task: int, overload: float) -> float:
    """Return FitBin of algorithm 1, lines 1 to 4."""
    inside = [*members, task]
    mean = sum(tasks[i][0] for i in inside)
    deviation = math.sqrt(sum(tasks[i][1] ** 2 for i in inside))
    below = NormalDist(mean, deviation).cdf(CAPACITY) if deviation else float(mean <= CAPACITY)
    return overload - (1.0 - below)


def algorithm_1(tasks: Tasks, overload: float, fit: str, failures: int) -> list[int]:
    """Return the machine of each task by [2] section 4."""
    machines: list[list[int]] = []
    for task in range(len(tasks)):
        found = {j: fit_bin(tasks, members, task, overload) for j, members in enumerate(machines)}
        assume(all(abs(value) > MARGIN for value in found.values()))
        fitting = {j: value for j, value in found.items() if value >= 0}
        if not fitting:
            machines.append([task])
        elif fit == "first":
            machines[min(fitting)].append(task)
        else:
            least = min(fitting.values())
            assume(sum(value - least < MARGIN for value in fitting.values()) == 1)
            machines[min(fitting, key=lambda j: fitting[j])].append(task)
    migrate(tasks, machines, overload, failures)
    place = {task: j for j, members in enumerate(machines) for task in members}
    return [place[task] for task in range(len(tasks))]


def migrate(tasks: Tasks, machines: list[list[int]], overload: float, failures: int) -> None:
    """Move first tasks to the last machine in round robin, until the given number of failures."""
    turn, failed = 0, 0
    while failed < failures and any(machines[:-1]):
        members = machines[turn % (len(machines) - 1)]
        turn += 1
        if members:
            value = fit_bin(tasks, machines[-1], members[0], overload)
            assume(abs(value) > MARGIN)
            if value >= 0:
                machines[-1].append(members.pop(0))
            else:
                failed += 1


def statistics_of(tasks: Tasks) -> TaskStatistics:
    """Return the statistics that `observe` would compute for such tasks."""
    moments = np.array(tasks, np.float64)
    return TaskStatistics(moments[:, 0], moments[:, 1] ** 2)


@given(MOMENTS, OVERLOADS, st.sampled_from(["first", "best"]), st.integers(0, 6))
def test_packing_by_gpa_equals_algorithm_1(tasks: Tasks, overload: float, fit: str, failures: int) -> None:
    found = pack(statistics_of(tasks), capacity=CAPACITY, test=GPA(overload), fit=fit, max_failures=failures)
    assert found.machine.tolist() == algorithm_1(tasks, overload, fit, failures)
    alone = [fit_bin(tasks, [], task, overload) < 0 for task in range(len(tasks))]
    assert found.oversized.tolist() == alone


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.sampled_from(["first", "best"]))
def test_packing_by_sizes_is_first_and_best_fit(sizes: list[int], fit: str) -> None:
    """Whole sizes have exact sums: a machine may be completely full; the first of equally full ones gets the task."""
    machines: list[int] = []
    expected = []
    for size in sizes:
        fitting = [j for j, load in enumerate(machines) if load + size <= CAPACITY]
        chosen = len(machines)
        if fitting:
            chosen = fitting[0] if fit == "first" else max(fitting, key=lambda j: (machines[j], -j))
        else:
            machines.append(0)
        machines[chosen] += size
        expected.append(chosen)
    known = TaskStatistics(np.array(sizes, float), np.ones(len(sizes)))
    found = pack(known, capacity=CAPACITY, test=MeanTimes(1.0), fit=fit, max_failures=0)
    assert found.machine.tolist() == expected
    assert found.machines == len(machines)
    assert found.oversized.tolist() == [size > CAPACITY for size in sizes]


def fit_together(test: FitTest, known: TaskStatistics, members: np.ndarray, capacity: np.ndarray) -> bool:
    demands = test.demands(known)
    needed = demands.size[members].sum(axis=0)
    if test.quantile is not None:
        needed = needed + test.quantile * np.sqrt(demands.variance[members].sum(axis=0))
    return bool((needed <= capacity * (1.0 + 1e-12)).all())


@given(
    st.integers(1, 40),
    st.integers(1, 3),
    st.sampled_from(PAPER_TESTS),
    st.sampled_from(["first", "best"]),
    st.integers(0, 2**32),
)
def test_every_machine_passes_the_test(tasks: int, resources: int, test: FitTest, fit: str, seed: int) -> None:
    """It passes in every resource, also after rebalancing; a task that fits on no machine is alone."""
    values = np.random.default_rng(seed).exponential(5.0, (tasks, 20, resources))
    known = observe(values, PERCENTS)
    capacity = np.full(resources, CAPACITY)
    found = pack(known, capacity=capacity, test=test, fit=fit)
    assert sorted(set(found.machine.tolist())) == list(range(found.machines))
    for machine in range(found.machines):
        members = np.flatnonzero(found.machine == machine)
        if found.oversized[members].any():
            assert len(members) == 1
        else:
            assert fit_together(test, known, members, capacity)


@settings(deadline=None, max_examples=40)
@given(MOMENTS, OVERLOADS, st.sampled_from(["first", "best"]))
def test_resource_without_demand_changes_nothing(tasks: Tasks, overload: float, fit: str) -> None:
    """Each resource has its own test, and all must pass ([2] section 6)."""
    one = statistics_of(tasks)
    two = TaskStatistics(np.hstack([one.mean, 0 * one.mean]), np.hstack([one.variance, 0 * one.variance]))
    with_one = pack(one, capacity=CAPACITY, test=GPA(overload), fit=fit)
    with_second = pack(two, capacity=[CAPACITY, 5.0], test=GPA(overload), fit=fit)
    assert with_one.machine.tolist() == with_second.machine.tolist()


@settings(deadline=None, max_examples=40)
@given(MOMENTS, OVERLOADS, st.sampled_from(["first", "best"]))
def test_machines_accept_tasks_one_at_a_time(tasks: Tasks, overload: float, fit: str) -> None:
    """The machines equal those of `pack`; `fits` names the feasible ones before each task."""
    known, test = statistics_of(tasks), GPA(overload)
    demands = test.demands(known)
    machines = Machines(CAPACITY, test, fit)
    place = []
    for size, variance in zip(demands.size, demands.variance, strict=True):
        fitting = machines.fits(size, variance)
        place.append(machines.place(size, variance))
        assert fitting[place[-1]] if place[-1] < len(fitting) else not fitting.any()
    assert place == pack(known, capacity=CAPACITY, test=test, fit=fit, max_failures=0).machine.tolist()


def test_sizes_are_those_of_section_5_1() -> None:
    """They are μ + b·σ, f·μ and the percentile, of each task and resource."""
    values = np.random.default_rng(1).exponential(3.0, (4, 101, 2))
    known = observe(values, [50.0, 95.0, 100.0])
    for task in range(4):
        for resource in range(2):
            row = sorted(values[task, :, resource].tolist())
            mean = sum(row) / 101
            deviation = math.sqrt(sum((value - mean) ** 2 for value in row) / 101)
            found = [
                test.demands(known).size[task, resource]
                for test in (Cantelli(1.7), MeanTimes(1.25), Percentile(50), Percentile(95.0), Percentile(100.0))
            ]
            assert found == pytest.approx([mean + 1.7 * deviation, 1.25 * mean, row[50], row[95], row[100]])


class HalfOfTheMaximum:
    """A test of a user."""

    name = "half of the maximum"
    quantile = None

    def demands(self, statistics: TaskStatistics) -> Demands:
        """Return half of each maximum."""
        sizes = statistics.percentiles[100.0] / 2.0
        return Demands(sizes, np.zeros_like(sizes))


def test_packing_with_a_test_of_a_user() -> None:
    values = np.array([[1.0, 4.0], [2.0, 6.0], [1.0, 8.0]])
    found = pack(observe(values, [100.0]), capacity=5.0, test=HalfOfTheMaximum())
    assert found.machine.tolist() == [0, 0, 1]


KNOWN = TaskStatistics(np.ones((2, 2)), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: GPA(1.0), InvalidValueError, "overload = 1.0.*< 1"),
        (lambda: GPA(0.0), InvalidValueError, "overload = 0.0.*> 0"),
        (lambda: Cantelli(-1.0), InvalidValueError, "deviations"),
        (lambda: MeanTimes(0.0), InvalidValueError, "factor"),
        (lambda: Percentile(101.0), InvalidValueError, "percent"),
        (lambda: pack(KNOWN, capacity=[1.0], test=GPA(0.1)), ConflictError, r"capacity has shape \(1,\).*each of 2"),
        (lambda: pack(KNOWN, capacity=1.0, test=GPA(0.1)), ConflictError, "capacity"),
        (lambda: Machines([[1.0, 1.0]] * 2, GPA(0.1)), ConflictError, r"machine: capacity has shape \(2, 2\)"),
        (lambda: pack(KNOWN, capacity=[1.0, -1.0], test=GPA(0.1)), InvalidValueError, r"capacity\[1\] = -1.0"),
        (lambda: pack(KNOWN, capacity=[1, 1], test=GPA(0.1), fit="worst"), InvalidValueError, "first"),
        (lambda: pack(KNOWN, capacity=[1, 1], test="GPA"), InvalidValueError, "a FitTest"),
        (lambda: pack(KNOWN, capacity=[1, 1], test=GPA(0.1), max_failures=-1), InvalidValueError, "max_failures"),
        (lambda: pack(KNOWN, capacity=[1, 1], test=Percentile(95.0)), ConflictError, "tile 95 is not.*kept: none"),
    ],
)
def test_bad_arguments_are_refused(call: Any, kind: type[PlbError], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_packing_without_tasks_has_no_machines() -> None:
    found = pack(TaskStatistics(np.zeros((0, 1)), np.zeros((0, 1))), capacity=1.0, test=GPA(0.1))
    assert isinstance(found, GaussianPacking)
    assert (found.machines, len(found.machine), len(found.oversized)) == (0, 0, 0)
