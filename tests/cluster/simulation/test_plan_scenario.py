"""A plan as initial placement: `plb provision --scenario` writes a scenario, and `plb simulate` runs it."""

from __future__ import annotations

import json
import math
import re
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cluster.errors import ScenarioError
from cluster.provisioning import MARGIN, write_scenario
from cluster.results.reading import read_results
from cluster.runs.experiment import prepare
from cluster.scenario.scenario import BUILT_IN_POLICIES, Scenario
from cluster.scenario.scenario_file import override, read_scenario, scenario_from
from cluster.simulation.simulation import Simulation
from plb import ConflictError, PlbError
from plb.provisioning import Affinity, ProvisioningPlan, provision
from tests.cluster.small_provisioning import write_base, write_curves
from tests.command_line import plb
from tests.workloads.provisioning.instance_files import write_authors
from workloads.provisioning import NodeSpec, build_instance, read_instance, read_plan
from workloads.provisioning.user_units import user_demand

KINDS = "--node", "big=128,256x2", "--node", "small=64,128"


def provisioned(instance: Path, folder: Path, *arguments: str) -> Path:
    """Plan an instance by First Fit, and return the written scenario."""
    run = plb("provision", instance, "--algorithm", "FF", "--scenario", folder, *arguments)
    assert run.exit_code == 0, run.output
    assert f"Scenario: {folder / 'scenario.toml'}" in re.sub(r"\s+", " ", run.stdout)
    return folder / "scenario.toml"


def changed(scenario: Path, changes: dict[str, dict[str, Any]]) -> Scenario:
    tables = tomllib.loads(scenario.read_text())
    for section, values in changes.items():
        tables[section] = {**tables.get(section, {}), **values}
    folder = scenario.parent
    tables["workload"] |= {key: str(folder / tables["workload"][key]) for key in ("path", "plan")}
    return scenario_from(tables)


def run_of(scenario: Scenario, policy: str = "original") -> Any:
    experiment = prepare(scenario)
    return Simulation(scenario, experiment.source, experiment.sequences[0], policy).run()


def planned_load(plan: ProvisioningPlan, seconds: int, plan_hours: float = 24.0) -> np.ndarray[Any, Any]:
    """Return the load of each node of a plan of one kind at a time, (N, R), from the plan alone."""
    points = plan.instance.time_points
    point = (math.ceil(seconds * points / (plan_hours * 3600)) - 1) % points
    load = np.zeros((plan.nodes, len(plan.instance.resources)))
    for application, node, count in zip(plan.application, plan.node, plan.count, strict=True):
        load[node] += count * user_demand(plan.instance)[application, :, point]
    return load


def full_instance(path: Path) -> Path:
    """Write an instance whose First Fit plan has 3 completely full nodes."""
    write_authors(
        path,
        build_instance(
            name="full",
            resources=("core", "memory"),
            applications=("a", "b"),
            replicas=np.array([36, 90], np.int32),
            demand=np.array([[[5.3], [10.6]], [[0.01], [0.02]]]),
            affinity=Affinity.from_columns([], [], [], 2),
            nodes=[NodeSpec("node", (64.0, 128.0))],
        ),
    )
    return path


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the scenario of an instance with 98 time points."""
    folder = tmp_path_factory.mktemp("plan")
    return provisioned(write_curves(folder / "curves"), folder / "scenario")


@pytest.fixture(scope="module")
def constant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the scenario of an instance of constant demand on two kinds of nodes."""
    folder = tmp_path_factory.mktemp("plan")
    return provisioned(write_base(folder / "base.csv"), folder, *KINDS)


def test_simulate_runs_the_scenario_of_provision(curves: Path, tmp_path: Path) -> None:
    run = plb("simulate", curves, "--out", tmp_path / "out", "--json", tmp_path / "figures.json")
    assert run.exit_code == 0, run.output
    assert "curves: 22 nodes, a plan, 1 days, 143 tenants" in re.sub(r"\s+", " ", run.stdout)
    figures = json.loads((tmp_path / "figures.json").read_text())["policies"]["original"]
    names = ("violations", "failovers", "moves", "placement_failures", "downtime_seconds")
    assert [figures[name] for name in names] == [0] * 5
    assert read_results(tmp_path / "out").table("node_load")["time_s"].n_unique() == 144
    assert not len(read_results(tmp_path / "out").table("shortages"))
    assert not len(read_results(tmp_path / "out").table("plans")), "the engine makes no plan"
    assert plb("report", tmp_path / "out").exit_code == 0
    assert "The engine made no plan." in (tmp_path / "out" / "report.html").read_text()


