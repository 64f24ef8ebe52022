"""Runs of a small cluster with the tenants of a region: invariants at every metering."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.runs.experiment import Experiment, prepare
from cluster.scenario.cluster_sections import ClusterSection
from cluster.scenario.scenario_file import scenario_from
from cluster.simulation.services import coarse_quantum, initial_demand, metrics_of, nodes_of
from cluster.simulation.simulation import Simulation
from plb.model import Role
from tests.cluster.tiny import small_region


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return prepare(scenario_from(small_region()))


def test_policies_see_the_same_tenants(experiment: Experiment):
    columns = ["tenant", "tenant_class", "replicas", "arrival_s", "departure_s"]
    runs = {run.policy: run.tables["tenants"].select(columns) for run in experiment.runs()}
    assert runs["original"].equals(runs["modified"])
    assert len(runs["original"]) == len(experiment.sequences[0].arrival)


def test_balancing_is_off_by_default():
    """By default, no replica moves for balance ([1] section 3.3).

    With an interval, replicas move, which is no failover.
    """
    tables = small_region(days=0.1, policies=["original", "balanced"])
    tables["policies"] = {
        "balanced": {"w_failovers": 0.0, "w_overload": 0.0, "w_imbalance": 1e4, "min_load_balancing_interval": 3600.0}
    }
    runs = {run.policy: run for run in prepare(scenario_from(tables)).runs()}
    assert runs["original"].tables["moves"].filter(phase="balancing").is_empty()
    balanced = runs["balanced"]
    assert not balanced.tables["moves"].filter(phase="balancing").is_empty()
    assert balanced.totals["moves"] > balanced.totals["failovers"]
    assert set(balanced.tables["plans"].filter(occasion="balancing")["time_s"]) == {600, 4200, 7800}


def test_plans_have_energy_and_search_cost(experiment: Experiment):
    run = next(experiment.runs())
    arrivals = run.tables["plans"].filter(occasion="arrival")
    assert len(arrivals) == len(experiment.sequences[0].arrival)
    assert (arrivals["movement_after"] == arrivals["moves"]).all()
    assert run.tables["plans"]["scored"].sum() == run.totals["proposals_scored"] > 0
    assert run.tables["plans"].select(pl.all().is_null().sum()).sum_horizontal()[0] == 0


def test_interruption_keeps_partial_results(experiment: Experiment):
    def interrupt(seconds: float) -> None:
        if seconds == 3600.0:
            raise KeyboardInterrupt

    source, sequence = experiment.source, experiment.sequences[0]
    run = Simulation(experiment.scenario, source, sequence, "original", 0, interrupt).run()
    assert not run.complete
    assert run.tables["node_load"]["time_s"].max() == run.totals["simulated_seconds"] == 3600


def test_initial_demand_comes_from_the_class(experiment: Experiment):
    history = experiment.source.history
    metrics = history.metrics
    name = "GP_Gen5_2"
    of_class = (history.tenant_class == history.class_code(name)) & (history.role == Role.PRIMARY)
    estimate = initial_demand(history, 90.0, name, Role.PRIMARY, metrics)
    assert estimate["memory"] == pytest.approx(np.percentile(history.initial[of_class, 1], 90.0))
    fallback = initial_demand(history, 50.0, "none such", Role.PRIMARY, metrics)
    assert fallback["disk"] == pytest.approx(np.percentile(history.initial[:, 2], 50.0))


@pytest.mark.parametrize("upgrade", [1, 2, 3, 4, 9, 10])
@pytest.mark.parametrize("fault", [1, 2, 4, 5, 10])
def test_every_domain_has_nodes(upgrade: int, fault: int):
    nodes = nodes_of(ClusterSection(nodes=360, upgrade_domains=upgrade, fault_domains=fault), ())
    assert Counter(Counter(node.upgrade_domain for node in nodes).values()) == {360 // upgrade: upgrade}
    assert Counter(Counter(str(node.fault_domain) for node in nodes).values()) == {360 // fault: fault}
    pairs = Counter((node.upgrade_domain, node.fault_domain) for node in nodes)
    assert max(pairs.values()) == -(-360 // (upgrade * fault)), "each pair is as rare as possible"


def test_metric_without_capacity_is_unlimited():
    """A scenario may limit only one metric. The loads of the others are unlimited and have a larger quantum."""
    tables = {
        "cluster": {"nodes": 10, "upgrade_domains": 5, "capacities": {"cpu": 80.0}},
        "workload": {"history_tenants": 300, "density": 1.5},
        "run": {"days": 0.1, "policies": ["modified"]},
        "engine": {"chains": 1, "max_simulated_annealing_iterations": 2, "repetitions": 10},
    }
    experiment = prepare(scenario_from(tables))
    (run,) = experiment.runs()
    assert run.complete
    assert set(run.tables["shortages"]["metric"].unique()) <= {"cpu"}
    steps = {metric.name: metric.quantum for metric in metrics_of(experiment.scenario, experiment.source)}
    assert steps["cpu"] is None
    assert steps["disk"] == coarse_quantum(float(experiment.source.history.maximum[:, 2].max()))


@given(st.floats(2.0**-20, 2.0**11, exclude_max=True))
def test_coarse_quantum_gives_about_a_thousand_quanta(largest: float):
    step = coarse_quantum(largest)
    assert 2**10 <= largest / step < 2**11 or step == 1.0
    assert math.frexp(step)[0] == 0.5
