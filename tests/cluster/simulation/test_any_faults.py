"""Random faults, upgrades and tenants: the tables agree with an observer of every event."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.simulation.faults import make_faults
from cluster.simulation.recorder import RunResult
from cluster.simulation.services import nodes_of
from cluster.simulation.simulation import Simulation
from plb import Metric
from plb.model import Role
from tests.cluster.simulation.test_faults import run_with_checks
from tests.cluster.tiny import Tenant, scenario_of, simulation_of

HOURS = 6
QUICK = {"chains": 1, "max_simulated_annealing_iterations": 2, "simulated_annealing_iterations_per_round": 20}
times = st.sampled_from([0.0, 1 / 6, 1 / 3, float(HOURS)]) | st.floats(0, HOURS)


@st.composite
def faults(draw: st.DrawFn, nodes: int, domains: int) -> dict[str, Any]:
    """Draw crashes, outages and flapping nodes, which may overlap, from lists and at random."""
    node = st.integers(0, nodes - 1).map("n{}".format)
    domain = st.integers(0, min(nodes, domains) - 1).map("fd:/fd{}".format)
    lasting = st.sampled_from([0.0001, 0.1, 0.5, 2.0, 10.0])
    minutes = st.sampled_from([1.0, 7.0, 25.0])
    crash = st.fixed_dictionaries({"node": node, "at_hours": times, "hours": lasting})
    outage = st.fixed_dictionaries({"fault_domain": domain, "at_hours": times, "hours": lasting})
    flapping = st.fixed_dictionaries(
        {"node": node, "from_hours": st.floats(0, 2), "until_hours": st.floats(3, HOURS)}
        | {"up_minutes": minutes, "down_minutes": minutes}
    )
    return {
        "crashes": draw(st.lists(crash, max_size=5)),
        "outages": draw(st.lists(outage, max_size=1)),
        "flapping": draw(st.lists(flapping, max_size=1)),
        "rebuild_after_minutes": draw(st.sampled_from([0.0, 5.0, 30.0])),
        "remote_storage": draw(st.booleans()),
        **draw(st.sampled_from([{}, {"days_between_crashes": 0.05, "repair_hours": 0.1}])),
    }


upgrades = st.fixed_dictionaries(
    {
        "starts_hours": st.lists(times, max_size=3),
        "minutes_per_node": st.sampled_from([0.01, 5.0, 15.0]),
        "nodes_at_once": st.sampled_from([1, 2, 10]),
        "drain": st.booleans(),
        "safety_check_minutes": st.sampled_from([0.0, 5.0, 60.0]),
        "health_check_minutes": st.sampled_from([0.0, 5.0]),
        "failure_probability": st.sampled_from([0.0, 0.3, 1.0]),
    }
)


@st.composite
def simulations(draw: st.DrawFn) -> Simulation:
    """Draw a cluster of one to eight nodes in any number of domains, and up to six tenants of one to five replicas."""
    nodes, domains = draw(st.integers(1, 8)), draw(st.integers(1, 9))
    tenants, arrival = [], 0
    for number in range(draw(st.integers(1, 6))):
        arrival += draw(st.sampled_from([0, 300, 600, 4000]))
        demand = [draw(st.sampled_from([5.0, 20.0, 45.0, 80.0]))] * draw(st.sampled_from([3, 12, 60]))
        tenants.append(Tenant(f"t{number}", arrival, demand, draw(st.integers(1, min(5, nodes)))))
    cluster = {
        "upgrade_domains": draw(st.integers(1, 9)),
        "fault_domains": domains,
        "copy_gbit_per_second": draw(st.sampled_from([0.05, 10.0])),
        "interruption_seconds": draw(st.sampled_from([0.0, 30.0])),
    }
    sections = {"faults": draw(faults(nodes, domains)), "upgrades": draw(upgrades), "engine": QUICK}
    return simulation_of(
        scenario_of(nodes, HOURS, sections=sections, **cluster), tenants, draw(st.sampled_from([5.0, 45.0]))
    )


@attrs.define
class Observer:
    """Observes each tenant after each event, using only the replicas of the engine and the states of nodes."""

    usable: dict[str, bool] = attrs.field(factory=dict)
    quorum_losses: int = 0
    events: int = 0
    missing_since: dict[str, int] = attrs.field(factory=dict)

    def __call__(self, simulation: Simulation) -> None:
        """Check all tenants."""
        recorder, tenancies, now = simulation.recorder, simulation.tenancies, int(simulation.env.now)
        new = [(goes_down, cause) for _, _, goes_down, cause in recorder.node_events[self.events :]]
        self.events = len(recorder.node_events)
        upgraded = {name for name, causes in simulation.nodes.why_down.items() if "upgrade" in causes}
        assert len({simulation.nodes.nodes[name].upgrade_domain_name for name in upgraded}) <= 1
        for name, tenancy in tenancies.known.items():
            was, usable = self.usable.get(name), is_usable(simulation, name, tenancy.replicas)
            if was and not usable and tenancy.replicas > 1:
                self.quorum_losses += 1
                assert (True, "node fault") in new, "nothing but a fault breaks a quorum"
            if was is not None or usable:
                self.usable[name] = usable
            self._check_missing(simulation, name, now)
        self.usable = {name: usable for name, usable in self.usable.items() if name in tenancies.known}

    def _check_missing(self, simulation: Simulation, name: str, now: int) -> None:
        """Check that a missing replica of a tenant with a quorum is considered within two meterings."""
        replicas = simulation.engine.replicas(name)
        waits = simulation._partitions.index(name) in simulation._waiting
        if all(one.node is not None for one in replicas) or waits or self.usable.get(name) is False:
            self.missing_since.pop(name, None)
        else:
            assert now - self.missing_since.setdefault(name, now) <= 1200, f"{name} is forgotten: {replicas}"


def is_usable(simulation: Simulation, name: str, requested: int) -> bool:
    """Return whether a primary and a majority of the replicas are available, neither down nor being built."""
    tenancies = simulation.tenancies
    ready = [
        one
        for one in simulation.engine.replicas(name)
        if one.node is not None
        and not one.leaving
        and one.node not in simulation.nodes.down
        and one.node not in tenancies.states.of(name)
    ]
    return len(ready) > requested // 2 and any(one.role == Role.PRIMARY for one in ready)


def down_seconds(run: RunResult, tenant: dict[str, Any]) -> int:
    """Return the duration of all interruptions of a tenant, counted second by second."""
    first, last = tenant["arrival_s"], min(tenant["departure_s"], HOURS * 3600)
    found = run.tables["interruptions"].filter(tenant=tenant["tenant"]).select("begin_s", "end_s").rows()
    seconds: set[int] = set()
    for begin, end in found:
        seconds |= set(range(begin, last if end is None else min(int(end), last)))
    return len(seconds & set(range(first, last)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(simulations())
def test_tables_agree_with_an_observer(simulation: Simulation) -> None:
    observer = Observer()
    run_with_checks(simulation, observer)
    run = simulation.recorder.result("original", 0, simulation._end, {}, complete=True)
    scenario, totals = simulation._scenario, run.totals
    assert totals["quorum_losses"] == observer.quorum_losses
    drawn = make_faults(scenario, nodes_of(scenario.cluster, (Metric("disk"),)))
    assert totals["node_faults"] == sum(event.goes_down for event in drawn)
    failovers = run.tables["moves"].filter(failover=True).group_by("cause").len().rows()
    assert totals["failovers_by_cause"] == dict(failovers)
    for tenant in run.tables["tenants"].to_dicts():
        assert tenant["downtime_s"] == down_seconds(run, tenant)
    assert not simulation.tenancies.states.marks
