"""An oracle: hosts report forecasts to the engine, and violations depend on the actual load of nodes."""

from __future__ import annotations

import pytest

from cluster.runs.experiment import prepare
from cluster.scenario.scenario_file import scenario_from
from cluster.simulation.simulation import Simulation
from plb import PlacementAndLoadBalancing
from tests.cluster.tiny import Tenant, scenario_of, simulation_of, small_region, story

HOUR = 6
"""Time steps per hour."""
GROWS = Tenant("grows", 0, [20.0] * 5 * HOUR + [70.0] * 10 * HOUR)


def reported(oracle_hours: float, after_hours: float, now_hours: int) -> float:
    """Return the load that the engine has for a tenant that grows from 20 to 70 GB after five hours."""
    sections = {"workload": {"density_metric": "disk", "oracle_hours": oracle_hours, "oracle_after_hours": after_hours}}
    simulation = simulation_of(scenario_of(2, hours=now_hours, sections=sections), [GROWS])
    simulation.run()
    return max(load["disk"] for load in simulation.engine.node_loads().values())


@pytest.mark.parametrize(
    ("oracle_hours", "after_hours", "now_hours", "load"),
    [
        (0, 0, 4, 20.0),  # no oracle
        (2, 0, 2, 20.0),  # the horizon is too short
        (2, 0, 4, 70.0),
        (2, 4, 3, 20.0),  # the tenant is too new
        (2, 4, 4, 70.0),
        (2, 0, 6, 70.0),  # the growth has happened
    ],
)
def test_oracle_reports_the_largest_future_demand(oracle_hours, after_hours, now_hours, load):
    assert reported(oracle_hours, after_hours, now_hours) == load


def test_oracle_avoids_the_node_that_will_be_full():
    """Two nodes have 30 and 20 GB, and the second will have 70. Only a placement with the forecast takes the first."""
    steady = Tenant("steady", 0, [30.0] * 15 * HOUR)
    newcomer = Tenant("newcomer", 4 * 3600, [40.0] * 11 * HOUR)
    violations = {}
    for hours in (0.0, 2.0):
        workload = {"density_metric": "disk", "oracle_hours": hours, "oracle_after_hours": 0.0}
        engine = {"max_simulated_annealing_iterations": 25, "simulated_annealing_iterations_per_round": 60}
        sections = {"workload": workload, "engine": {"w_imbalance": 10.0, **engine}}
        run = story(scenario_of(2, hours=12, sections=sections), [steady, GROWS, newcomer])
        violations[hours] = run.totals["violations"]
    assert violations == {0.0: 1, 2.0: 0}


def test_predicted_load_is_no_violation():
    """Two tenants of one node exceed its capacity after 80 minutes. Until then there is no shortage."""
    both = [Tenant(name, 0, [40.0] * 8 + [50.0] * 30) for name in "ab"]
    workload = {"density_metric": "disk", "oracle_hours": 24.0, "oracle_after_hours": 0.0}
    run = story(scenario_of(1, hours=2, sections={"workload": workload}), both)
    assert run.tables["shortages"]["time_s"].min() == 5400
    assert run.totals["violations_reported"] == run.totals["failovers"] == 0, "no move helps"


def test_predicted_load_starts_a_failover_without_a_shortage() -> None:
    """A and C have 60 GB on one node, and A leaves it, as C will grow by 40. Without an oracle, C joins B."""
    tenants = [
        Tenant("a", 0, [40.0] * 36),
        Tenant("b", 700, [20.0, 20.0, *[45.0] * 31]),
        Tenant("c", 1300, [20.0, *[60.0] * 31]),
    ]
    found = {}
    for hours in (0.0, 24.0):
        workload = {"density_metric": "disk", "oracle_hours": hours, "oracle_after_hours": 0.0}
        run = story(scenario_of(2, hours=2, sections={"workload": workload}), tenants)
        moves = run.tables["moves"].select("time_s", "tenant", "cause").rows()
        found[hours] = moves, run.totals["violations"], run.totals["violations_reported"]
    assert found == {0.0: ([(2400, "b", "violation")], 1, 1), 24.0: ([(1800, "a", "violation")], 0, 1)}


@pytest.mark.parametrize("density", [0.2, 1.8, 2.2])
def test_violations_by_reported_loads_differ_only_with_an_oracle(density: float) -> None:
    """Each has a failover. A nearly empty cluster has none."""
    for hours in (0.0, 24.0):
        tables = small_region(days=0.5)
        tables["cluster"] |= {"vcores": 8.0, "memory_gb_per_vcore": 4.0}
        tables["workload"] |= {"density": density, "oracle_hours": hours, "oracle_after_hours": 0.0}
        experiment = prepare(scenario_from(tables))
        run = Simulation(experiment.scenario, experiment.source, experiment.sequences[0], "original", 0).run()
        violations, reported = run.totals["violations"], run.totals["violations_reported"]
        failovers = run.totals["failovers_by_cause"].get("violation", 0)
        assert (violations > 0) == (reported > 0) == (failovers > 0) == (density > 1)
        assert violations <= reported <= failovers
        assert (violations < reported) == (hours > 0 and density > 1)


def test_known_hours_move_the_reported_past_and_leave_the_present() -> None:
    """The tenant has 20 GB for five hours and then 70; an estimator that looks back sees the 70 two hours early."""
    policy = {"estimator": "historical-simulation:horizon=1,slots=24", "w_failovers": 0.1}
    sections = {
        "workload": {"density_metric": "disk", "known_hours": 2.0},
        "policies": {"original": policy},
        "run": {"days": 4.5 / 24, "policies": ["original"]},
    }
    simulation = simulation_of(scenario_of(2, hours=4.5, sections=sections), [GROWS])
    simulation.run()
    engine = simulation.engine
    past, (row,) = engine._state.rows.past, [replica.index for replica in engine.replicas("grows")]
    past_loads = past.values[row, 0, 1:5] * engine._state.quanta.quanta[0]
    assert past_loads == pytest.approx([20.0, 20.0, 20.0, 70.0], abs=0.1)
    assert max(load["disk"] for load in engine.node_loads().values()) == 20.0


def test_balancing_sees_the_mean_of_past_hours_and_repairs_the_present(monkeypatch: pytest.MonkeyPatch) -> None:
    """It balances ten minutes after each hour; of the four samples after seven hours two are 20 GB and two 70."""
    seen: dict[float, float] = {}

    def balance(engine: PlacementAndLoadBalancing, now: float) -> object:
        seen[now] = max(load["disk"] for load in engine.node_loads().values())
        return plan(engine, now=now)

    plan = PlacementAndLoadBalancing.balance
    monkeypatch.setattr(PlacementAndLoadBalancing, "balance", balance)
    sections = {
        "workload": {"density_metric": "disk", "balanced_hours": 4.0},
        "engine": {"min_load_balancing_interval": 3600.0},
    }
    simulation = simulation_of(scenario_of(2, hours=8, sections=sections), [GROWS])
    simulation.run()
    assert [*seen.values()] == [20.0, 20.0, 20.0, 20.0, 20.0, 32.5, 45.0, 57.5]
    assert max(load["disk"] for load in simulation.engine.node_loads().values()) == 70.0
