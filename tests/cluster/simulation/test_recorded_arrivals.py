"""Recorded arrivals: who is on the cluster follows from the traces alone."""

from __future__ import annotations

import math
import os
from collections import Counter
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cluster.capacity.question import Searched, ask
from cluster.capacity.running import Subject, tenants_at
from cluster.errors import DensityError, ScenarioError
from cluster.explanation.explanation import RunReplay
from cluster.results.recorded_run import read_run
from cluster.results.writing import ResultsFolder
from cluster.runs.experiment import prepare
from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import override, read_scenario, scenario_from
from cluster.scenario.workload_sections import Workload
from cluster.simulation.simulation import Simulation
from cluster.simulation.tenant_arrivals import TenantSequence, make_tenants
from cluster.simulation.tenant_pools import Source, TraceInputs, digest_of_traces, read_source, split_traces
from cluster.studies.base import MODIFIED, ORIGINAL, base_of_scenario
from cluster.studies.design import Design, StudySetting, prepared
from cluster.studies.figures import ClaimTable, figure_of_ratios, figure_of_settings, table_of_settings
from cluster.studies.request import ANNEALING_PILOT, StudyRequest
from cluster.studies.runner import OutputDirectory
from plb import ConflictError, InvalidValueError, PlacementAndLoadBalancing, PlbError
from plb.model import Role
from plb.risk.historical_simulation import MISSING
from tests.cluster.tiny import Tenant, traces_of
from tests.workloads.trace_strategies import METRICS, trace_sets
from workloads.readers.bitbrains import BIN_SECONDS
from workloads.regions import REGIONS, generate, with_random_starts
from workloads.trace import TraceSet, sample_families
from workloads.trace_files import read_traces, write_traces

DATA = Path(os.environ.get("PLB_DATA", "/work/shared/data"))
EXAMPLE = Path(__file__).parents[3] / "examples" / "recorded_arrivals.toml"
STEP = 600


