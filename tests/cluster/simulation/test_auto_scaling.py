"""Auto scaling: tenants get instances or partitions by their mean load, and share their demand among them."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import ScenarioError
from cluster.runs.experiment import prepare
from cluster.scenario.scenario_file import scenario_from
from cluster.scenario.workload_sections import Scaling
from cluster.simulation.recorder import RunResult
from plb import ConflictError, InvalidValueError, UnknownNameError
from plb.model import Role
from tests.cluster.tiny import Tenant, scenario_of, small_region, story
from tests.engine.strategies import examples

HOUR, STEP = 3600, 600


def scaled(tenants: list[Tenant], nodes: int = 4, hours: float = 2, **scaling: Any) -> RunResult:
    """Run tenants, all of which are scaled by their disk."""
    table = {"metric": "disk", "interval_minutes": 10.0, **scaling}
    return story(scenario_of(nodes, hours, sections={"scaling": {"all": table}}), tenants)


def log_of(run: RunResult) -> list[tuple[object, ...]]:
    """Return time, tenant, numbers and load of every change."""
    return run.tables["scalings"].select("time_s", "tenant", "before", "after", "load").rows()


def loads_at(run: RunResult, time: int) -> list[float]:
    """Return the loads of the nodes that have any at a metering, ascending."""
    loads = run.tables["node_load"].filter((pl.col("time_s") == time) & (pl.col("load") > 0.0))
    return sorted(loads["load"].to_list())


def total_loads(run: RunResult) -> list[tuple[int, float]]:
    by_time = run.tables["node_load"].group_by("time_s").agg(load=pl.col("load").sum()).sort("time_s")
    return [(int(time), round(load, 6)) for time, load in by_time.select("time_s", "load").rows()]


@examples(200)
@given(
    st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 12), st.floats(0.0, 100.0, allow_nan=False)
)
def test_a_look_changes_the_number_by_the_increment_within_its_bounds(low, high, increment, present, load):
    minimum, maximum = sorted((low, high))
    scaling = Scaling(lower_load=30.0, upper_load=60.0, minimum=minimum, maximum=maximum, increment=increment)
    wanted = scaling.wanted(present, load)
    if 30.0 <= load <= 60.0:
        assert wanted == present
    elif load > 60.0:
        assert wanted == (min(present + increment, maximum) if present < maximum else present)
    else:
        assert wanted == (max(present - increment, minimum) if present > minimum else present)


def test_instances_follow_the_mean_load_and_share_the_demand():
    """A tenant of 80 GB gets one instance a look until no instance has more than 30 GB, and loses them again."""
    demand = [80.0] * 6 + [8.0] * 6
    run = scaled([Tenant("a", 0, demand)], lower_load=10.0, upper_load=30.0)
    assert log_of(run) == [
        (600, "a", 1, 2, 80.0),
        (1200, "a", 2, 3, 40.0),
        *[(4200 + 600 * look, "a", 3 - look, 2 - look, pytest.approx(8.0 / (3 - look))) for look in range(2)],
    ]
    assert loads_at(run, 1200) == [40.0, 40.0]
    assert loads_at(run, 1800) == pytest.approx([80 / 3] * 3)
    assert loads_at(run, 6000) == [8.0]
    assert (run.totals["scale_outs"], run.totals["scale_ins"]) == (2, 2)
    assert run.totals["tenants"] == 1
    assert run.totals["downtime_seconds"] == 0.0


def test_partitions_have_replicas_of_their_own_and_leave_with_their_tenant():
    """A tenant of three replicas is split in two partitions of three replicas each, until it departs."""
    run = scaled([Tenant("a", 0, [60.0] * 4, replicas=3)], upper_load=40.0, mechanism="partitions")
    assert log_of(run) == [(600, "a", 1, 2, 60.0)]
    assert loads_at(run, 600) == [60.0] * 3
    assert sum(loads_at(run, 1200)) == 2 * 3 * 30.0
    assert loads_at(run, 3000) == []
    assert run.tables["tenants"]["tenant"].to_list() == ["a"]
    assert run.totals["tenants"] == 1


@pytest.mark.parametrize("only", [False, True])
def test_the_mean_is_over_all_replicas_or_over_primaries(*, only: bool) -> None:
    section = {"tenant_class": "BC_*", "mechanism": "partitions", "upper_load": 0.5, "primary_only": only}
    experiment = prepare(scenario_from(small_region() | {"scaling": {"one": section}}))
    sequence, run = experiment.sequences[0], next(iter(experiment.runs()))
    traces, cpu = sequence.traces, sequence.traces.metric_names.index("cpu")
    first = run.tables["scalings"].unique("tenant", keep="first").filter(before=1)
    assert len(first) > 5
    for time, name, load in first.select("time_s", "tenant", "load").rows():
        tenant = traces.tenant_names().tolist().index(name)
        step = (time - 1 - sequence.arrival[tenant]) // STEP
        start = traces.series_start[traces.series_index[tenant]]
        primary, secondary = (float(traces.values[start[role] + step, cpu]) for role in (Role.PRIMARY, Role.SECONDARY))
        replicas = int(traces.replicas[tenant])
        mean = primary if only else (primary + (replicas - 1) * secondary) / replicas
        assert load == pytest.approx(mean)


def test_looks_that_a_tenant_misses_are_not_made_later() -> None:
    """Its second instance waits two hours for a node. It is then looked at, and again at the next half hour."""
    crashes = [{"node": node, "at_hours": 0.01, "hours": 2.0} for node in ("n1", "n2", "n3")]
    scaling = {"all": {"metric": "disk", "interval_minutes": 30.0, "upper_load": 10.0, "maximum": 4}}
    sections = {"scaling": scaling, "faults": {"crashes": crashes}}
    run = story(scenario_of(4, 4, sections=sections), [Tenant("a", 0, [80.0] * 24)])
    assert [row[:4] for row in log_of(run)] == [(1800, "a", 1, 2), (7800, "a", 2, 3), (9000, "a", 3, 4)]


@examples(25)
@given(
    st.lists(st.lists(st.sampled_from([4.0, 20.0, 60.0, 90.0]), min_size=3, max_size=12), min_size=1, max_size=3),
    st.sampled_from(["instances", "partitions"]),
    st.integers(2, 4),
    st.integers(1, 3),
)
def test_scaling_neither_adds_demand_nor_loses_any(demands, mechanism, maximum, increment):
    tenants = [Tenant(f"t{index}", 600 * index, demand) for index, demand in enumerate(demands)]
    run = scaled(
        tenants,
        nodes=8,
        hours=3,
        lower_load=10.0,
        upper_load=30.0,
        mechanism=mechanism,
        maximum=maximum,
        increment=increment,
    )
    plain = story(scenario_of(8, 3), tenants)
    for result in (run, plain):
        assert result.totals["refusals"] == 0
    moving = {time for record in (run, plain) for time in under_way(record)}
    assert [one for one in total_loads(run) if one[0] not in moving] == [
        one for one in total_loads(plain) if one[0] not in moving
    ]
    counts = run.tables["scalings"]["after"].to_list()
    assert all(1 <= count <= maximum for count in counts)


def under_way(run: RunResult) -> set[int]:
    """Return the meterings during a move, which count both of its ends."""
    found = set()
    for begin, end in run.tables["moves"].select("time_s", "end_s").rows():
        found |= {time for time in range(0, 3 * HOUR + 1, STEP) if begin <= time and (end is None or time <= end)}
    return found


def test_instance_of_a_lost_node_leaves_its_share_to_the_other() -> None:
    faults = {"crashes": [{"node": "n0", "at_hours": 1.01, "hours": 0.5}]}
    scaling = {"all": {"metric": "disk", "interval_minutes": 10.0, "upper_load": 50.0, "maximum": 2}}
    run = story(scenario_of(2, 2, sections={"scaling": scaling, "faults": faults}), [Tenant("a", 0, [60.0] * 12)])
    assert [loads_at(run, time) for time in (3600, 4200, 7200)] == [[30.0, 30.0], [60.0], [30.0, 30.0]]
    assert run.totals["downtime_seconds"] == 0.0
    assert run.totals["scale_outs"] == 1


def test_region_runs_twice_alike():
    tables = small_region() | {"scaling": {"single": {"tenant_class": "GP_*", "upper_load": 1.0}}}
    runs = [next(iter(prepare(scenario_from(tables)).runs())) for _ in range(2)]
    assert runs[0].totals["scale_outs"] > 0
    assert runs[0].totals == runs[1].totals
    for name, table in runs[0].tables.items():
        assert table.equals(runs[1].tables[name])


@pytest.mark.parametrize(
    ("scaling", "error", "words"),
    [
        ({"one": {"tenant_class": "XX_*", "upper_load": 4.0}}, UnknownNameError, "scaling.one.tenant_class"),
        ({"one": {"upper_load": 4.0, "metric": "cpus"}}, UnknownNameError, "scaling.one.metric"),
        ({"one": {"tenant_class": "BC_*", "upper_load": 4.0}}, ConflictError, "partitions"),
        (
            {"one": {"tenant_class": "GP_*", "upper_load": 4.0}, "two": {"tenant_class": "GP_*", "upper_load": 8.0}},
            ConflictError,
            "scaling.one",
        ),
    ],
)
def test_sections_that_do_not_fit_the_tenants_are_refused(scaling, error, words) -> None:
    with pytest.raises(error, match=words):
        prepare(scenario_from(small_region() | {"scaling": scaling}))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "upper_load"),
        ({"lower_load": 4.0, "upper_load": 4.0}, "lower_load"),
        ({"upper_load": 4.0, "minimum": 5, "maximum": 4}, "minimum"),
        ({"upper_load": 4.0, "primary_only": True}, "primary_only"),
        ({"upper_load": 4.0, "interval_minutes": 0.0}, "interval_minutes"),
        ({"upper_load": 4.0, "mechanism": "nodes"}, "mechanism"),
    ],
)
def test_fields_out_of_range_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=f"scaling.one.{words}"):
        scenario_from({"scaling": {"one": fields}})


def test_plans_and_pairs_are_not_scaled() -> None:
    """Their tenants are tied to places or to each other."""
    scaling = {"one": {"upper_load": 4.0}}
    with pytest.raises((ScenarioError, InvalidValueError), match=r"workload\.pair_share"):
        scenario_from({"workload": {"pair_share": 0.5}, "scaling": scaling})
    with pytest.raises((ScenarioError, InvalidValueError), match=r"workload\.kind"):
        scenario_from({"workload": {"kind": "plan", "plan": "p.json"}, "scaling": scaling})


def test_tenant_with_the_name_of_a_further_partition_is_refused() -> None:
    with pytest.raises(ConflictError, match="tenant a/2 has the name"):
        scaled([Tenant("a", 0, [8.0]), Tenant("a/2", 0, [8.0])], upper_load=4.0, mechanism="partitions", maximum=2)


def test_further_partition_that_waits_does_not_count_as_a_waiting_tenant() -> None:
    """The node is full of the first partition until its load is reported again; the tenant was placed at once."""
    run = scaled([Tenant("a", 0, [90.0] * 8)], nodes=1, upper_load=60.0, mechanism="partitions", maximum=2)
    assert run.tables["refusals"]["tenant"].unique().to_list() == ["a/2"]
    assert run.totals["waiting_seconds"] == run.tables["tenants"]["waiting_s"].sum() == 0
