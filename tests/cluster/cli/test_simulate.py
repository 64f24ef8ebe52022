"""`plb simulate`: output, results and error messages."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import attrs
import polars as pl
import pytest

from cluster.console import BAD_INPUT
from cluster.results.reading import read_results
from cluster.results.summary_tables import save_plots
from cluster.runs.experiment import prepare
from cluster.runs.pool import interrupts_blocked
from cluster.scenario.scenario_file import override, read_scenario
from cluster.simulation.run_tables import TABLES, columns_of
from tests.cluster.small_runs import SMALL
from tests.command_line import plb

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def results(scenario: Path) -> Path:
    """Return the results directory of that scenario."""
    out = scenario.parent / "results"
    run = plb("simulate", scenario, "--out", out, "--json", scenario.parent / "figures.json")
    assert run.exit_code == 0, run.output
    (scenario.parent / "printed").write_text(run.stdout)
    return out


def test_faults_and_upgrades_have_a_summary_table(results: Path, tmp_path: Path):
    failing = tmp_path / "failing.toml"
    failing.write_text(
        SMALL + '[faults]\ncrashes = [{ node = "n3", at_hours = 1.0, hours = 0.5 }]\n[upgrades]\nstarts_hours = [1.5]\n'
    )
    run = plb("simulate", failing, "--out", tmp_path / "out")
    assert run.exit_code == 0, run.output
    for words in ("faults and upgrades", "availability of tenants", "moves for node fault", "quorums lost"):
        assert words in run.stdout
    (line,) = [line for line in run.stdout.splitlines() if "node faults" in line]
    assert line.split("│")[2:4] == ["        1 ", "        1 "]
    assert "availability of tenants" not in (results.parent / "printed").read_text()


def test_names_in_faults_are_checked_before_anything_runs(tmp_path: Path):
    failing = tmp_path / "failing.toml"
    failing.write_text(SMALL + '[faults]\ncrashes = [{ node = "n33", at_hours = 1.0, hours = 0.5 }]\n')
    run = plb("simulate", failing, "--out", tmp_path / "out")
    assert run.exit_code != 0
    assert "n3" in run.output
    assert not (tmp_path / "out" / "summary.json").exists()


def test_a_run_prints_a_table_and_writes_results_with_stable_keys(results: Path):
    printed = (results.parent / "printed").read_text()
    for words in ("original", "modified", "violations", "ratio", "10 nodes, density 1.5, 0.1 days"):
        assert words in printed
    plots = {"violations.png", "load.png", "load_map.png"}
    assert {path.name for path in results.iterdir()} == {"summary.json", "timings.json", "columns.json", "runs"} | plots
    figures = json.loads((results.parent / "figures.json").read_text())
    keys = {"violations", "failovers", "moves", "placement_failures", "downtime_seconds", "wall_seconds"}
    keys |= {"violations_avoidable", "violations_unavoidable", "shortages_unresolved"}
    assert list(figures) == ["policies", "stamp"]
    assert {name: set(values) for name, values in figures["policies"].items()} == {"original": keys, "modified": keys}


def test_the_summary_has_seed_hash_versions_and_split_but_no_timings(results: Path):
    summary = json.loads((results / "summary.json").read_text())
    assert (summary["complete"], summary["seed"], len(summary["scenario_sha256"])) == (True, 3, 64)
    assert {"plb", "numba", "python"} <= set(summary["versions"])
    assert summary["split"]["first_tenant"] >= summary["split"]["history_tenants"] == 300
    assert [(run["policy"], run["repeat"]) for run in summary["runs"]] == [("modified", 0), ("original", 0)]
    assert "seconds" not in summary["runs"][0]
    assert len(json.loads((results / "timings.json").read_text())["runs"]) == 2


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_documented(results: Path, table: str):
    frame = read_results(results).table(table)
    assert dict(frame.schema) == {name: column.dtype() for name, column in columns_of(table).items()}
    metadata = pl.read_parquet_metadata(results / "runs" / "original-0" / f"{table}.parquet")
    assert metadata["column.policy"] == "policy of the run"
    guide = json.loads((results / "columns.json").read_text())
    assert set(guide[table]) == set(frame.columns)


EXTENSIONS = """
class Heat:
    name = "heat"

    def total(self, configuration):
        return float((configuration.loads**2).sum())


class NotOnTheFirst:
    name = "not_on_the_first"

    def refuses(self, configuration, proposal):
        return any(one.target == 0 for one in configuration.relocations(proposal))

    def broken(self, configuration):
        return configuration.rows_on(0)