def test_the_demand_repeats_after_the_hours_of_the_plan(curves: Path) -> None:
    scenario = changed(curves, {"workload": {"plan_hours": 7.0}, "run": {"days": 10 / 24}})
    plan = read_plan(curves.parent / "plan.csv", read_instance(curves.parent.parent / "curves"))
    load = run_of(scenario).tables["node_load"].sort("time_s", "node", "metric")
    for (seconds,), rows in load.group_by("time_s"):
        expected = planned_load(plan, int(seconds), plan_hours=7.0)
        assert rows["load"].to_numpy().reshape(-1, 2) == pytest.approx(expected, rel=1e-6)


def test_tenants_of_a_plan_are_placed_at_the_start(curves: Path) -> None:
    tenants = run_of(changed(curves, {"run": {"days": 0.05}})).tables["tenants"]
    assert (tenants["arrival_s"].unique().to_list(), tenants["availability"].unique().to_list()) == ([0], [1.0])
    assert tenants["tenant_class"].n_unique() == 30
    assert not tenants["refused"].any()
    plan = pl.read_csv(curves.parent / "plan.csv")
    assert dict(tenants.group_by("tenant_class").agg(pl.col("replicas").cast(pl.Int64).sum()).iter_rows()) == dict(
        plan.group_by("application").agg(pl.col("replicas").sum()).iter_rows()
    )


def test_the_engine_knows_the_demand_from_the_start(curves: Path) -> None:
    """It is that of the first time point, so decisions before the first metering use it."""
    scenario = changed(curves, {})
    experiment = prepare(scenario)
    simulation = Simulation(scenario, experiment.source, experiment.sequences[0], "original", 0)
    simulation.begin()
    plan = read_plan(curves.parent / "plan.csv", read_instance(curves.parent.parent / "curves"))
    loads = [[load[name] for name in ("cpu", "memory")] for load in simulation.engine.node_loads().values()]
    assert np.array(loads) == pytest.approx(planned_load(plan, 1), abs=0.01)


def test_a_full_plan_has_no_violations(tmp_path: Path) -> None:
    """Nodes are slightly larger than in the plan, because the engine rounds up and a full node is a violation."""
    scenario = provisioned(full_instance(tmp_path / "full.csv"), tmp_path / "scenario", "--node", "63.9,127.8")
    instance = read_instance(tmp_path / "full.csv", [NodeSpec("node", (63.9, 127.8))])
    plan = read_plan(tmp_path / "scenario" / "plan.csv", instance)
    assert planned_load(plan, 600) == pytest.approx(np.array([[63.9, 127.8]] * 3)), "the nodes are full"
    # after the loss and the return of a node, the engine checks all constraints
    faults = {"crashes": [{"node": f"n{plan.nodes}", "at_hours": 0.2, "hours": 0.2}]}
    domains = {"nodes": plan.nodes + 1, "fault_domains": plan.nodes + 1, "upgrade_domains": plan.nodes + 1}
    run = run_of(changed(scenario, {"cluster": domains, "faults": faults, "run": {"days": 0.05}}))
    assert run.tables["plans"]["occasion"].to_list() == ["constraint check"] * 2
    assert (run.totals["violations"], run.totals["shortages_unresolved"], run.totals["moves"]) == (0, 0, 0)
    tight = {"capacities": {"core": 63.9, "memory": 127.8}}
    assert run_of(changed(scenario, {"cluster": tight, "run": {"days": 0.05}})).totals["violated_node_minutes"] > 0


def test_growth_beyond_the_plan_causes_violations(curves: Path) -> None:
    """An application with doubled demand fills nodes to their threshold, and it or other replicas move away."""
    growth = [{"tenant_class": "app_0", "at_hours": 1.0, "hours": 2.0, "factor": 2.0}]
    run = run_of(changed(curves, {"workload": {"growth": growth}, "run": {"days": 0.25}}))
    assert run.totals["violations"] > 0
    assert run.tables["shortages"]["time_s"].min() == 3600
    assert set(run.tables["moves"]["cause"]) >= {"violation"}


