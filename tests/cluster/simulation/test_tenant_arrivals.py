"""The tenant sequence, which is equal for all policies."""

from __future__ import annotations

import numpy as np
import pytest

from cluster.errors import DensityError, ScenarioError
from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import scenario_from
from cluster.simulation.random_streams import stream, stream_seed
from cluster.simulation.tenant_arrivals import TenantSequence, make_tenants
from cluster.simulation.tenant_pools import Source, read_source
from plb import UnknownNameError
from tests.cluster.tiny import Tenant, scenario_of, small_region, source_of, traces_of
from workloads.regions import REGIONS, generate
from workloads.trace_files import write_traces


@pytest.fixture(scope="module")
def region() -> tuple[Scenario, Source]:
    scenario = scenario_from(small_region(days=2))
    return scenario, read_source(scenario)


@pytest.fixture(scope="module")
def sequence(region: tuple[Scenario, Source]) -> TenantSequence:
    return make_tenants(*region)


def test_same_seed_same_tenants(region, sequence: TenantSequence):
    again, other = make_tenants(*region), make_tenants(*region, repeat=1)
    assert np.array_equal(again.traces.tenant, sequence.traces.tenant)
    assert np.array_equal(again.arrival, sequence.arrival)
    assert not np.array_equal(other.traces.tenant[:10], sequence.traces.tenant[:10])


def test_density_is_maintained(sequence: TenantSequence):
    times = np.unique(np.concatenate([[0], sequence.departure[sequence.departure < 2 * 86400]]))
    density = np.array([sequence.density(float(time)) for time in times])
    assert density.min() >= 1.5 - 1e-9
    assert density.max() < 1.5 + sequence.weight.max()


def test_replacements_arrive_when_others_depart(sequence: TenantSequence):
    later = sequence.arrival[sequence.first :]
    assert len(later) > 0
    assert np.isin(later, sequence.departure).all()
    assert (np.diff(sequence.arrival) >= 0).all()


def test_tenants_are_used_once(sequence: TenantSequence):
    assert len(np.unique(sequence.traces.tenant)) == len(sequence.arrival)


def test_history_and_tenants_are_disjoint(region, sequence: TenantSequence):
    source = region[1]
    assert not np.intersect1d(source.history_families, sequence.traces.family).size
    assert source.split["history_tenants"] == 300


def test_history_and_tenants_of_traces_are_disjoint(tmp_path):
    write_traces(generate(REGIONS["region1"], 200, 1), tmp_path)
    tables = {"workload": {"kind": "traces", "path": str(tmp_path), "density": 0.3}, "run": {"days": 0.1}}
    scenario = scenario_from({"cluster": {"nodes": 5}, **tables})
    source = read_source(scenario)
    sequence = make_tenants(scenario, source)
    assert len(source.history_families) == 100
    assert not np.intersect1d(source.history_families, sequence.traces.family).size
    assert source.split["history_families"] == source.history_families.tolist()


def test_fill_takes_the_given_time():
    tables = small_region(days=1, fill_hours=6.0)
    scenario = scenario_from(tables)
    sequence = make_tenants(scenario, read_source(scenario))
    assert (np.diff(sequence.arrival) >= 0).all()
    assert sequence.arrival[0] == 0
    assert 5 * 3600 < sequence.arrival[sequence.first - 1] <= 6 * 3600


def test_too_few_tenants_are_refused():
    scenario = scenario_of(4, hours=1)
    source = source_of(traces_of([Tenant("a", 0, [50.0] * 9), Tenant("b", 0, [50.0] * 9)]))
    with pytest.raises(DensityError, match=r"all 2 tenants .* after 0.00 days, with 12% of the density"):
        make_tenants(scenario, source)


def test_demand_above_the_cluster_is_refused():
    scenario = scenario_of(1, hours=1)
    source = source_of(traces_of([Tenant(name, 0, [50.0] * 9) for name in "abcdef"]))
    with pytest.raises(DensityError, match="need 200 GB of disk at once, and the whole cluster has 95"):
        make_tenants(scenario, source)


def test_unreachable_density_is_refused_early():
    """The error follows the first tenants and does not read all tenants of the region."""
    tables = small_region()
    tables["workload"]["density"] = 1e12
    scenario = scenario_from(tables)
    with pytest.raises(DensityError, match="whole cluster has"):
        make_tenants(scenario, read_source(scenario))


def test_more_replicas_than_nodes_are_refused():
    tables = small_region()
    tables["cluster"] = {"nodes": 3}
    tables["workload"]["density"] = 0.5
    scenario = scenario_from(tables)
    with pytest.raises(DensityError, match="4 replicas, but the cluster only 3 nodes"):
        make_tenants(scenario, read_source(scenario))


@pytest.mark.parametrize(
    ("tables", "error", "words"),
    [
        ({"workload": {"region": "region9"}}, UnknownNameError, "did you mean 'region"),
        ({"workload": {"kind": "traces"}}, ScenarioError, "--traces"),
        ({"workload": {"kind": "traces", "path": "/nowhere"}}, ScenarioError, "no such directory"),
        ({"workload": {"density_metric": "cup", "history_tenants": 5}}, UnknownNameError, "did you mean 'cpu'"),
        ({"cluster": {"capacities": {"cpus": 3}}, "workload": {"history_tenants": 5}}, UnknownNameError, "'cpu'"),
        ({"cluster": {"capacities": {"disk": 3}}, "workload": {"history_tenants": 5}}, ScenarioError, "density"),
        ({"cluster": {"capacities": {"cpu": 0}}, "workload": {"history_tenants": 5}}, ScenarioError, "density"),
    ],
)
def test_unknown_workloads_are_refused(tables, error, words):
    with pytest.raises(error, match=words):
        read_source(scenario_from(tables))


def test_streams_are_independent_of_one_another():
    first = stream(1, "tenants", 0).random(3)
    stream(1, "engine", 0).random(1000)
    assert np.array_equal(first, stream(1, "tenants", 0).random(3))
    assert not np.array_equal(first, stream(1, "tenants", 1).random(3))
    assert len({stream_seed(1, "engine", i) for i in range(100)}) == 100
