"""Instances, limits and names are checked before any work."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import ConflictError, InvalidValueError, UnknownNameError
from plb.provisioning import Affinity, Instance, NodeType, algorithm_names, provision, whole_units
from plb.provisioning.algorithms import Way, parse_algorithm
from plb.provisioning.packing import Measure
from tests.provisioning.strategies import instances, make_instance

INSTANCE = make_instance([4, 3], [2, 2], [(0, 1, 1)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"replicas": np.array([2, 0])}, r"replicas\[1\] = 0 is not allowed; expected a whole number from 1"),
        ({"demand": np.array([[[1.5]], [[1]]])}, r"demand\[0, 0, 0\] = 1.5 is not allowed"),
        ({"demand": np.array([[[np.nan]], [[1]]])}, r"demand\[0, 0, 0\] = nan is not allowed"),
        ({"demand": np.array([[1], [1]])}, "demand = .* expected numbers with 3 axes"),
        ({"replicas": np.array([2])}, "2 applications and 1 resources, but replicas has shape"),
        ({"demand": np.zeros((2, 1, 0), np.int32)}, "2 applications and 1 resources"),
        ({"demand": np.array([[[4]], [[11]]])}, "application b: demand = '11 cpu' .* at most what a node has"),
        ({"nodes": (NodeType("n", np.array([9, 9])),)}, "node type n has 2 capacities, not 1"),
        ({"applications": ("a", "a")}, "applications = 'a' .* given once"),
        ({"applications": ()}, "applications = \\(\\) .* at least one name"),
        ({"name": ""}, "name"),
        ({"units": (0.0,)}, "units = 0.0"),
        ({"units": ()}, "there are 0 units"),
        ({"affinity": Affinity.from_columns([2], [0], [1], 3)}, r"affinity: source\[0\] = 2 .* from 0 to 1"),
        ({"affinity": None}, "affinity = None is not allowed; expected an Affinity"),
        ({"affinity": Affinity(*np.array([[0], [1], [-1]]))}, r"instance .*: affinity: most\[0\] = -1"),
        ({"affinity": Affinity(*np.array([[0], [1], [2**31 - 1]]))}, r"most\[0\] = 2147483647 .* to 2147483646"),
        ({"affinity": Affinity(np.array([0, 1]), np.array([1]), np.array([1]))}, "affinity: the columns have"),
        ({"affinity": Affinity.from_columns([1], [1], [0], 2)}, "application b may not stand beside itself"),
        ({"affinity": Affinity.from_columns([1, 1], [1, 1], [2, 3], 2)}, "b may not stand beside itself, or"),
        ({"affinity": Affinity.from_columns([1, 0, 0], [0, 1, 1], [1, 1, 2], 2)}, "a has several limits .* b; exp"),
    ],
)
def test_invalid_instance_is_refused_with_the_reason(change: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidValueError, ConflictError), match=message):
        attrs.evolve(INSTANCE, **change)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([0], [2], [1]), r"affinity: target\[0\] = 2 is not allowed; expected a whole number from 0 to 1"),
        (([0, -1], [1, 1], [1, 1]), r"affinity: source\[1\] = -1"),
        (([0], [1], [-1]), r"affinity: most\[0\] = -1"),
        (([0], [1], [0.5]), r"affinity: most\[0\] = 0.5"),
        (([0], [1, 0], [1]), "affinity: the columns have"),
        ((["a"], [1], [1]), "affinity: source = '<U1 .* expected numbers with 1 axis"),
        (([[0]], [[1]], [[1]]), "affinity: source = .* expected numbers with 1 axis"),
        ((0, 1, 1), "affinity: source = .* expected numbers with 1 axis"),
        (([[0, 1], [1]], [1], [1]), r"affinity: source = \[\[0, 1\], \[1\]\] .* expected lists of equal lengths"),
    ],
)
def test_invalid_limits_are_refused_with_their_row(columns: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises((InvalidValueError, ConflictError), match=message):
        Affinity.from_columns(*columns, 2)


VARYING = attrs.evolve(INSTANCE, demand=np.array([[[4, 3]], [[3, 4]]]))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"instance": None}, InvalidValueError, "provisioning: instance = None"),
        ({"algorithm": 3}, InvalidValueError, "provisioning: algorithm = 3 is not allowed; expected a string"),
        ({"algorithm": "FF", "seed": -1}, InvalidValueError, "seed = -1 is not allowed; expected a whole number >= 0"),
        ({"algorithm": "FF", "time_limit": -1.0}, InvalidValueError, "time_limit"),
        ({"algorithm": "WFD-Averag"}, UnknownNameError, "WFD-Avg"),  # the nearest name, not all sixty
        ({"algorithm": "auto", "rules": "released"}, ConflictError, "'auto'"),
        ({"instance": VARYING, "algorithm": "FF", "rules": "released"}, ConflictError, "2 time points"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    """The released rules are for constant demand and a named algorithm; no others are published."""
    with pytest.raises(error, match=message):
        provision(**{"instance": INSTANCE, **arguments})


@pytest.mark.parametrize(
    ("values", "decimals", "message"),
    [
        ([-1.0], 6, "values = -1.0 is not allowed; expected finite numbers >= 0"),
        ([0.1, 1e308], 6, r"values = 1e\+308 is not allowed; expected at most"),
        (["a"], 6, "expected numbers"),
        ([1.0], -1, "most_decimals = -1 is not allowed"),
        ([1.0], 301, "most_decimals = 301 is not allowed"),
    ],
)
def test_values_without_whole_units_are_refused(values: list[Any], decimals: int, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        whole_units(values, decimals)


def test_every_name_is_parsed() -> None:
    """Only known pairs of names mean the same algorithm."""
    parsed = [attrs.evolve(parse_algorithm(name), name="") for name in algorithm_names()]
    twins = [algorithm for algorithm in parsed if parsed.count(algorithm) > 1]
    assert {algorithm.way for algorithm in twins} <= {
        Way.FIRST_FIT,
        Way.NODE_CENTRIC,
    }  # Medea and LRASched equal the paper's
    assert len(twins) == 4


def test_hybrid_sizes_and_steps_are_read_from_the_name() -> None:
    """They are α of equation 3 and the percentage of steps."""
    algorithm = parse_algorithm("SpreadWFD-Max-Hybrid0.9-Decr2.5")
    assert (algorithm.way, algorithm.measure, algorithm.decreasing) == (Way.SPREAD, Measure.MAX, True)
    assert (algorithm.demand_share, algorithm.decrement_percent) == (0.9, 2.5)
    for invalid in ("FFD-Avg-Hybrid1.5", "SpreadWFD-Avg", "NCD-Avg", "FF-Avg", "Match-DotProduct-Decr"):
        with pytest.raises(UnknownNameError):
            parse_algorithm(invalid)


@given(st.lists(st.integers(0, 10**6), min_size=1), st.integers(0, 6))
def test_whole_units_are_exact_for_decimals(numbers: list[int], decimals: int) -> None:
    """The unit is the largest one that is exact."""
    values = [number / 10**decimals for number in numbers]
    whole, unit = whole_units(values)
    assert unit >= 10.0**-decimals
    assert (whole / round(1 / unit)).tolist() == values


def test_values_finer_than_the_finest_unit_are_rounded_up() -> None:
    """A plan never needs less than the real demand."""
    whole, unit = whole_units([1 / 3, 0.5])
    assert (whole.tolist(), unit) == ([333_334, 500_000], 1e-6)


@given(instance=instances())
def test_limits_by_application_equal_the_given_ones(instance: Instance) -> None:
    """They hold in both directions; the least limit of an application on itself counts."""
    number = len(instance.applications)
    neighbours, limits = instance.affinity.neighbours(number), instance.affinity
    given_arcs = sorted(zip(limits.source.tolist(), limits.target.tolist(), limits.most.tolist(), strict=True))
    outward = [
        (application, int(neighbours.out_target[arc]), int(neighbours.out_most[arc]))
        for application in range(number)
        for arc in range(neighbours.out_start[application], neighbours.out_start[application + 1])
    ]
    inward = [
        (int(neighbours.in_source[arc]), application, int(neighbours.in_most[arc]))
        for application in range(number)
        for arc in range(neighbours.in_start[application], neighbours.in_start[application + 1])
    ]
    between = [arc for arc in given_arcs if arc[0] != arc[1]]
    assert sorted(outward) == sorted(inward) == between
    for application in range(number):
        most_on_a_node = [most for source, target, most in given_arcs if source == target == application]
        assert neighbours.most_on_a_node[application] == min(most_on_a_node, default=2**31 - 1)


def test_demand_of_a_resource_without_capacity_is_refused() -> None:
    nothing = attrs.evolve(
        INSTANCE,
        resources=("cpu", "gpu"),
        demand=np.array([[[4], [0]], [[3], [0]]]),
        nodes=(NodeType("n", np.array([10, 0])),),
        units=(1.0, 1.0),
    )
    for name in algorithm_names():
        assert provision(nothing, name).valid
    with pytest.raises(InvalidValueError, match="application b: demand = '3 cpu, 1 gpu'"):
        attrs.evolve(nothing, demand=np.array([[[4], [0]], [[3], [1]]]))