@pytest.mark.parametrize("at_hours", [0.0, 1.0])
def test_replicas_of_a_crashed_node_restart_on_other_nodes(curves: Path, at_hours: float) -> None:
    """They restart at once, because they have no data. The plan is in place even for a crash in the first second."""
    plan = read_plan(curves.parent / "plan.csv", read_instance(curves.parent.parent / "curves"))
    crash = {"crashes": [{"node": "n00", "at_hours": at_hours, "hours": 2.0}]}
    domains = {"fault_domains": plan.nodes, "upgrade_domains": plan.nodes}
    run = run_of(changed(curves, {"cluster": domains, "faults": crash, "run": {"days": 0.1}}))
    lost = int(plan.count[plan.node == 0].sum())
    assert run.totals["moves_by_cause"]["node fault"] == lost
    assert set(run.tables["moves"].filter(cause="node fault")["source"]) == {"n00"}
    load = run.tables["node_load"].filter(time_s=round(at_hours * 3600) + 600)
    assert load.filter(node="n00")["load"].sum() == 0.0
    expected = planned_load(plan, round(at_hours * 3600) + 600).sum()
    assert load["load"].sum() >= expected * (1 - 1e-6)


def test_node_types_are_read_back(constant: Path) -> None:
    tables = tomllib.loads(constant.read_text())
    plan = pl.read_csv(constant.parent / "plan.csv")
    used = dict(plan.group_by("node_type").agg(pl.col("node").n_unique()).iter_rows())
    cluster, workload = tables["cluster"], tables["workload"]
    assert cluster["nodes"] == used["big"] + used["small"]
    assert cluster["capacities"] == pytest.approx({"core": 128 * (1 + MARGIN), "memory": 256 * (1 + MARGIN)})
    (group,) = cluster["groups"]
    assert group["nodes"] == used["small"]
    assert group["capacities"] == pytest.approx({"core": 64 * (1 + MARGIN), "memory": 128 * (1 + MARGIN)})
    assert (workload["nodes"], workload["density_metric"]) == (list(KINDS[1::2]), "core")
    assert workload["path"] == "base.csv", "the path of the instance is relative to the scenario"
    run = run_of(changed(constant, {"run": {"days": 0.05}}))
    assert (run.totals["violations"], run.totals["moves"]) == (0, 0)


def test_a_node_type_may_have_additional_nodes(constant: Path) -> None:
    """In each type, they follow the nodes of the plan and are empty."""
    tables = tomllib.loads(constant.read_text())["cluster"]
    (group,) = tables["groups"]
    big = tables["nodes"] - group["nodes"]
    more = {"nodes": tables["nodes"] + 3, "groups": [{**group, "nodes": group["nodes"] + 1}]}
    load = run_of(changed(constant, {"cluster": more, "run": {"days": 0.05}})).tables["node_load"]
    by_node = load.filter(time_s=600).group_by("node").agg(pl.col("load").sum()).sort("node")["load"].to_list()
    assert [place for place, value in enumerate(by_node) if not value] == [big, big + 1, tables["nodes"] + 2]


def test_unused_node_types_are_omitted(tmp_path: Path) -> None:
    base = write_base(tmp_path / "base.csv")
    scenario = provisioned(base, tmp_path / "x", "--node", "tiny=0.5,1", "--node", "64,128")
    cluster = tomllib.loads(scenario.read_text())["cluster"]
    assert "groups" not in cluster
    assert cluster["capacities"] == pytest.approx({"core": 64 * (1 + MARGIN), "memory": 128 * (1 + MARGIN)})
    assert run_of(changed(scenario, {"run": {"days": 0.05}})).totals["violated_node_minutes"] == 0


def test_any_name_is_written(tmp_path: Path) -> None:
    """Names of resources, applications and folders with quotes, backslashes and other signs are read back.

    The name of a scenario becomes that of a directory, which cannot have all of them.
    """
    folder = tmp_path / 'a "b" \\ ä'
    instance = build_instance(
        name='a/b\t"c"',
        resources=('GB "of" x', "core"),
        applications=('"\\x', "b"),
        replicas=np.array([2, 1], np.int32),
        demand=np.ones((2, 2, 1)),
        affinity=Affinity.from_columns([], [], [], 2),
        nodes=[NodeSpec("node", (64.0, 128.0))],
    )
    path = write_scenario(folder, provision(instance, "FF"), folder / "in\x7fside.csv", None)
    scenario = read_scenario(path)
    assert scenario.name == 'a_b_"c"'
    assert scenario.cluster.capacity == pytest.approx({'GB "of" x': 64.064, "core": 128.128})
    assert scenario.workload.path == str(folder / "in\x7fside.csv")
    assert scenario.workload.density_metric == 'GB "of" x'
    tables = tomllib.loads(re.sub(r"^# (?=growth|\[faults|crashes)", "", path.read_text(), flags=re.MULTILINE))
    assert tables["workload"]["growth"][0]["tenant_class"] == '"\\x'
    assert scenario_from(tables).faults.crashes[0].node == "n0"