@st.composite
def recorded_traces(draw: st.DrawFn, most_tenants: int = 8) -> TraceSet:
    """Return small traces with starts, some of them equal or between two steps, in families of one or two tenants."""
    traces = draw(trace_sets(most_tenants=most_tenants))
    begin = st.sampled_from([-1200.0, 0.0, 600.0, 1234.5, 3000.0, 5999.0])
    start = draw(st.lists(begin, min_size=traces.tenants, max_size=traces.tenants))
    return attrs.evolve(traces, start=np.array(start), family=np.arange(traces.tenants) // 2)


def tables_of(path: str | Path, days: float = 1 / 24, **workload: Any) -> dict[str, Any]:
    """Return the tables of a scenario of four large nodes with recorded arrivals and no history."""
    chosen = {"kind": "traces", "path": str(path), "arrivals": "recorded", "history_share": 0.0, **workload}
    return {
        "cluster": {"nodes": 4, "capacities": {"cpu": 1e6, "disk": 1e6}},
        "workload": chosen,
        "run": {"days": days, "policies": ["original"]},
    }


def present_at(traces: TraceSet, begin: float, time: int) -> dict[str, int]:
    """Return the tenants whose demand a metering shows, each with the step of its trace, from the trace alone."""
    assert traces.start is not None
    found = {}
    for tenant, name in enumerate(traces.tenant.tolist()):
        age = time - round(float(traces.start[tenant]) - begin)
        if 0 < age <= traces.lifetime_steps[tenant] * STEP:
            found[name] = math.ceil(age / STEP) - 1
    return found


def demand_of(traces: TraceSet, tenant: str, step: int) -> list[float]:
    index = traces.tenant.tolist().index(tenant)
    total = [0.0] * len(traces.metrics)
    for role, series in enumerate(traces.series_index[index].tolist()):
        if series >= 0:
            copies = 1 if role == 0 else int(traces.replicas[index]) - (role == 1)
            sample = traces.values[traces.series_start[series] + step]
            total = [sum_ + copies * float(value) for sum_, value in zip(total, sample, strict=True)]
    return total


@settings(max_examples=15, deadline=None)
@given(traces=recorded_traces(), from_steps=st.integers(0, 14))
def test_the_metered_demand_is_that_of_the_tenants_that_the_trace_has_then(traces: TraceSet, from_steps: int) -> None:
    assert traces.start is not None
    begin = float(traces.start.min()) + from_steps * STEP
    end = float((traces.start + traces.lifetime_seconds).max())
    days = 2 * STEP / 86400
    with TemporaryDirectory() as folder:
        write_traces(traces, folder)
        scenario = scenario_from(tables_of(folder, days=days, from_hours=from_steps * STEP / 3600))
        source = read_source(scenario)
    lives = [name for time in range(1, 2 * STEP + 1) for name in present_at(traces, begin, time)]
    if begin + 2 * STEP > end or not lives:
        with pytest.raises(ScenarioError):
            make_tenants(scenario, source)
        return
    run = Simulation(scenario, source, make_tenants(scenario, source), "original").run()
    assert set(run.tables["tenants"]["tenant"]) >= set(lives)
    loads = run.tables["node_load"].group_by("time_s", "metric").agg(pl.col("load").sum())
    for time in (STEP, 2 * STEP):
        shown = [demand_of(traces, *one) for one in present_at(traces, begin, time).items()]
        for column, metric in enumerate(METRICS):
            (load,) = loads.filter(time_s=time, metric=metric.name)["load"].to_list()
            assert load == pytest.approx(sum(one[column] for one in shown), rel=1e-6, abs=1e-6)


@settings(max_examples=200, deadline=None)
@given(
    traces=recorded_traces(12),
    history=st.sampled_from([{}, {"history": "before"}, {"history_share": 0.0}, {"history_share": 0.3}]),
    repeats=st.sampled_from([{}, {"each_repeat": "resample", "simulated_share": 1.7}, {"simulated_share": 0.6}]),
    seed=st.integers(0, 3),
    from_hours=st.integers(0, 3),
)
def test_no_simulated_tenant_is_in_the_history(traces, history, repeats, seed, from_hours) -> None:
    workload = Workload(kind="traces", path="x", arrivals="recorded", from_hours=from_hours, **history, **repeats)
    begin = float(traces.start.min()) + 3600 * from_hours
    try:
        past, rest = split_traces(TraceInputs(traces, None, begin), workload, seed)
    except ScenarioError:
        return
    simulated = {name.partition("#")[0] for name in rest.tenant.tolist()}
    assert not simulated & set(past.tenant.tolist())
    if workload.history == "before":
        assert all(traces.start[i] + traces.lifetime_seconds[i] <= begin for i in np.flatnonzero(isin(traces, past)))
    else:
        assert not set(rest.family.tolist()) & set(past.family.tolist())
    if not repeats:
        assert len(simulated) + past.tenants == traces.tenants
    assert len(set(rest.tenant.tolist())) == rest.tenants
    again = split_traces(TraceInputs(traces, None, begin), workload, seed)
    assert [one.tenant.tolist() for one in again] == [past.tenant.tolist(), rest.tenant.tolist()]


def isin(traces: TraceSet, others: TraceSet) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.isin(traces.tenant, others.tenant)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return traces of sixty tenants that begin within four days."""
    path = tmp_path_factory.mktemp("traces")
    write_traces(with_random_starts(generate(REGIONS["region2"], 60, 4), 4.0, 4), path)
    return path


def experiment_of(path: Path, repeats: int = 3, **workload: Any) -> tuple[Scenario, list[Source], list[TenantSequence]]:
    """Return a scenario with capacities of three metrics, and the source and the tenants of each repeat."""
    tables = tables_of(path, days=1.0, from_hours=48.0, **workload)
    tables["cluster"] = {"nodes": 5}
    scenario = scenario_from(tables)
    source = read_source(scenario)
    sources = [source.of_repeat(repeat) for repeat in range(repeats)]
    return scenario, sources, [make_tenants(scenario, one, repeat) for repeat, one in enumerate(sources)]


def names_of(sequences: list[TenantSequence]) -> list[list[str]]:
    return [one.traces.tenant.tolist() for one in sequences]


def test_repeats_have_the_same_tenants_unless_they_differ_on_purpose(folder: Path) -> None:
    """By default all repeats have the tenants of the window; each split or sample is another one, and reproducible."""
    _, sources, same = experiment_of(folder)
    assert names_of(same)[0] == names_of(same)[1] == names_of(same)[2]
    assert all(one.history is None for one in sources)
    for fields in ({"each_repeat": "split", "history_share": 0.5}, {"each_repeat": "resample"}):
        _, sources, drawn = experiment_of(folder, **fields)
        assert len({*map(tuple, map(sorted, names_of(drawn)))}) == 3
        assert names_of(experiment_of(folder, **fields)[2]) == names_of(drawn)
        assert {name.partition("#")[0] for names in names_of(drawn) for name in names} <= set(names_of(same)[0])
        if "history_share" in fields:
            assert len({tuple(one.history_families.tolist()) for one in sources}) == 3
    other = experiment_of(folder, each_repeat="split", history_share=0.5, trace_seed=1)
    assert names_of(other[2])[:2] == names_of(experiment_of(folder, each_repeat="split", history_share=0.5)[2])[1:]


def test_repeats_with_the_same_history_share_it(folder: Path, tmp_path: Path) -> None:
    write_traces(generate(REGIONS["region1"], 25, 77), tmp_path)
    for fields in ({"history": "before"}, {"history_path": str(tmp_path)}):
        scenario = experiment_of(folder, 0, each_repeat="resample", history_share=0.5, **fields)[0]
        source = read_source(scenario)
        repeats = [source.of_repeat(repeat) for repeat in (1, 2, 2)]
        assert repeats[0].history is repeats[1].history is not None
        assert repeats[1] is repeats[2] is not repeats[0]


@pytest.mark.parametrize(
    ("start", "capacity", "error", "message"),
    [
        (7200.0, 1e3, ScenarioError, "none of the 2 simulated tenants lives"),
        (0.0, 25.0, DensityError, "scenario: the 2 tenants at the start need 120 GB of disk"),
    ],
)
def test_an_error_of_one_repeat_names_it(tmp_path: Path, start: float, capacity: float, error, message: str) -> None:
    traces = traces_of([Tenant("a", 0, [60.0] * 12), Tenant("b", 0, [1.0] * 12)])
    write_traces(attrs.evolve(traces, start=np.array([0.0, start])), tmp_path)
    tables = tables_of(tmp_path, density_metric="disk", each_repeat="resample")
    tables["cluster"] = {"nodes": 4, "capacities": {"disk": capacity}}
    tables["run"]["repeats"] = 30
    with pytest.raises(error, match=rf"repeat \d+ of 30: {message}"):
        prepare(scenario_from(tables))


def test_a_sample_has_the_requested_size(folder: Path) -> None:
    """Without replacement it has each family at most once; with replacement it may be larger than the traces."""
    traces = read_traces(folder)
    for share in (0.25, 1.0, 3.0):
        drawn = {"history_share": 0.0, "simulated_share": share, "each_repeat": "resample"}
        workload = Workload(kind="traces", path="x", arrivals="recorded", **drawn)
        _, rest = split_traces(TraceInputs(traces, None), workload, 5)
        assert rest.tenants == round(60 * share)  # each tenant is its own family
        assert set(rest.family.tolist()) <= set(traces.family.tolist())
    counts = Counter(rest.family.tolist())
    assert max(counts.values()) > 1
    index = {name: place for place, name in enumerate(traces.tenant.tolist())}
    for place, name in enumerate(rest.tenant.tolist()):
        origin = index[name.partition("#")[0]]
        assert rest.start[place] == traces.start[origin]
        assert rest.lifetime_steps[place] == traces.lifetime_steps[origin]


@settings(max_examples=100, deadline=None)
@given(traces=recorded_traces(8), seed=st.integers(0, 3), begin=st.integers(-3, 9), days=st.integers(1, 3))
def test_families_are_drawn_until_the_mean_demand_of_the_run_has_the_utilisation(traces, seed, begin, days) -> None:
    """No drawn family but the last is one too many; demand is summed sample by sample."""
    at, seconds = float(STEP * begin), days * 3.0 * STEP
    demand = {
        name: sum(
            demand_of(traces, name, step)[0] for step in range(lifetime) if at <= start + STEP * step < at + seconds
        )
        * (STEP / seconds)
        for name, lifetime, start in zip(traces.tenant.tolist(), traces.lifetime_steps, traces.start, strict=True)
    }
    workload = Workload(
        kind="traces", path="x", arrivals="recorded", history_share=0.0, each_repeat="resample", utilisation=0.5,
        density_metric=traces.metric_names[0],
    )  # fmt: skip
    assume(sum(demand.values()) > 0.0)
    capacity = 5.0 * sum(demand.values())
    _, rest = split_traces(TraceInputs(traces, None, at, 0.0, seconds, capacity), workload, seed)
    families = Counter[int]()
    for name, family in zip(traces.tenant.tolist(), traces.family.tolist(), strict=True):
        families[family] += demand[name]
    copies = Counter(dict(zip(*np.unique(rest.family, return_counts=True), strict=True)))
    tenants_of = Counter(traces.family.tolist())
    total = sum(families[family] * count / tenants_of[family] for family, count in copies.items())
    assert total >= 0.5 * capacity * (1 - 1e-9)
    assert total - max(families[family] for family in copies) < 0.5 * capacity * (1 + 1e-9)


@pytest.mark.parametrize(("from_hours", "capacity"), [(1000.0, 1.0), (0.0, 1e12)])
def test_too_little_demand_for_a_utilisation_is_named(folder: Path, from_hours: float, capacity: float) -> None:
    tables = tables_of(folder, from_hours=from_hours, each_repeat="resample", utilisation=0.5)
    tables["cluster"]["capacities"] = {"cpu": capacity, "disk": 1e6}
    with pytest.raises(ScenarioError, match=r"workload\.utilisation: 0\.5: from hour .* the tenants demand"):
        read_source(scenario_from(tables))


def test_starts_are_read_and_do_not_change_generated_arrivals(folder: Path, tmp_path: Path) -> None:
    traces = read_traces(folder)
    write_traces(traces, tmp_path / "with")
    write_traces(attrs.evolve(traces, start=None), tmp_path / "without")
    assert np.array_equal(read_traces(tmp_path / "with").start, traces.start)
    found = []
    for name in ("with", "without"):
        tables = {"workload": {"kind": "traces", "path": str(tmp_path / name), "density": 0.1}, "run": {"days": 0.1}}
        scenario = scenario_from({"cluster": {"nodes": 8}, **tables})
        source = read_source(scenario)
        found.append((dict(source.split), make_tenants(scenario, source).traces.tenant.tolist()))
    assert found[0] == found[1]
    assert digest_of_traces(traces) != digest_of_traces(attrs.evolve(traces, start=None))


def test_default_results_have_none_of_the_new_keys() -> None:
    """So the digest of a scenario without recorded arrivals is that of earlier versions."""
    plain = scenario_from({"workload": {"kind": "traces", "path": "x"}}).as_json()["workload"]
    assert not {"arrivals", "from_hours", "history", "history_path", "simulated_share", "each_repeat"} & set(plain)
    recorded = read_scenario(EXAMPLE).as_json()["workload"]
    assert not {"density", "density_end", "pair_share", "history_share"} & set(recorded)
    assert (recorded["arrivals"], recorded["history"], recorded["from_hours"]) == ("recorded", "before", 72.0)


def test_tenants_of_the_start_are_placed_by_their_present_demand(tmp_path: Path) -> None:
    """Three tenants need 60 of 100 GB each from the start, so each has its own node at once.

    A tenant that arrives later is expected to need nothing until its first report.
    """
    tenants = [Tenant(name, 0, [10.0] * 3 + [60.0] * 9) for name in "abc"] + [Tenant("d", 0, [1.0] * 12)]
    write_traces(attrs.evolve(traces_of(tenants), start=np.array([0.0, 0.0, 600.0, 4000.0])), tmp_path)
    tables = tables_of(tmp_path, from_hours=1.0, density_metric="disk")
    tables["cluster"] = {"nodes": 3, "capacities": {"disk": 100.0}, "upgrade_domains": 3, "fault_domains": 3}
    scenario = scenario_from(tables)
    source = read_source(scenario)
    sequence = make_tenants(scenario, source)
    assert sequence.created.tolist() == [-3600, -3600, -3000, 400]
    assert sequence.arrival.tolist() == [0, 0, 0, 400]
    assert sequence.departure.tolist() == [3600, 3600, 4200, 7600]
    assert sequence.first == 3
    simulation = Simulation(scenario, source, sequence, "original")
    simulation.start()
    simulation.advance(0)
    placed = {name: simulation.engine.replicas(name)[0] for name in "abc"}
    assert sorted(str(one.node) for one in placed.values()) == ["n0", "n1", "n2"]
    run = Simulation(scenario, source, sequence, "original").run()
    assert run.totals["failovers"] == run.totals["violations"] == 0
    assert run.totals["tenants"] == 4
    assert run.totals["availability"] == 1.0


def loads_at_first(tables: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> list[list[list[float]]]:
    """Return the loads of each report that precedes the first metering."""
    scenario = scenario_from(tables)
    source = read_source(scenario)
    found: list[list[list[float]]] = []
    report = PlacementAndLoadBalancing.report_loads

    def noted(engine: PlacementAndLoadBalancing, rows: Any, loads: Any) -> None:
        found.append(np.asarray(loads).tolist())
        report(engine, rows, loads)

    monkeypatch.setattr(PlacementAndLoadBalancing, "report_loads", noted)
    simulation = Simulation(scenario, source, make_tenants(scenario, source), "original")
    simulation.start()
    simulation.advance(0)
    return found


def two_steps(folder: Path, **workload: Any) -> dict[str, Any]:
    """Return the tables of a tenant with two instances that has lived for an hour; each needs 10 GB, and soon 60 GB."""
    one = traces_of([Tenant("a", 0, [10.0] * 7 + [60.0] * 9)])
    instances = {"replicas": np.array([2], np.int8), "series_role": np.array([Role.INSTANCE], np.int8)}
    write_traces(attrs.evolve(one, start=np.zeros(1), **instances), folder)
    tables = tables_of(folder, from_hours=1.0, density_metric="disk", **workload)
    tables["cluster"] = {"nodes": 3, "capacities": {"disk": 200.0}, "upgrade_domains": 3, "fault_domains": 3}
    return tables


def test_scaled_instances_of_the_start_are_reported_with_their_demand(tmp_path, monkeypatch) -> None:
    """No instance stands yet when they are reported; each is expected to have its own demand, not that of all."""
    tables = two_steps(tmp_path)
    scaling = {"metric": "disk", "mechanism": "instances", "upper_load": 500.0}
    assert loads_at_first({**tables, "scaling": {"more": scaling}}, monkeypatch) == [[[10.0], [10.0]]]


def test_an_oracle_covers_the_tenants_of_the_start(tmp_path, monkeypatch) -> None:
    for after_hours, load in ((0.5, 60.0), (2.0, 10.0)):
        tables = two_steps(tmp_path / f"{load:g}", oracle_hours=1.0, oracle_after_hours=after_hours)
        with monkeypatch.context() as patch:
            assert loads_at_first(tables, patch) == [[[load], [load]]]


def test_results_can_be_replayed_in_every_repeat(tmp_path: Path) -> None:
    path = tmp_path / "past"
    write_traces(generate(REGIONS["region2"], 30, 9), path)
    scenario = read_scenario(EXAMPLE)
    fields = {"history": "share", "history_path": str(path), "simulated_share": 1.0}
    scenario = attrs.evolve(
        scenario,
        workload=attrs.evolve(scenario.workload, **fields),
        run=attrs.evolve(scenario.run, days=0.1, repeats=2, policies=("modified",)),
    )
    experiment = prepare(scenario)
    results = ResultsFolder(tmp_path / "out", scenario, experiment.source)
    for run in experiment.runs():
        results.add(run)
    for repeat in (0, 1):
        replay = RunReplay(read_run(tmp_path / "out", "modified", repeat))
        replay.look_at("11", [3600], 7200)
    write_traces(generate(REGIONS["region2"], 31, 9), path)
    with pytest.raises(PlbError, match="traces of the history differ"):
        RunReplay(read_run(tmp_path / "out", "modified", 0))


def test_another_trace_is_the_history(folder: Path, tmp_path: Path) -> None:
    past = generate(REGIONS["region1"], 25, 77)
    write_traces(past, tmp_path / "past")
    _, sources, sequences = experiment_of(folder, 1, history_share=0.5, history_path=str(tmp_path / "past"))
    assert sources[0].history is not None
    assert len(sources[0].history) == len(past.series_tenant)
    assert sources[0].split["history_tenants"] == 25
    assert names_of(sequences) == names_of(experiment_of(folder, 1)[2])
    write_traces(traces_of([Tenant("a", 0, [1.0])]), tmp_path / "other")
    with pytest.raises(ScenarioError, match="has disk in GB; expected the metrics of the traces: cpu in vCores, mem"):
        experiment_of(folder, 1, history_share=0.5, history_path=str(tmp_path / "other"))


RECORDED = {"kind": "traces", "arrivals": "recorded"}
BEFORE = {**RECORDED, "history": "before"}


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"workload": {"arrivals": "recorded"}}, "workload.arrivals: .*expected the default except with the tenants"),
        ({"workload": {**RECORDED, "density": 1.0}}, "workload.density: .*the traces determine who is there"),
        ({"workload": {**RECORDED, "density_end": 1.0}}, "workload.density_end"),
        ({"workload": {**RECORDED, "pair_share": 0.5}}, "workload.pair_share"),
        ({"workload": RECORDED, "run": {"fill_hours": 2.0}}, 'run.fill_hours: .*expected 0 with arrivals = "recorded"'),
        ({"workload": {**RECORDED, "arrivals": "real"}}, "arrivals: .*expected one of 'generated', 'recorded'"),
        ({"workload": {**RECORDED, "from_hours": -1.0}}, "workload.from_hours: .*from_hours = -1.0 is not allowed"),
        ({"workload": {"kind": "traces", "from_hours": 1.0}}, "workload.from_hours: .*except with arrivals"),
        ({"workload": {"kind": "traces", "history": "before"}}, "workload.history: .*except with arrivals"),
        ({"workload": {"kind": "traces", "simulated_share": 0.5}}, "workload.simulated_share: .*except with arrivals"),
        ({"workload": {"kind": "traces", "each_repeat": "resample"}}, 'each_repeat: .*expected "same" or "split"'),
        ({"workload": {**RECORDED, "simulated_share": 2.0}}, "simulated_share: .*expected at most 1, except with each"),
        ({"workload": {**BEFORE, "history_share": 0.3}}, "history_share: .*the default with history, which replaces"),
        ({"workload": {**BEFORE, "history_path": "x"}}, "workload.history_path: .*none with history"),
        ({"workload": {**BEFORE, "each_repeat": "split"}}, 'each_repeat: .*expected "same" or "resample", as all'),
        ({"workload": {"history_share": 0.0}}, 'workload.history_share: .*expected above 0 with kind = "region"'),
        ({"workload": {"kind": "plan", "history_share": 0.0}}, 'workload.history_share: .*the default with kind = "pl'),
        ({"workload": {"kind": "plan", "each_repeat": "split"}}, "workload.each_repeat: .*the tenants of traces"),
    ],
)
def test_fields_that_do_not_apply_are_refused_at_the_door(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        scenario_from(tables)


def test_a_policy_that_samples_past_tenants_needs_a_history(folder: Path, tmp_path: Path) -> None:
    """The policies of the command line count, and in a study those of its arms, not those of the file."""
    path = tmp_path / "none.toml"
    path.write_text(f'[workload]\nkind = "traces"\npath = "{folder}"\nhistory_share = 0\ndensity = 0.1\n')
    message = "workload.history_share: there is no history, but the estimator monte-carlo of policy modified"
    with pytest.raises(ScenarioError, match=message):
        prepare(read_scenario(path))
    with pytest.raises(ScenarioError, match=message):
        Subject.read(path, {"density": None})
    original = override(read_scenario(path), policy=["original"], traces=None)
    assert read_source(original).history is None
    design = {"settings": [StudySetting("none", 80.0, 0.1)], "repeats": 1, "days": 1.0, "seed": 0}
    base = base_of_scenario(path)
    assert len(Design(base, arms=(ORIGINAL,), **design).tasks()) == 1
    with pytest.raises(ScenarioError, match=message):
        Design(base, arms=(ORIGINAL, MODIFIED), **design)


def test_without_a_history_other_estimators_run(folder: Path) -> None:
    """Historical simulation needs no past tenants, nor do policies without probabilities."""
    tables = tables_of(folder, days=0.05, from_hours=48.0)
    tables |= {"cluster": {"nodes": 5}, "engine": {"estimator": "historical-simulation"}}
    tables["run"]["policies"] = ["original", "modified", "prv_worst_fit"]
    assert all(run.complete for run in prepare(scenario_from(tables)).runs())
    generated = {"kind": "traces", "path": str(folder), "density": 0.2, "history_share": 0.0}
    scenario = scenario_from({**tables, "workload": generated})
    assert all(run.complete for run in prepare(scenario).runs())


@pytest.mark.parametrize(
    ("days", "workload", "message"),
    [
        (1.0, {"from_hours": 9999.0}, r"workload.from_hours: 9999 is not allowed; the traces cover \d+"),
        (90.0, {}, r"run.days: 90 is not allowed; from hour 0 on, the traces cover \d+\.?\d* days"),
        (1.0, {"history": "before", "history_share": 0.5}, "workload.history: no tenant ended before hour 0"),
    ],
)
def test_windows_outside_the_recorded_time_are_refused(folder: Path, days: float, workload, message: str) -> None:
    scenario = scenario_from({**tables_of(folder, days=days, **workload), "cluster": {"nodes": 5}})
    with pytest.raises(ScenarioError, match=message):
        make_tenants(scenario, read_source(scenario))


def test_small_clusters_and_densities_are_refused(folder: Path) -> None:
    tables = {**tables_of(folder, from_hours=48.0), "cluster": {"nodes": 4, "disk_gb": 1.0}}
    with pytest.raises(DensityError, match=r"the \d+ tenants at the start need .* GB of disk"):
        prepare(scenario_from(tables))
    with pytest.raises(ConflictError, match="its arrivals are recorded; --density does not apply"):
        override(scenario_from(tables), density=2.0, traces=None)


def test_studies_have_one_setting_without_a_density(tmp_path: Path) -> None:
    """Tasks have the sources of their repeats. Given densities, and the search for them, are errors."""
    base = base_of_scenario(EXAMPLE)
    request = StudyRequest(base=base, output=OutputDirectory(tmp_path / "out"), days=0.1, repeats=2)
    design = request.design((ANNEALING_PILOT,), (ORIGINAL,), repeats=2, days=0.1)
    assert [one.density for one in design.settings] == [0.0]
    assert "recorded arrivals" in design.settings[0].name
    found = [prepared(task.arguments) for task in design.tasks()]
    assert len(found) == 2
    for _, source, tenants, repeat in found:
        assert set(tenants.traces.tenant.tolist()) <= set(source.pool.traces.tenant.tolist())
        assert source.of_repeat(repeat).split["rule"].endswith("resampled in each repeat")
    assert sorted(found[0][2].traces.tenant.tolist()) != sorted(found[1][2].traces.tenant.tolist())
    with pytest.raises(InvalidValueError, match=r"study: density = 1.0 is not allowed; expected none"):
        attrs.evolve(request, densities=(1.0,))
    with pytest.raises(PlbError, match="recorded arrivals have no density"):
        ANNEALING_PILOT.densities(base, lambda _: [])


def study_file(folder: Path, traces: Path, more: str) -> Path:
    """Return a scenario of these traces with recorded arrivals."""
    path = folder / "recorded.toml"
    text = f'[workload]\nkind = "traces"\npath = "{traces}"\narrivals = "recorded"\nfrom_hours = 48\n{more}'
    path.write_text(text)
    return path


def test_studies_refuse_traces_before_their_runs(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"workload\.history_path: no such directory: .*nowhere"):
        base_of_scenario(study_file(tmp_path, folder, 'history_path = "nowhere"'))
    with pytest.raises(ConflictError, match=r"workload.history_path: tenant 0 of .* is simulated, too"):
        base_of_scenario(study_file(tmp_path, folder, f'history_path = "{folder}"'))
    write_traces(generate(REGIONS["region2"], 5, 1), tmp_path / "plain")
    with pytest.raises(ScenarioError, match=r"workload\.arrivals: .* tenants.parquet needs a column start_s"):
        base_of_scenario(study_file(tmp_path, tmp_path / "plain", ""))
    late = study_file(tmp_path, folder, 'history = "before"')
    late.write_text(late.read_text().replace("hours = 48", "hours = 48000"))
    with pytest.raises(ScenarioError, match=r"workload\.from_hours: all 60 tenants ended before hour 48000"):
        base_of_scenario(late)


def test_keys_of_runs_do_not_depend_on_the_current_directory(folder: Path, tmp_path: Path, monkeypatch) -> None:
    write_traces(generate(REGIONS["region1"], 25, 77), tmp_path / "past")
    study_file(tmp_path, folder, 'history_path = "past"')
    found = []
    for place in (tmp_path, tmp_path.parent):
        monkeypatch.chdir(place)
        base = base_of_scenario((tmp_path / "recorded.toml").relative_to(place))
        setting = StudySetting("recorded", 80.0, 0.0)
        (task,) = Design(base, [setting], (ORIGINAL,), repeats=1, days=1.0, seed=0).tasks()
        found.append((task.key, dict(base.digests)))
    assert found[0] == found[1]
    assert all(Path(name).is_absolute() for name in found[0][1])


def test_a_setting_without_a_density_is_shown_as_recorded() -> None:
    settings_of = (StudySetting("w", 80.0, 1.5), StudySetting("w", 80.0, 0.0))
    assert [one.shown_density for one in settings_of] == ["1.5", "recorded"]
    assert [one.tenants for one in settings_of] == ["density 1.5", "recorded arrivals"]
    means = {"original": np.array([2.0, 3.0]), "modified": np.array([1.0, 1.0])}
    table = ClaimTable(settings_of, means, {}, "original", "modified")
    assert [*table_of_settings(table, "", 1).columns[2].cells] == ["1.5", "recorded"]
    assert [one.get_text() for one in figure_of_ratios(table, "").axes[0].get_yticklabels()] == [
        "w; density 1.5",
        "w; recorded arrivals",
    ]
    shown = figure_of_settings(table, "").axes[0].get_xticklabels()
    assert [one.get_text() for one in shown] == ["1.5", "recorded"]


def test_a_search_for_nodes_keeps_the_tenants_and_one_for_a_density_is_refused() -> None:
    scenario = read_scenario(EXAMPLE)
    source = read_source(scenario)
    question = ask(scenario, Searched.NODES, {})
    few, many = (tenants_at(question, scenario, source, value, 1) for value in (4.0, 9.0))
    assert few.traces.tenant.tolist() == many.traces.tenant.tolist()
    assert question.density(scenario, 9.0) is None
    with pytest.raises(ScenarioError, match=r"workload\.arrivals: recorded arrivals have no density"):
        ask(scenario, Searched.DENSITY, {})


def test_a_copy_does_not_take_the_name_of_a_tenant() -> None:
    traces = traces_of([Tenant(name, 0, [1.0]) for name in ("a", "a#2")])
    with pytest.raises(ConflictError, match="tenant a#2 has the name of a copy of another tenant"):
        sample_families(traces, 20.0, 0, replace=True)
    with pytest.raises(InvalidValueError, match=r"sample: share = 2\.0"):
        sample_families(traces, 2.0, 0, replace=False)


def test_random_starts_lie_on_steps_within_the_days() -> None:
    traces = generate(REGIONS["region1"], 300, 1)
    found = with_random_starts(traces, 2.0, 1)
    assert found.start is not None
    assert set((found.start % STEP).tolist()) == {0.0}
    assert 0.0 <= found.start.min() < found.start.max() < 2.0 * 86400
    assert np.array_equal(found.start, with_random_starts(traces, 2.0, 1).start)
    assert np.array_equal(found.values, traces.values)
    with pytest.raises(InvalidValueError, match="traces: days = 0"):
        with_random_starts(traces, 0.0, 1)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data are not here")
def test_machines_of_bitbrains_are_there_when_they_have_rows() -> None:
    """A machine with a row at a time is on the cluster then; one that is there has a row within an hour."""
    folder = DATA / "bitbrains_rnd"
    tables = tables_of(folder, days=3.0, kind="bitbrains", window_days=100.0, from_hours=29 * 24.0)
    tables["cluster"] = {"nodes": 40, "capacities": {"cpu": 64, "memory": 128}}
    scenario = scenario_from(tables)
    sequence = make_tenants(scenario, read_source(scenario))
    rows = pl.read_parquet(folder / "rnd_5min.parquet", columns=["vm", "bin", "cores", "cap_mhz", "memcap_mb"])
    known = rows.filter((pl.col("cores") > 0) & (pl.col("cap_mhz") > 0) & (pl.col("memcap_mb") > 0))
    machine = np.array([int(name.removeprefix("vm").partition("@")[0]) for name in sequence.traces.tenant.tolist()])
    for hours in (1, 13, 23, 30, 49, 60, 71):
        time = (29 * 24 + hours) * 3600
        there = set(machine[(sequence.created < 3600 * hours) & (sequence.departure > 3600 * hours)].tolist())
        at = (time - 1) // BIN_SECONDS
        step = known.filter(pl.col("bin") // 2 == at // 2)["vm"].unique().to_list()
        near = known.filter(pl.col("bin").is_between(at - 14, at + 14))["vm"].unique().to_list()
        long = known.group_by("vm").len().filter(pl.col("len") > 12 * 24 * 80)["vm"].to_list()
        assert set(step) & set(long) <= there
        assert there <= set(near)


def test_tenants_that_are_there_at_the_start_have_reported_the_past_that_they_lived(folder: Path) -> None:
    tables = tables_of(folder, days=0.1, from_hours=48.0, past_days=2.0)
    tables["policies"] = {"original": {"estimator": "historical-simulation:slots=48", "w_failovers": 0.1}}
    scenario = scenario_from({**tables, "cluster": {"nodes": 5}})
    source = read_source(scenario)
    sequence = make_tenants(scenario, source)
    simulation = Simulation(scenario, source, sequence, "original")
    simulation.begin()
    past, quantum = simulation.engine._state.rows.past, simulation.engine._state.quanta.quanta
    early = np.flatnonzero(sequence.is_tenant & (sequence.created < 0))
    assert len(early) > 3
    for tenant, hour in product(early.tolist(), (-48, -30, -1)):
        name = str(sequence.traces.tenant[tenant])
        shown = [past.values[replica.index, :, hour % past.slots] for replica in simulation.ledger.placed(name)]
        created = int(sequence.created[tenant])
        lived = [time for time in range(3600 * hour, 3600 * (hour + 1), 600) if time > created]
        if not lived:
            assert np.all(np.array(shown) == MISSING)
        else:
            step = math.ceil((lived[0] - created) / sequence.traces.step_seconds) - 1
            expected = demand_of(sequence.traces, name, step)
            assert np.sum(shown, axis=0) * quantum == pytest.approx(np.array(expected), rel=0.05, abs=quantum.max() * 3)
