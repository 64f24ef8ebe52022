"""`plb explain`: why tenants were on their nodes, or why they were not placed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from cluster.console import BAD_INPUT
from cluster.explanation.explanation import RunReplay, history_of, stay_of
from cluster.results.recorded_run import RecordedRun, read_run
from cluster.results.writing import ResultsFolder
from cluster.scenario.times import in_words
from cluster.simulation.run_tables import frame_of_rows
from plb import Energy, Metric, PlbConfig
from plb.energy.terms import weighted_terms
from tests.cluster.small_runs import TWO_CRASHES
from tests.cluster.tiny import Tenant, scenario_of, source_of, story, traces_of
from tests.command_line import plb

GUIDE = (Path(__file__).parents[3] / "docs" / "results.md").read_text()


def explanation_of(explained: Path, tmp_path: Path, *arguments: Any) -> tuple[str, dict[str, Any]]:
    """Return the printed text in one line, and the written file."""
    done = plb("explain", explained, *arguments, "--json", tmp_path / "found.json")
    assert done.exit_code == 0, done.output
    return " ".join(done.stdout.split()), json.loads((tmp_path / "found.json").read_text())


def tenant_with(run: RecordedRun, table: str, *conditions: pl.Expr) -> tuple[str, int]:
    """Return the first tenant of a table for which the conditions hold, and the time."""
    row = run.table(table).filter(*conditions).row(0, named=True)
    return row["tenant"], row["time_s"]


def test_a_replay_reproduces_the_recorded_loads(run: RecordedRun):
    replay = RunReplay(run)
    replay.look_at("nobody", [], 1200)
    recorded = run.table("node_load").filter(pl.col("time_s") == 1200)
    engine = {
        (node, metric): load for node, loads in replay.engine.node_loads().items() for metric, load in loads.items()
    }
    for row in recorded.to_dicts():
        assert engine[row["node"], row["metric"]] == pytest.approx(row["load"], rel=1e-3, abs=1e-3)


def test_the_necessary_changes_of_a_missing_replica_are_printed(explained: Path, run: RecordedRun, tmp_path: Path):
    """Two of five nodes are down and three have replicas. The record states this, and one of the two must return."""
    tenant, when = tenant_with(run, "refusals")
    text, found = explanation_of(explained, tmp_path, "--partition", tenant, "--time", when)
    assert f"{tenant} of class" in text
    assert "is not placed: of 5 nodes, none would take it." in text
    assert "n3 must be back in service (it is down)" in text
    assert "secondary is not placed" in text
    (waits,) = [replica for replica in found["replicas"] if replica["node"] is None][:1]
    recorded = run.table("refusals").filter((pl.col("tenant") == tenant) & (pl.col("time_s") == when))
    assert {reason["rule"]: reason["nodes"] for reason in waits["diagnosis"]} == json.loads(recorded["ruled_out"][-1])
    changes = {change for node in waits["closed"] for change in node["changes"]}
    assert changes >= {f"{node} must be back in service (it is down)" for node in ("n1", "n3")}


def test_a_placed_replica_is_compared_with_the_best_other_nodes(explained: Path, run: RecordedRun, tmp_path: Path):
    row = run.table("tenants").filter((pl.col("replicas") == 1) & (pl.col("arrival_s") == 0)).row(0, named=True)
    text, found = explanation_of(explained, tmp_path, "--partition", row["tenant"], "--time", "10m")
    assert f"0s arrives; it wants 1 replica 0s primary is placed on {found['replicas'][0]['node']}" in text
    assert "The primary is on" in text
    assert "the best nodes by energy, compared with its node" in text
    (replica,) = found["replicas"]
    assert replica["rank"] is not None
    assert replica["nodes"] == 5
    for place in [replica["standing"], *replica["places"]]:
        assert sum(place["parts"].values()) == pytest.approx(place["energy"])
    assert replica["standing"]["parts"]["movement"] == 0.0
    assert {place["parts"]["movement"] for place in replica["places"] if place["node"] != replica["node"]} == {1.0}
    assert (found["status"], found["time_s"], found["decided_by"]) == ("there", 600, None)


def test_moves_are_printed_with_their_reasons(explained: Path, run: RecordedRun, tmp_path: Path):
    tenant, when = tenant_with(run, "moves", pl.col("kind") == "move")
    _, found = explanation_of(explained, tmp_path, "--partition", tenant, "--time", when)
    (move,) = [event for event in found["events"] if event["kind"] == "move"]
    recorded = run.table("moves").filter((pl.col("tenant") == tenant) & (pl.col("time_s") == when)).row(0, named=True)
    assert move["details"]["why"] == recorded["why"]
    assert move["text"].startswith(f"{recorded['role']} moves from {recorded['source']} to {recorded['target']}, for")
    assert found["events"][0]["kind"] == "arrival"
    times = [event["time_s"] for event in found["events"]]
    assert times == sorted(times)
    assert times[-1] <= when
    assert found["replicas"][0]["node"] == recorded["target"]


def recorded_story(tmp_path: Path, *tenants: Tenant, **cluster: Any) -> RecordedRun:
    """Return the record of a small story of two hours on two nodes."""
    scenario = scenario_of(2, hours=2, **cluster)
    ResultsFolder(tmp_path, scenario, source_of(traces_of(tenants))).add(story(scenario, tenants))
    return read_run(tmp_path)


def test_an_unfinished_event_has_no_end(tmp_path: Path):
    """A move is under way until its copy ends. After that it is completed, with the interruption at its end."""
    others = Tenant("a", 0, [40.0] * 36), Tenant("c", 1300, [20.0, 60.0, *[60.0] * 30])
    grown = Tenant("b", 700, [20.0, 20.0, 45.0, *[45.0] * 30])
    run = recorded_story(tmp_path, others[0], grown, others[1], copy_gbit_per_second=0.36)
    why = "primary moves from n1 to n0, for violation: disk of node n1 is 105, above its limit of 94.9999"
    for until, last in ((2400, f"{why}; under way"), (3400, f"{why}; completed at 56m40s")):
        events = history_of(run, stay_of(run, "b"), [], until)
        (move,) = [event for event in events if event.kind == "move"]
        assert (move.time_s, move.text) == (2400, last)
    (pause,) = [event for event in history_of(run, stay_of(run, "b"), [], 7200) if event.kind == "interruption"]
    assert pause.text == "cannot be used for 30 s, for violation"


def test_refusals_for_the_same_reasons_are_one_event(tmp_path: Path):
    """A tenant without a feasible node is refused at its arrival and at each metering. The event has its last time."""
    tenants = (Tenant(name, arrival, [90.0] * 9) for name, arrival in (("a", 0), ("b", 0), ("c", 600)))
    run = recorded_story(tmp_path, *tenants)
    events = history_of(run, stay_of(run, "c"), [], 7200)
    assert [event.kind for event in events] == ["arrival", "refusal", "departure"]
    assert events[1].details["attempts"] > 1
    assert events[1].details["ruled_out"] == {"capacity": 2}
    assert "primary is not placed, " in events[1].text


def test_a_refusal_without_a_rule_is_reported():
    tables = {
        "tenants": [("a", "any", 1, 0, 600, True, 0, 0.0, None, 0)],
        "refusals": [(0, "a", "primary", 1, "{}", 5)],
    }
    run: Any = SimpleNamespace(table=lambda name: frame_of_rows(name, "original", 0, tables.get(name, [])), seconds=600)
    (refusal,) = [event for event in history_of(run, stay_of(run, "a"), [], 300) if event.kind == "refusal"]
    assert refusal.text == "primary is not placed: of 5 nodes, none is ruled out"


def test_a_placement_policy_decides_without_the_energy(explained: Path, run: RecordedRun, tmp_path: Path):
    tenant = run.table("tenants")["tenant"][0]
    question = ("--partition", tenant, "--time", "600", "--policy", "first_fit")
    text, found = explanation_of(explained, tmp_path, *question)
    done = plb("explain", explained, *question, "--quiet")
    assert (done.exit_code, done.output) == (0, "")
    assert "The policy first_fit decides. It does not use this energy." in text
    assert (found["policy"], found["decided_by"]) == ("first_fit", "first_fit")


def test_repeats_are_numbered_from_one(tmp_path: Path):
    """Tables and files number them from 0."""
    (tmp_path / "small.toml").write_text(TWO_CRASHES.replace("days = 0.1", "days = 0.02"))
    assert plb("simulate", tmp_path / "small.toml", "--repeats", 2, "--out", tmp_path / "out", "--quiet").exit_code == 0
    first, second = (set(read_run(tmp_path / "out", repeat=repeat).table("tenants")["tenant"]) for repeat in (0, 1))
    question = ("--partition", min(second - first), "--time", "5m")
    text, found = explanation_of(tmp_path / "out", tmp_path, *question, "--repeat", 2)
    assert "under modified, repeat 2" in text
    assert found["repeat"] == 1
    for repeat in ((), ("--repeat", 1)):
        assert plb("explain", tmp_path / "out", *question, *repeat).exit_code == BAD_INPUT
    done = plb("explain", tmp_path / "out", *question, "--repeat", 3)
    assert "there is no repeat 3 of modified, only 1, 2" in done.output


def test_the_stay_of_an_absent_tenant_is_explained(explained: Path, run: RecordedRun, tmp_path: Path):
    """Before the arrival, the run is not replayed. After the departure, only the history is printed."""
    tenants = run.table("tenants")
    late = tenants.filter(pl.col("arrival_s") > 600).row(0, named=True)
    text, found = explanation_of(explained, tmp_path, "--partition", late["tenant"], "--time", "1m")
    assert text.endswith(f"It is not there yet: it arrives at {in_words(late['arrival_s'])} ({late['arrival_s']} s).")
    assert (found["status"], found["events"], found["replicas"]) == ("not arrived", [], [])
    gone = tenants.filter(pl.col("departure_s") < run.seconds).row(0, named=True)
    text, found = explanation_of(explained, tmp_path, "--partition", gone["tenant"], "--time", run.seconds)
    assert f"It is there no more: it left at {in_words(gone['departure_s'])}" in text
    assert found["status"] == "departed"
    assert found["events"][-1]["kind"] == "departure"
    assert found["replicas"] == []


def keys_in_guide(heading: str) -> list[str]:
    """Return the keys in the first column of the table after a text of the guide."""
    table = GUIDE.split(heading)[1].split("|---|---|\n")[1].split("\n\n")[0]
    return [key for line in table.splitlines() for key in re.findall(r"`(\w+)`", line.split(" |")[0])]


def test_the_guide_has_every_key_of_the_file(explained: Path, run: RecordedRun, tmp_path: Path):
    tenant, when = tenant_with(run, "refusals")
    _, found = explanation_of(explained, tmp_path, "--partition", tenant, "--time", when)
    assert keys_in_guide("## The file of `--json`") == list(found)
    assert keys_in_guide("Each of `replicas` has") == list(found["replicas"][0])


def test_a_better_node_is_named_with_the_reason_against_a_move(tmp_path: Path):
    """With a large weight on imbalance, most replicas have a better node. Scenarios disable balancing."""
    text = TWO_CRASHES.replace("[engine]", "[engine]\nw_imbalance = 1000.0").replace("0.1", "0.02")
    (tmp_path / "small.toml").write_text(text.replace('"modified", "first_fit"', '"original"'))
    assert plb("simulate", tmp_path / "small.toml", "--out", tmp_path / "out", "--quiet").exit_code == 0
    single = read_run(tmp_path / "out").table("tenants").filter(pl.col("replicas") == 1)["tenant"].to_list()
    texts = [explanation_of(tmp_path / "out", tmp_path, "--partition", name, "--time", "20m")[0] for name in single[:6]]
    better = [one for one in texts if "would lower the energy by" in one and "No other node" not in one]
    assert better
    assert all("Balancing is off in this scenario" in one for one in better)


def test_terms_of_a_product_energy_have_no_weights():
    energy = Energy(10.0, 1.0, 2.0, 0.0, 3.0)
    product = PlbConfig(metrics=[Metric("cpu")], combination="service_fabric")
    assert weighted_terms(product, energy) == energy.terms
    ignoring = PlbConfig(metrics=[Metric("cpu")], ignore_cost_in_scoring=True, w_imbalance=10.0)
    parts = weighted_terms(ignoring, energy)
    assert (parts["movement"], parts["imbalance"]) == (0.0, 20.0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"--partition": "354"}, "unknown tenant '354'; did you mean"),
        ({"--time": "3h"}, "expected a time from 0 to the end of the run, 2h24m (8640 s)"),
        ({"--time": "soon"}, "expected seconds, such as 345600, or days"),
        ({"--policy": "modifed"}, "unknown policy 'modifed'; did you mean 'modified'?"),
        ({"--repeat": "2"}, "there is no repeat 2 of modified, only 1"),
        ({"--repeat": "0"}, "greater than or equal to 1"),
        ({"--traces": "nowhere"}, "the tenants do not come from traces; omit --traces"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_questions_are_refused(explained: Path, run: RecordedRun, changed: dict[str, str], message: str):
    options = {"--partition": run.table("tenants")["tenant"][0], "--time": "10m"} | changed
    done = plb("explain", explained, *[word for pair in options.items() for word in pair])
    assert done.exit_code == BAD_INPUT
    assert message in done.output
