"""Times at which nodes are down: unions of listed and random faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import scenario_from
from cluster.simulation.faults import NodeEvent, make_faults
from plb import Node, UnknownNameError

NODES = [Node(f"n{index}", fault_domain=f"fd:/dc{index // 2}/r{index % 2}") for index in range(4)]
hours = st.integers(0, 40).map(lambda quarter: quarter / 4)
crashes = st.fixed_dictionaries({"node": st.sampled_from(["n0", "n1"]), "at_hours": hours, "hours": st.just(0.5)})
outages = st.fixed_dictionaries(
    {"fault_domain": st.sampled_from(["fd:/dc0", "fd:/dc0/r1", "dc1/"]), "at_hours": hours, "hours": st.just(1.0)}
)


def scenario_with(**faults: Any) -> Scenario:
    return scenario_from({"faults": faults, "run": {"days": 10, "seed": 4}})


def test_a_domain_is_found_at_any_depth():
    deep = Node("deep", fault_domain="fd:/" + "/".join("abcdefghijkl"))
    for path in ("fd:/a", "a//b/", deep.fault_domain):
        scenario = scenario_with(outages=[{"fault_domain": path, "at_hours": 1.0, "hours": 1.0}])
        assert [event.time for event in make_faults(scenario, [deep])] == [3600, 7200]


def down_at(events: list[NodeEvent], second: int) -> set[str]:
    """Return the nodes that are down immediately after a second."""
    down: set[str] = set()
    for event in events:
        if event.time <= second:
            down = down | {event.node} if event.goes_down else down - {event.node}
    return down


@given(st.lists(crashes, max_size=5), st.lists(outages, max_size=4))
def test_a_node_is_down_while_any_of_its_faults_lasts(listed, whole) -> None:
    events = make_faults(scenario_with(crashes=listed, outages=whole), NODES)
    assert events == sorted(events)
    for node in NODES:
        own = [event.goes_down for event in events if event.node == node.name]
        assert own == [True, False] * (len(own) // 2)
    for second in range(0, 12 * 3600, 900):
        expected = {c["node"] for c in listed if c["at_hours"] * 3600 <= second < (c["at_hours"] + 0.5) * 3600}
        for outage in whole:
            if outage["at_hours"] * 3600 <= second < (outage["at_hours"] + 1.0) * 3600:
                path = outage["fault_domain"].removeprefix("fd:").strip("/")
                expected |= {n.name for n in NODES if "/".join(n.fault_domain_path).startswith(path)}
        assert down_at(events, second) == expected


FLAPPING = {"node": "n1", "from_hours": 2.0, "until_hours": 3.0, "up_minutes": 25.0, "down_minutes": 5.0}


@pytest.mark.parametrize(
    ("faults", "times"),
    [
        ({"flapping": [FLAPPING]}, [7200, 7500, 9000, 9300]),
        ({"crashes": [{"node": "n1", "at_hours": 1.0, "hours": 0.0001}]}, [3600, 3601]),  # at least a second
    ],
    ids=["flapping", "short crash"],
)
def test_a_node_goes_down_and_comes_back_at_whole_seconds(faults: dict[str, Any], times: list[int]) -> None:
    events = make_faults(scenario_with(**faults), NODES)
    assert [event.time for event in events] == times
    assert [event.goes_down for event in events] == [True, False] * (len(times) // 2)


@pytest.mark.parametrize("distribution", ["exponential", "lognormal", "constant"])
def test_random_crashes_have_the_given_means(distribution: str) -> None:
    """The tolerance over many nodes is about five standard errors. Equal seeds give equal faults; repeats differ."""
    many = [Node(f"m{index:03d}") for index in range(400)]
    scenario = scenario_with(days_between_crashes=2.0, repair_hours=3.0, repair_distribution=distribution)
    events = make_faults(scenario, many)
    downs = sum(event.goes_down for event in events)
    assert downs == pytest.approx(400 * 10 / (2.0 + 3.0 / 24), rel=0.1)
    down = {(event.node, event.time) for event in events}
    assert down == {(event.node, event.time) for event in make_faults(scenario, many)}
    assert down != {(event.node, event.time) for event in make_faults(scenario, many, 1)}
    lengths = [
        back.time - lost.time
        for node in many
        for lost, back in zip(*[iter([event for event in events if event.node == node.name])] * 2, strict=True)
    ]
    assert np.mean(lengths) == pytest.approx(3.0 * 3600, rel=0.15)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="n0"):
        make_faults(scenario_with(crashes=[{"node": "n00", "at_hours": 1.0, "hours": 1.0}]), NODES)
    with pytest.raises(UnknownNameError, match="dc0"):
        make_faults(scenario_with(outages=[{"fault_domain": "fd:/dc", "at_hours": 1.0, "hours": 1.0}]), NODES)