"""


@pytest.mark.slow
def test_extensions_of_a_scenario_work_in_every_process(tmp_path: Path):
    (tmp_path / "own.py").write_text(EXTENSIONS)
    own = '[policies.own]\nextension_terms = { heat = 1e-6 }\nextension_constraints = ["not_on_the_first"]\n'
    policies = 'policies = ["original", "own"]\n'
    path = tmp_path / "own.toml"
    path.write_text(
        'extensions = ["own.py:Heat", "own.py:NotOnTheFirst"]\n'
        + SMALL.replace("days = 0.1\n", "days = 0.05\n" + policies)
        + own
    )
    for jobs in (1, 2):  # new processes
        command = [sys.executable, "-c", "from cluster.cli.app import main; main()", "simulate", path]
        command += ["--out", tmp_path / f"jobs{jobs}", "--jobs", str(jobs), "--quiet"]
        subprocess.run(command, check=True)
    files = [path for path in (tmp_path / "jobs1").rglob("*.*") if path.name != "timings.json"]
    assert all(path.read_bytes() == Path(str(path).replace("jobs1", "jobs2")).read_bytes() for path in files)
    load = read_results(tmp_path / "jobs2").table("node_load").filter(node="n0")
    assert load.filter(policy="own")["load"].sum() == 0 < load.filter(policy="original")["load"].sum()


def test_options_override_the_scenario(scenario: Path, tmp_path: Path):
    chosen = ("--policy", "modified", "--seed", 9, "--repeats", 2, "--density", 1.0, "--days", 0.05)
    assert plb("simulate", scenario, "--out", tmp_path / "out", *chosen).exit_code == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    run, workload = summary["scenario"]["run"], summary["scenario"]["workload"]
    assert (run["policies"], run["seed"], run["repeats"], run["days"]) == (["modified"], 9, 2, 0.05)
    assert workload["density"] == 1.0
    assert [row["repeat"] for row in summary["runs"]] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--policy", "orignal"), "did you mean 'original'"),
        (("--policy", "nope"), "known: 'original', 'modified'"),
        (("--days", "0.001"), "at least one metering interval, 10 minutes"),
        (("--days", "-1"), "days = -1.0 is not allowed"),
        (("--density", "50"), "cannot be reached"),
        (("--out", "FOLDER/file/below"), "file"),
        (("--json", "FOLDER"), "is a directory"),
        (("--json", "SCENARIO"), "is read; give another file to write to"),
        (("--json", "FOLDER/out/summary.json"), "is read; give another file to write to"),
        (
            ("--traces", "FOLDER/traces", "--json", "FOLDER/traces/traces.parquet"),
            "is in a directory that is read; give another file to write to",
        ),
    ],
)
def test_bad_input_gives_one_message(scenario: Path, tmp_path: Path, arguments: tuple[str, ...], words: str):
    (tmp_path / "file").write_text("")
    shutil.copytree(EXAMPLES / "small_traces", tmp_path / "traces")
    before = scenario.read_bytes(), (tmp_path / "traces" / "traces.parquet").read_bytes()
    arguments = tuple(word.replace("FOLDER", str(tmp_path)).replace("SCENARIO", str(scenario)) for word in arguments)
    run = plb("simulate", scenario, "--out", tmp_path / "out", *arguments)
    assert run.exit_code == BAD_INPUT
    assert words in run.stderr
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "out").exists()
    assert (scenario.read_bytes(), (tmp_path / "traces" / "traces.parquet").read_bytes()) == before


EXTENSION_POLICY = """
class {kind}:
    name = "{name}"

    def choose(self, configuration, row, nodes):
        return {answer}