TRAINED = Path(__file__).parents[3] / "examples" / "learning" / "deepplace.pt"
FAILING = {
    "faults": {"crashes": [{"node": "n00", "at_hours": 0.3, "hours": 0.2}]},
    "engine": {"repetitions": 20, "chains": 1, "max_simulated_annealing_iterations": 2},
}


@pytest.mark.parametrize("policy", BUILT_IN_POLICIES)
def test_every_policy_starts_from_the_plan(curves: Path, policy: str) -> None:
    changes = {**FAILING, "run": {"days": 0.03, "policies": [policy]}}
    if policy == "learned":
        pytest.importorskip("torch")
        changes["policies"] = {"learned": {"policy_options": {"checkpoint": str(TRAINED)}}}
    run = run_of(changed(curves, changes), policy)
    assert run.totals["moves_by_cause"]["node fault"] == 5


def test_the_number_of_processes_changes_nothing(curves: Path) -> None:
    experiment = prepare(changed(curves, {**FAILING, "run": {"days": 0.03, "policies": ["original", "modified"]}}))
    one, two = ({run.policy: run for run in experiment.runs(jobs=jobs)} for jobs in (1, 2))
    for policy, table in product(("original", "modified"), ("node_load", "moves", "tenants")):
        assert one[policy].tables[table].equals(two[policy].tables[table])


