"""A year of faults and upgrades on forty nodes."""

from __future__ import annotations

import pytest

from cluster.runs.experiment import prepare
from cluster.scenario.scenario_file import scenario_from
from cluster.simulation.simulation import Simulation
from tests.cluster.simulation.test_faults import check

QUARTER_OF_A_DAY = 6 * 3600
YEAR = {
    "workload": {"density": 1.2, "history_tenants": 1000},
    "run": {"days": 365.0, "seed": 11, "policies": ["original"]},
    "engine": {
        "chains": 1,
        "max_simulated_annealing_iterations": 2,
        "simulated_annealing_iterations_per_round": 20,
    },
    "faults": {
        "days_between_crashes": 20.0,
        "repair_hours": 4.0,
        "repair_distribution": "lognormal",
        "outages": [
            {"fault_domain": "fd:/fd1", "at_hours": 1000.0, "hours": 5.0},
            {"fault_domain": "fd:/fd3", "at_hours": 5000.0, "hours": 12.0},
        ],
    },
    "upgrades": {"starts_hours": [500.0 + 720.0 * month for month in range(11)], "failure_probability": 0.02},
}


@pytest.mark.slow
def test_a_year_of_faults_keeps_every_invariant() -> None:
    """The check follows each change of a node and runs every six hours. No upgrade affects two domains at once."""
    experiment = prepare(scenario_from(YEAR))
    simulation = Simulation(experiment.scenario, experiment.source, experiment.sequences[0], "original", 0)
    domain_of = {node.name: node.upgrade_domain_name for node in simulation.nodes.nodes.values()}
    for process in simulation.processes():
        simulation.env.process(process)
    seen, checked = 0, -1
    while simulation.env.peek() <= simulation._end:
        simulation.env.step()
        changes = len(simulation.recorder.node_events)
        if changes > seen or simulation.env.now // QUARTER_OF_A_DAY > checked:
            seen, checked = changes, int(simulation.env.now // QUARTER_OF_A_DAY)
            check(simulation)
            upgrading = {name for name, why in simulation.nodes.why_down.items() if "upgrade" in why}
            assert len({domain_of[name] for name in upgrading}) <= 1
    totals = simulation.recorder.result("original", 0, simulation._end, {}, complete=True).totals
    assert totals["node_faults"] > 500
    assert totals["upgraded_domains"] + totals["rolled_back_domains"] >= 11
    assert totals["availability"] > 0.999