"""


def test_placement_policies_run_in_every_process(tmp_path: Path):
    (tmp_path / "own.py").write_text(EXTENSION_POLICY.format(kind="Lowest", name="lowest", answer="nodes[0]"))
    own = '[policies.mine]\npolicy = "lowest"\nw_failovers = 0.0\nw_overload = 0.0\n'
    path = tmp_path / "own.toml"
    path.write_text('extensions = ["own.py:Lowest"]\n' + SMALL + own)
    options = [option for name in ("first_fit", "random", "mine") for option in ("--policy", name)]
    figures = tmp_path / "figures.json"
    run = plb("simulate", path, *options, "--jobs", "2", "--out", tmp_path / "out", "--json", figures)
    assert run.exit_code == 0, run.output
    loads = read_results(tmp_path / "out").table("node_load")
    found = {policy: loads.filter(policy=policy).drop("policy") for policy in ("first_fit", "random", "mine")}
    assert found["mine"].equals(found["first_fit"])
    assert not found["random"].equals(found["mine"])
    assert set(json.loads(figures.read_text())["policies"]) == set(found)


def test_an_invalid_answer_of_a_policy_ends_the_run(tmp_path: Path):
    (tmp_path / "stray.py").write_text(EXTENSION_POLICY.format(kind="Astray", name="astray", answer="-1"))
    path = tmp_path / "stray.toml"
    path.write_text('extensions = ["stray.py:Astray"]\n' + SMALL + '[policies.mine]\npolicy = "astray"\n')
    run = plb("simulate", path, "--policy", "mine", "--out", tmp_path / "out")
    assert run.exit_code == 2
    assert "policy astray: choose for row 0 = -1 is not allowed; expected None or one of the nodes" in run.stderr
    path.write_text('extensions = ["stray.py:Astray"]\n' + SMALL + '[policies.mine]\npolicy = "astry"\n')
    assert "unknown placement policy 'astry'; did you mean 'astray'" in plb("simulate", path).stderr


def test_interrupt_of_several_processes_keeps_the_runs_under_way(scenario: Path):
    """After Ctrl-C with --jobs 2, both current runs are kept up to that time, and no other run begins."""
    sent: list[bool] = []

    def interrupt(_policy: str, _repeat: int, _seconds: float) -> None:
        if not sent:  # a second Ctrl-C would end this process
            sent.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    experiment = prepare(override(read_scenario(scenario), days=60.0, repeats=3, traces=None))
    before = signal.getsignal(signal.SIGINT)
    runs = list(experiment.runs(jobs=2, progress=interrupt))
    assert signal.getsignal(signal.SIGINT) is before
    assert {(run.policy, run.repeat, run.complete) for run in runs} == {("original", 0, False), ("modified", 0, False)}
    assert all(0 < run.totals["simulated_seconds"] < 60 * 86400 for run in runs)


def test_blocked_interrupts_stay_blocked():
    with interrupts_blocked():
        with interrupts_blocked():
            pass
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_plots_after_an_interrupt_show_only_started_runs(scenario: Path, tmp_path: Path):
    """A repeat that never ran is not drawn as a repeat without violations."""
    assert plb("simulate", scenario, "--repeats", "2", "--out", tmp_path / "out", "--quiet").exit_code == 0
    whole = read_results(tmp_path / "out")
    kept = [run for run in whole.runs if (run.policy, run.repeat) != ("modified", 1)]
    short = {"modified": {"simulated_seconds": 4320.0}}  # half of the run
    cut = (attrs.evolve(run, totals={**run.totals, **short.get(run.policy, {})}) for run in kept)
    found = attrs.evolve(whole, runs=tuple(cut))
    assert (found.repeats("original"), found.repeats("modified"), found.shown_repeat) == ([0, 1], [0], 0)
    written = save_plots(found)
    assert [path.name for path in written] == ["violations.png", "load.png", "load_map.png"]


def test_converted_traces_run_with_the_scenario_of_their_source(tmp_path: Path):
    scenario = read_scenario(EXAMPLES / "bitbrains.toml")
    assert override(scenario, traces=tmp_path).workload.kind == "bitbrains"
    assert override(scenario, traces=EXAMPLES / "small_traces").workload.kind == "traces"


def test_force_keeps_other_files(scenario: Path, tmp_path: Path):
    (tmp_path / "out" / "runs").mkdir(parents=True)
    own = [tmp_path / "out" / "photo.png", tmp_path / "out" / "runs" / "notes.txt"]
    for path in own:
        path.write_text("mine")
    assert plb("simulate", str(scenario), "--out", str(tmp_path / "out"), "--force", "--quiet").exit_code == 0
    assert all(path.read_text() == "mine" for path in own)


@pytest.mark.usefixtures("drawn_figures")
def test_name_of_a_policy_is_no_formula_in_plots(tmp_path: Path):
    path = tmp_path / "dollar.toml"
    run = 'days = 0.05\npolicies = ["$^$"]\n[policies."$^$"]\nw_failovers = 0.2\n'
    path.write_text(f"[cluster]\nnodes = 4\n[run]\n{run}")
    run = plb("simulate", path, "--out", tmp_path / "out", "--quiet")
    assert run.exit_code == 0, run.output
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == {"violations.png", "load.png", "load_map.png"}
