"""Failures of nodes: invariants after every event, and the view of a tenant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from cluster.runs.experiment import prepare
from cluster.scenario.scenario_file import scenario_from
from cluster.simulation.simulation import Simulation
from plb.array_types import NOWHERE
from plb.model import ReplicaState, Role
from plb.planning.explanations.queries import PlacedReplica
from tests.cluster.tiny import Tenant, scenario_of, simulation_of, small_region

Replicas = Mapping[str, Sequence[PlacedReplica]]
"""The replicas of each known partition."""


def expected_demand(simulation: Simulation, placed: Replicas) -> np.ndarray:
    """Return the demand of each replica and end of a move on a node that is up, counted replica by replica: (R,)."""
    sequence, now = simulation._sequence, int(simulation.env.now)
    traces = sequence.traces
    total, down = np.zeros(len(traces.metrics)), simulation.nodes.down
    for partition, replicas in placed.items():
        tenancy = simulation.tenancies.known[partition]
        age = now - int(sequence.arrival[tenancy.tenant])
        step = min(max((age - 1) // 600, 0), int(traces.lifetime_steps[tenancy.tenant]) - 1)
        for one in replicas:
            if one.node is not None and one.node not in down:
                start = traces.series_start[traces.series_index[tenancy.tenant, one.role]]
                total += traces.values[start + step].astype(np.float64) * simulation.ledger.growth[tenancy.tenant]
    return total


def check(simulation: Simulation) -> None:
    """Assert that no replica is lost or duplicated, and that engine, ledger and failover manager agree."""
    ledger, tenancies, down = simulation.ledger, simulation.tenancies, simulation.nodes.down
    number_of = {name: number for number, name in enumerate(simulation._node_names)} | {None: NOWHERE}
    placed = {partition: simulation.engine.replicas(partition) for partition in tenancies.known}
    rows = set()
    for partition, replicas in placed.items():
        tenancy = tenancies.known[partition]
        requested = [one for one in replicas if not one.leaving]
        assert len(requested) == tenancy.replicas, "the tenant has its number of slots"
        assert sum(one.role == Role.PRIMARY for one in requested) == tenancy.stateful
        nodes = [one.node for one in replicas if one.node is not None]
        assert len(set(nodes)) == len(nodes), "one replica per node"
        occupied = {one.node for one in requested if one.node is not None}
        assert set(tenancies.states.of(partition)) <= occupied
        for one in replicas:
            assert ledger.node[one.index] == number_of[one.node]
            rows.add(one.index)
        ready = {one.node for one in tenancies.states.ready(partition)}
        assert not ready & down, "no replica on a node that is down is ready"
        primary = next((one.node for one in requested if one.role == Role.PRIMARY), None)
        usable = len(ready) >= tenancy.quorum and (primary in ready or not tenancy.stateful)
        if tenancies.serves(partition):
            assert usable != simulation.recorder.availability.is_lost(tenancy.tenant)
    assert set(np.flatnonzero(ledger.node >= 0).tolist()) <= rows, "the ledger has no other replicas"
    check_reports(simulation, placed)
    metered = ledger.meter(int(simulation.env.now)).metered.sum(axis=0)
    assert metered == pytest.approx(expected_demand(simulation, placed), rel=1e-6), "load is conserved"


def check_reports(simulation: Simulation, placed: Replicas) -> None:
    """Assert that the engine has the present states of all replicas."""
    state, tenancies = simulation.engine._state, simulation.tenancies
    table = state.rows
    marked = table.swaps_out | table.regains | table.building | table.upgrading
    still = table.still.tolist()
    for partition, replicas in placed.items():
        record, not_ready = state.partitions[partition], tenancies.states.of(partition)
        for one in replicas:
            if one.node is not None and not one.leaving:
                assert still[one.index] == (record.still or one.node in not_ready)
        if partition in tenancies.plain and partition not in tenancies.states.marks:
            assert not marked[record.rows].any()


def run_with_checks(simulation: Simulation, also: Callable[[Simulation], None] = lambda _: None) -> int:
    """Run a simulation event by event, with checks after each one; return the number of events."""
    events = 0
    for process in simulation.processes():
        simulation.env.process(process)
    while simulation.env.peek() <= simulation._end:
        simulation.env.step()
        check(simulation)
        also(simulation)
        events += 1
    return events


def test_a_copy_is_built_when_its_source_is_lost_after_a_second_move() -> None:
    """A secondary is promoted and moved while its copy is under way.

    Then its source is lost, and no copy is complete.
    """
    sections = {
        "faults": {"days_between_crashes": 0.05, "repair_hours": 0.1, "rebuild_after_minutes": 0.0},
        "upgrades": {"starts_hours": [0.0], "minutes_per_node": 0.01, "safety_check_minutes": 0.0},
        "engine": {
            "chains": 1,
            "max_simulated_annealing_iterations": 2,
            "simulated_annealing_iterations_per_round": 20,
        },
    }
    domains = {"upgrade_domains": 3, "fault_domains": 3}
    scenario = scenario_of(6, 6, sections=sections, copy_gbit_per_second=0.05, interruption_seconds=0.0, **domains)
    tenants = [
        Tenant("t0", 300, [20.0] * 12, 2),
        Tenant("t1", 4300, [80.0] * 12, 3),
        Tenant("t2", 4300, [5.0] * 3),
        Tenant("t3", 4300, [20.0] * 12),
    ]
    simulation = simulation_of(scenario, tenants, 5.0)
    states: set[str] = set()
    run_with_checks(simulation, lambda one: states.update(map(str, one.tenancies.states.of("t1").items())))
    failed = [one.move for one in simulation.recorder.moves if one.outcome == "failed" and one.move.partition == "t1"]
    chains = [(one, other) for one in failed for other in failed if one.target == other.source]
    assert chains, "the story contains a second move during a copy"
    built = {str((other.target, ReplicaState.IN_BUILD)) for _, other in chains}
    assert built & states
    assert not {str((one.target, ReplicaState.IN_BUILD)) for one, _ in chains} & states


FAULTS: dict[str, Any] = {
    "days_between_crashes": 0.2,
    "repair_hours": 0.5,
    "rebuild_after_minutes": 20.0,
    "outages": [{"fault_domain": "fd:/fd1", "at_hours": 2.0, "hours": 1.0}],
    "flapping": [{"node": "n4", "from_hours": 3.0, "until_hours": 5.0, "up_minutes": 7.0, "down_minutes": 3.0}],
}


def simulation_with(**sections: Any) -> Simulation:
    """Return the simulation of a small, sparse region for six hours, with additional sections of the scenario."""
    tables = small_region(days=0.25, policies=["original"])
    tables["workload"]["density"] = 0.5
    experiment = prepare(scenario_from({**tables, **sections}))
    return Simulation(experiment.scenario, experiment.source, experiment.sequences[0], "original", 0)


def test_upgrades_take_one_domain_at_a_time_and_break_no_quorum() -> None:
    upgrades = {"starts_hours": [2.0], "minutes_per_node": 12.0, "nodes_at_once": 2, "health_check_minutes": 3.0}
    simulation = simulation_with(upgrades=upgrades)
    domain_of = {node.name: node.upgrade_domain_name for node in simulation.nodes.nodes.values()}
    most = []

    def one_domain(simulation: Simulation) -> None:
        assert len({domain_of[name] for name in simulation.nodes.down}) <= 1
        most.append(len(simulation.nodes.down))

    run_with_checks(simulation, one_domain)
    records = simulation.upgrades.records
    assert [record.domain for record in records] == [f"ud{index}" for index in range(5)]
    assert {record.outcome for record in records} == {"healthy"}
    assert max(most) == 2
    assert simulation.recorder.quorum_losses == 0
    assert {one.cause for one in simulation.recorder.availability.interruptions} <= {"upgrade", "violation"}


def test_an_unhealthy_domain_rolls_the_upgrade_back() -> None:
    """All started domains are rolled back, the last one first. No node remains drained or down."""
    upgrades = {"starts_hours": [1.0], "failure_probability": 0.4, "nodes_at_once": 5, "minutes_per_node": 5.0}
    simulation = simulation_with(upgrades=upgrades)
    run_with_checks(simulation)
    records = simulation.upgrades.records
    begun = [record for record in records if not record.rolls_back]
    back = [record.domain for record in records if record.rolls_back]
    assert [record.outcome for record in begun] == ["healthy"] * (len(begun) - 1) + ["unhealthy"]
    assert back == [record.domain for record in begun][::-1]
    assert not simulation.nodes.down
    assert not simulation.nodes.draining
    assert not simulation.tenancies.states.marks


def test_faults_and_upgrades_together_keep_every_invariant() -> None:
    """Nodes crash during the drain and the upgrade of other nodes, and during their own."""
    upgrades = {"starts_hours": [1.0, 4.0], "minutes_per_node": 8.0, "safety_check_minutes": 15.0}
    simulation = simulation_with(upgrades=upgrades, faults=FAULTS)
    assert run_with_checks(simulation) > 300
    assert {record.cause for record in simulation.recorder.moves} >= {"node fault", "upgrade"}