def test_repeats_differ_only_in_faults(curves: Path) -> None:
    one, other = prepare(changed(curves, {"run": {"days": 0.05, "repeats": 2}})).sequences
    assert np.array_equal(one.standing, other.standing)
    assert one.traces is other.traces


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"workload": {"density": 1.0}}, "density = 1.0 is not allowed"),
        ({"workload": {"density_end": 3.0}}, "density_end = 3.0 is not allowed"),
        ({"workload": {"history_share": 0.2}}, "history_share = 0.2 is not allowed"),
        ({"workload": {"pair_share": 0.2}}, "pair_share = 0.2 is not allowed"),
        ({"workload": {"region": "region2"}}, "region = 'region2' is not allowed"),
        ({"workload": {"region_parameters": {"size_bias": 1.2}}}, 'none except with kind = "region"'),
        ({"workload": {"trace_seed": 2}}, "trace_seed = 2 is not allowed"),
        ({"workload": {"plan_hours": 0}}, "plan_hours = 0.0 is not allowed"),
        ({"workload": {"plan_hours": 0.001}}, "plan_hours = 0.001 is not allowed"),
        ({"workload": {"nodes": ["64;128"]}}, "capacities such as 64,128"),
        ({"workload": {"nodes": ["other=64,128"]}}, "node_type: found '64x128'"),
        ({"workload": {"density_metric": "core"}}, "unknown metric 'core'"),
        ({"workload": {"growth": [{"tenant_class": "app_99", "at_hours": 1, "hours": 1, "factor": 2}]}}, "'app_99'"),
        ({"run": {"fill_hours": 1.0}}, "fill_hours = 1.0 is not allowed"),
        ({"cluster": {"nodes": 21}}, "node type 64x128: the plan needs 22 nodes, kind 1 of the cluster has 21"),
        ({"cluster": {"capacities": {"cpu": 60, "memory": 129}}}, "node type 64x128: the plan requires 64 cpu, the"),
        ({"cluster": {"capacities": {"cpu": 65, "ram": 129}}}, "unknown metric 'ram'"),
        ({"faults": {"crashes": [{"node": "64x128-0", "at_hours": 1, "hours": 1}]}}, "unknown node '64x128-0'"),
    ],
)
def test_settings_in_conflict_with_the_plan_are_refused(curves: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(PlbError) as caught:
        prepare(changed(curves, changes))
    assert words in str(caught.value)


def test_a_missing_node_type_is_named(constant: Path) -> None:
    tables = tomllib.loads(constant.read_text())["cluster"]
    (group,) = tables["groups"]
    small = {**group, "capacities": {"core": 63.9, "memory": 128.0}}
    for groups, words in (
        ([], f"node type small: the plan needs {group['nodes']} nodes, kind 2 of the cluster has 0"),
        ([small], "node type small: the plan requires 64 core, the cluster has 63.9"),
    ):
        with pytest.raises(ScenarioError, match=words):
            prepare(changed(constant, {"cluster": {"groups": groups}}))


def test_files_that_are_missing_or_wrong_are_refused(curves: Path, tmp_path: Path) -> None:
    tables = tomllib.loads(curves.read_text())
    instance = str(curves.parent.parent / "curves")
    plan = pl.read_csv(curves.parent / "plan.csv")
    plan.with_columns(application=pl.lit("other")).write_csv(tmp_path / "other.csv")
    plan[2:].write_csv(tmp_path / "part.csv")
    for workload, words in (
        ({"plan": "plan.csv"}, r'workload\.path: kind = "plan" needs the instance that was planned'),
        ({"path": instance}, r'workload\.plan: kind = "plan" needs the file of the plan'),
        ({"path": instance, "plan": str(tmp_path / "none.csv")}, r"none\.csv: found no such file"),
        ({"path": str(tmp_path / "none"), "plan": "plan.csv"}, "none: found no such file"),
        ({"path": instance, "plan": str(tmp_path / "other.csv")}, "application: found 'other'"),
        ({"path": instance, "plan": str(tmp_path / "part.csv")}, r"part\.csv: application app_\d+: \d+ of \d+ repl"),
    ):
        with pytest.raises(PlbError, match=words):
            prepare(scenario_from({**tables, "workload": {"kind": "plan", "density_metric": "cpu", **workload}}))


@pytest.mark.parametrize(("key", "value"), [("plan", "plan.csv"), ("nodes", ["64,128"]), ("plan_hours", 12.0)])
def test_keys_of_plans_need_a_plan(key: str, value: Any) -> None:
    with pytest.raises(ScenarioError, match=rf'workload\.{key}: .*none except with kind = "plan"'):
        scenario_from({"workload": {key: value}})


def test_the_command_line_cannot_change_the_tenants_of_a_plan(curves: Path, tmp_path: Path) -> None:
    """Other traces and another density are refused. Studies, which vary both, accept no plan."""
    scenario = read_scenario(curves)
    with pytest.raises(ConflictError, match="tenants come from a plan"):
        override(scenario, traces=tmp_path)
    with pytest.raises(PlbError, match=r"density = 3\.0 is not allowed"):
        override(scenario, traces=None, density=3.0)
    run = plb("study", "annealing", "--scenario", curves, "--out", tmp_path / "study")
    assert run.exit_code == 2
    assert "workload.kind: studies vary the density" in re.sub(r"\s+", " ", run.stderr)


def test_plans_do_not_change_the_digest_of_other_scenarios(curves: Path) -> None:
    """Thus results cached under an old digest remain valid. The digest of a plan depends on the names of its files."""
    assert {"plan", "nodes", "plan_hours"}.isdisjoint(scenario_from({}).as_json()["workload"])
    scenario = read_scenario(curves)
    assert scenario.as_json()["workload"]["plan"] == str(curves.parent / "plan.csv")
    assert scenario.digest() != changed(curves, {"workload": {"plan_hours": 12.0}}).digest()


def test_a_plan_with_faults_leaves_no_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProvisioningPlan, "faults", lambda _: ("node 0: too much",))
    run = plb("provision", write_base(tmp_path / "base.csv"), "--algorithm", "FF", "--scenario", tmp_path / "x")
    assert run.exit_code == 1
    assert not (tmp_path / "x" / "scenario.toml").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_planning(tmp_path: Path) -> None:
    base = write_base(tmp_path / "plan.csv")
    for folder, words in ((base, "plan.csv"), (tmp_path, "is read; give another file to write to")):
        before = base.read_bytes()
        run = plb("provision", base, "--algorithm", "FF", "--scenario", folder)
        assert run.exit_code == 2
        assert words in re.sub(r"\s+", " ", run.stderr)
        assert base.read_bytes() == before


def test_a_scenario_is_overwritten_only_with_force(tmp_path: Path) -> None:
    base, folder = write_base(tmp_path / "base.csv"), tmp_path / "planned"
    command = ("provision", base, "--algorithm", "FF", "--scenario", folder)
    assert plb(*command).exit_code == 0
    (folder / "scenario.toml").write_text("mine")
    refused = plb(*command)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert (folder / "scenario.toml").read_text() == "mine"
    assert plb(*command, "--force").exit_code == 0
    assert (folder / "scenario.toml").read_text() != "mine"


def test_names_with_special_characters_are_literal(tmp_path: Path) -> None:
    """Square brackets are printed. The name of the scenario is converted to a valid name of a directory."""
    base, folder = write_base(tmp_path / "a[b]\\c.csv"), tmp_path / "planned"
    run = plb("provision", base, "--algorithm", "FF", "--scenario", folder, "--out", tmp_path / "[x].csv")
    assert run.exit_code == 0, run.output
    assert "[x].csv" in run.stdout
    assert read_scenario(folder / "scenario.toml").name == "a[b]_c"
