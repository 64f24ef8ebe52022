"""The question on a scenario: its nodes or its density, the limit of violations, and the range of the search."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from enum import StrEnum
from typing import Any

import attrs

from cluster.errors import ScenarioError, ScenarioProblem
from cluster.scenario.cluster_sections import MOST_NODES
from cluster.scenario.scenario import Scenario
from cluster.scenario.workload_sections import MOST_DENSITY
from plb import InvalidValueError
from plb.validation import check_number

Search = Generator[int, bool, int | None]
"""Yields the next place to try, receives whether it suffices, and returns the result."""


def least_sufficient(start: int, lowest: int, highest: int, first_step: int = 1) -> Search:
    """Search for the lowest place from `lowest` to `highest` that suffices: yield a place, be sent whether it suffices.

    `start`: the first place to try; `first_step`: distance to the second place, which doubles with each step until both
    answers occurred. The result suffices, and is either the lowest or next to a place that does not; None: the highest
    does not suffice.
    """
    sufficient, failing = highest + 1, lowest - 1
    place, step = start, first_step
    while sufficient - failing > 1:
        if (yield place):
            sufficient = place
        else:
            failing = place
        if sufficient > highest:
            place = min(failing + step, highest)
        elif failing < lowest:
            place = max(sufficient - step, lowest)
        else:
            place = (sufficient + failing) // 2
        step *= 2
    return sufficient if sufficient <= highest else None


VIOLATIONS_A_DAY = 1.0
"""Violations a day of the whole cluster."""
LEAST_REPEATS = 10
"""Least number of repeats by default: with fewer, the interval is so wide that the answer has many nodes too many."""
NODES_STEP, DENSITY_STEP = 1.0, 0.05
LEAST_STEP = 1e-6
FARTHEST = 4
"""Upper end of the search by default, as a multiple of the nodes or the density of the scenario."""
FIRST_STEP_SHARE = 16
"""Divisor of the value of the scenario for the first step."""
ROUNDING = 1e-9


class Searched(StrEnum):
    """The quantity that a search varies."""

    NODES = "nodes"
    """The number of nodes outside groups. The tenants do not change."""
    DENSITY = "density"
    """The tenant density, with the nodes of the scenario."""


@attrs.frozen(kw_only=True)
class Question:
    """The question on a scenario.

    Values are on a grid, the whole multiples of `step`. Places on it are whole numbers. A higher place is easier for
    the cluster: it has more nodes, or a lower density.
    """

    searched: Searched
    """The quantity that the search varies."""
    violations: float
    """Largest number of violations a day of the whole cluster, for the upper end of the 95 % interval of the mean."""
    refused: float
    """Largest share of the tenants that are not placed when they arrive."""
    lowest: float
    highest: float
    """Range of the values."""
    step: float
    """Distance between values."""
    scenario_value: float
    """The value of the scenario."""

    def __attrs_post_init__(self) -> None:
        """Raise an error if a limit or the range is invalid, or no multiple of the step lies in the range."""
        check_number("capacity", "violations", self.violations)
        check_number("capacity", "refused", self.refused, high=1.0)
        most = _most(self.searched)
        check_number("capacity", "step", self.step, low=LEAST_STEP, high=most)
        check_number("capacity", "lowest", self.lowest, low_open=True)
        check_number("capacity", "highest", self.highest, low=self.lowest, high=most)
        if self.searched is Searched.NODES and not float(self.step).is_integer():
            raise InvalidValueError("capacity", "step", self.step, "a whole number of nodes")
        first, last = self._multiples
        if first > last:
            allowed = (
                f"such that a multiple of the step {self.step:g} lies between it and the highest, {self.highest:g}"
            )
            raise InvalidValueError("capacity", "lowest", self.lowest, allowed)

    @property
    def easiest(self) -> float:
        """The value that is easiest for the cluster: the most nodes, or the lowest density."""
        return self.value(self._ends[1])

    @property
    def hardest(self) -> float:
        """The value that is hardest for the cluster: the fewest nodes, or the highest density."""
        return self.value(self._ends[0])

    def value(self, place: int) -> float:
        """Return the number of nodes or the density at a place of the grid, whose values are multiples of the step."""
        multiple = place if self.searched is Searched.NODES else -place
        return round(multiple * self.step, 10)

    def place(self, value: float) -> int:
        """Return the place in the grid of a value; places of densities are negative."""
        multiple = round(value / self.step)
        return multiple if self.searched is Searched.NODES else -multiple

    def search(self) -> Search:
        """Return a search from the place nearest to the value of the scenario."""
        lowest, highest = self._ends
        start = min(max(self.place(self.scenario_value), lowest), highest)
        return least_sufficient(start, lowest, highest, max(1, abs(start) // FIRST_STEP_SHARE))

    def suffices(self, violations: float, refused: float) -> bool:
        """Return whether the violations a day, and the share of tenants that are not placed, are within the limits."""
        return violations <= self.violations and refused <= self.refused

    def scenario(self, scenario: Scenario, value: float) -> Scenario:
        """Return the scenario with `value` nodes and its own tenants, or with the tenant density `value`."""
        if self.searched is Searched.NODES:
            return attrs.evolve(scenario, cluster=attrs.evolve(scenario.cluster, nodes=int(value)))
        workload, end = scenario.workload, scenario.workload.density_end
        rises = None if end is None else end * value / workload.density
        return attrs.evolve(scenario, workload=attrs.evolve(workload, density=value, density_end=rises))

    def density(self, scenario: Scenario, value: float) -> float | None:
        """Return the tenant density of a scenario at a value; None if its arrivals are recorded."""
        if scenario.workload.arrivals == "recorded":
            return None
        if self.searched is Searched.DENSITY:
            return value
        metric, varied_cluster = scenario.workload.density_metric, self.scenario(scenario, value).cluster
        capacity = scenario.cluster.total_capacity(metric)
        return scenario.workload.density * capacity / varied_cluster.total_capacity(metric)

    def as_json(self) -> dict[str, Any]:
        """Return the question as plain JSON values."""
        names = {"violations": "violations_a_day", "refused": "refused_share"}
        plain = {**attrs.asdict(self), "searched": self.searched.value}
        return {names.get(name, name): value for name, value in plain.items()}

    @property
    def _multiples(self) -> tuple[int, int]:
        """First and last whole multiple of the step in the range."""
        return math.ceil(self.lowest / self.step - ROUNDING), math.floor(self.highest / self.step + ROUNDING)

    @property
    def _ends(self) -> tuple[int, int]:
        """The lowest and the highest place; places of densities are negative, as a lower density suffices sooner."""
        first, last = self._multiples
        return (first, last) if self.searched is Searched.NODES else (-last, -first)


def ask(scenario: Scenario, searched: Searched, fields: Mapping[str, float | None]) -> Question:
    """Return a question about a scenario that can vary; fields of `Question` that are None have defaults."""
    _check(scenario, searched)
    searches_nodes = searched is Searched.NODES
    scenario_value = float(scenario.cluster.nodes) if searches_nodes else scenario.workload.density
    chosen_values = {name: float(value) for name, value in fields.items() if value is not None}
    step = chosen_values.get("step", NODES_STEP if searches_nodes else DENSITY_STEP)
    least = float(_least_nodes(scenario)) if searches_nodes else 0.0
    defaults = {
        "violations": VIOLATIONS_A_DAY,
        "refused": 0.0,
        "lowest": max(least, step),
        "highest": max(min(FARTHEST * scenario_value, _most(searched)), step),
        "step": step,
    }
    chosen = {**defaults, **chosen_values}
    if chosen["lowest"] < least:
        allowed = f"at least {least:g}: nodes in groups are kept, and each fault domain that fails needs one"
        raise InvalidValueError("capacity", "lowest", chosen["lowest"], allowed)
    if chosen["lowest"] > chosen["highest"] and "highest" not in chosen_values:
        allowed = f"at most {chosen['highest']:g}, the end of the search without --highest"
        raise InvalidValueError("capacity", "lowest", chosen["lowest"], allowed)
    return Question(searched=searched, scenario_value=scenario_value, **chosen)


def _most(searched: Searched) -> float:
    """Return the largest number of nodes, or the highest density, that a scenario may have."""
    return float(MOST_NODES) if searched is Searched.NODES else MOST_DENSITY


def _least_nodes(scenario: Scenario) -> int:
    """Return the fewest nodes with which all groups and fault domains that a scenario names exist."""
    grouped = sum(group.nodes for group in scenario.cluster.groups)
    domains = min(scenario.cluster.fault_domains, scenario.cluster.nodes) if scenario.faults.outages else 0
    return max(1, grouped, domains)


def _check(scenario: Scenario, searched: Searched) -> None:
    """Raise an error for a scenario whose nodes and density are fixed."""
    problems = []
    if scenario.workload.kind == "plan":
        message = "a plan has fixed tenants on fixed nodes; plb provision plans the number of nodes"
        problems.append(ScenarioProblem("workload.kind", message))
    if searched is Searched.DENSITY and scenario.workload.arrivals == "recorded":
        message = "recorded arrivals have no density; search the number of nodes, without --density"
        problems.append(ScenarioProblem("workload.arrivals", message))
    if searched is Searched.NODES:
        for name in ("crashes", "flapping"):
            if getattr(scenario.faults, name):
                message = "names nodes, and the names change with the number of nodes; remove it, or use --density"
                problems.append(ScenarioProblem(f"faults.{name}", message))
    if problems:
        raise ScenarioError(scenario.name, problems)
