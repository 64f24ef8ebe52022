"""`plb simulate`: output, results and error messages."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import polars as pl
import pytest

from cluster.console import BAD_INPUT
from cluster.plots.base import plot_violations
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
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a small scenario."""
    path = tmp_path_factory.mktemp("scenario") / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="module")
def results(scenario: Path) -> Path:
    """Return the results directory of that scenario."""
    out = scenario.parent / "results"
    run = plb("simulate", scenario, "--out", out, "--json", scenario.parent / "figures.json")
    assert run.exit_code == 0, run.output
    return out


def test_faults_and_upgrades_have_a_summary_table(scenario: Path, tmp_path: Path):
    """The table shows availability and moves by cause for each policy. Without faults, there is no such table."""
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
    assert "availability of tenants" not in plb("simulate", scenario, "--out", tmp_path / "calm").stdout


def test_names_in_faults_are_checked_before_anything_runs(tmp_path: Path):
    """An unknown node or domain is an error with the nearest name, and leaves no results."""
    failing = tmp_path / "failing.toml"
    failing.write_text(SMALL + '[faults]\ncrashes = [{ node = "n33", at_hours = 1.0, hours = 0.5 }]\n')
    run = plb("simulate", failing, "--out", tmp_path / "out")
    assert run.exit_code != 0
    assert "n3" in run.output
    assert not (tmp_path / "out" / "summary.json").exists()


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files except timings and plots."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".png"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if path.name != "timings.json"}


def test_closing_table_and_files(scenario: Path, tmp_path: Path):
    """A run prints a table of the policies and writes tables, summary, timings and plots."""
    run = plb("simulate", scenario, "--out", tmp_path / "out")
    assert run.exit_code == 0
    for words in ("original", "modified", "violations", "ratio", "10 nodes, density 1.5, 0.1 days"):
        assert words in run.stdout
    names = {path.name for path in (tmp_path / "out").iterdir()}
    plots = {"violations.png", "load.png", "load_map.png"}
    assert names == {"summary.json", "timings.json", "columns.json", "runs"} | plots


def test_json_keys(results: Path):
    """The keys of the figures are stable."""
    figures = json.loads((results.parent / "figures.json").read_text())
    keys = {"violations", "failovers", "moves", "placement_failures", "downtime_seconds", "wall_seconds"}
    keys |= {"violations_avoidable", "violations_unavoidable", "shortages_unresolved"}
    assert list(figures) == ["policies", "stamp"]
    assert {name: set(values) for name, values in figures["policies"].items()} == {"original": keys, "modified": keys}


def test_summary_is_stamped(results: Path):
    """The summary contains seed, hash, versions and split, is marked as complete, and has no timings."""
    summary = json.loads((results / "summary.json").read_text())
    assert summary["complete"] is True
    assert summary["seed"] == 3
    assert len(summary["scenario_sha256"]) == 64
    assert {"plb", "numba", "python"} <= set(summary["versions"])
    assert summary["split"]["first_tenant"] >= summary["split"]["history_tenants"] == 300
    assert [(run["policy"], run["repeat"]) for run in summary["runs"]] == [("modified", 0), ("original", 0)]
    assert "seconds" not in summary["runs"][0]
    assert len(json.loads((results / "timings.json").read_text())["runs"]) == 2


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_documented(results: Path, table: str):
    """Every table has exactly the documented columns and types, and the file contains their descriptions."""
    frame = read_results(results).table(table)
    assert dict(frame.schema) == {name: column.dtype() for name, column in columns_of(table).items()}
    metadata = pl.read_parquet_metadata(results / "runs" / "original-0" / f"{table}.parquet")
    assert metadata["column.policy"] == "policy of the run"
    guide = json.loads((results / "columns.json").read_text())
    assert set(guide[table]) == set(frame.columns)


@pytest.mark.slow
def test_same_seed_same_bytes(scenario: Path, results: Path, tmp_path: Path):
    """A second run of the scenario writes the same bytes, with one process or two."""
    for jobs in (1, 2):
        out = tmp_path / f"jobs{jobs}"
        run = plb("simulate", scenario, "--out", out, "--jobs", jobs, "--quiet")
        assert run.exit_code == 0, run.output
        assert run.stdout == ""
        assert contents(out) == contents(results)


EXTENSIONS = """
from plb.registry import register_constraint, register_term


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


register_term(Heat())
register_constraint(NotOnTheFirst())
"""


@pytest.mark.slow
def test_imports_of_a_scenario_work_in_every_process(tmp_path: Path):
    """An imported file with a term and a constraint gives the same bytes with one process or two."""
    (tmp_path / "own.py").write_text(EXTENSIONS)
    own = '[policies.own]\nextension_terms = { heat = 1e-6 }\nextension_constraints = ["not_on_the_first"]\n'
    policies = 'policies = ["original", "own"]\n'
    path = tmp_path / "own.toml"
    path.write_text('imports = ["own.py"]\n' + SMALL.replace("days = 0.1\n", "days = 0.05\n" + policies) + own)
    for jobs in (1, 2):
        run = subprocess_plb("simulate", path, "--out", tmp_path / f"jobs{jobs}", "--jobs", jobs, "--quiet")
        assert run.returncode == 0, run.stderr
    assert contents(tmp_path / "jobs1") == contents(tmp_path / "jobs2")
    load = (
        read_results(tmp_path / "jobs2")
        .table("node_load")
        .filter(node="n0")
        .group_by("policy")
        .agg(pl.col("load").sum())
    )
    by_policy = dict(load.rows())
    assert by_policy["own"] == 0 < by_policy["original"]


def subprocess_plb(*arguments: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line in a new process, in which no extension is registered."""
    command = [sys.executable, "-c", "from cluster.cli.app import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_results_are_not_overwritten(scenario: Path, results: Path):
    """Results are overwritten only with --force. The error states this, and nothing changes."""
    before = contents(results)
    run = plb("simulate", scenario, "--out", results, "--seed", 4)
    assert run.exit_code == 2
    assert "--force" in run.stderr
    assert contents(results) == before


def test_options_override_the_scenario(scenario: Path, tmp_path: Path):
    """Policy, seed, repeats, density and days of the command line override those of the file."""
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
    ],
)
def test_bad_input_gives_one_message(scenario: Path, tmp_path: Path, arguments: tuple[str, ...], words: str):
    """The exit code is 2, the message is on standard error without a traceback, and no results directory is created."""
    run = plb("simulate", scenario, "--out", tmp_path / "out", *arguments)
    assert run.exit_code == 2
    assert words in run.stderr
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "out").exists()


def test_unknown_scenario_key(tmp_path: Path):
    """The message contains the nearest valid key."""
    path = tmp_path / "bad.toml"
    path.write_text("[cluster]\nnodse = 3\n")
    run = plb("simulate", path)
    assert run.exit_code == 2
    assert "line 2, cluster.nodse: unknown key 'nodse'; did you mean 'nodes'?" in run.stderr


EXTENSION_POLICY = """
from plb.registry import register_policy


class {kind}:
    name = "{name}"

    def choose(self, configuration, row, nodes):
        return {answer}


register_policy({kind}())
"""


def test_placement_policies_run_in_every_process(tmp_path: Path):
    """Built-in policies are given by name, others by an imported file."""
    (tmp_path / "own.py").write_text(EXTENSION_POLICY.format(kind="Lowest", name="lowest", answer="nodes[0]"))
    own = '[policies.mine]\npolicy = "lowest"\nw_failovers = 0.0\nw_overload = 0.0\n'
    path = tmp_path / "own.toml"
    path.write_text('imports = ["own.py"]\n' + SMALL + own)
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
    """The message names policy, replica and nodes."""
    (tmp_path / "stray.py").write_text(EXTENSION_POLICY.format(kind="Astray", name="astray", answer="-1"))
    path = tmp_path / "stray.toml"
    path.write_text('imports = ["stray.py"]\n' + SMALL + '[policies.mine]\npolicy = "astray"\n')
    run = plb("simulate", path, "--policy", "mine", "--out", tmp_path / "out")
    assert run.exit_code == 2
    assert "policy astray: choose for row 0 = -1 is not allowed; expected None or one of the nodes" in run.stderr
    path.write_text('imports = ["stray.py"]\n' + SMALL + '[policies.mine]\npolicy = "astry"\n')
    assert "unknown placement policy 'astry'; did you mean 'astray'" in plb("simulate", path).stderr


def test_interrupted_run_leaves_readable_results(scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """After Ctrl-C, the directory contains the simulated part and is marked as incomplete. The exit code is 130."""
    from cluster.simulation.simulation import Simulation

    meter = Simulation._meter

    def interrupt(simulation: Simulation) -> None:
        if simulation.env.now >= 3600:
            raise KeyboardInterrupt
        meter(simulation)

    monkeypatch.setattr(Simulation, "_meter", interrupt)
    run = plb("simulate", scenario, "--out", tmp_path / "out")
    assert run.exit_code == 130
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["complete"] is False
    assert [row["complete"] for row in summary["runs"]] == [False]
    assert read_results(tmp_path / "out").table("node_load")["time_s"].max() == 3000


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
    """A block within a block restores the outer one at its end."""
    with interrupts_blocked():
        with interrupts_blocked():
            pass
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_plots_after_an_interrupt_show_only_started_runs(scenario: Path, tmp_path: Path):
    """A repeat that never ran is not drawn as a repeat without violations."""
    from matplotlib.figure import Figure

    shortages = pl.DataFrame(
        {"policy": ["a"], "repeat": [1], "time_s": [0.0], "node": ["n0"], "outcome": ["violation"], "avoidable": [True]}
    )
    ax = Figure().subplots()
    plot_violations(ax, shortages, ["a"], {"a": {1: 1.0}}, 1.0)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a (1)"]
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
    """--traces accepts a folder in the format of this project regardless of the format in the scenario."""
    scenario = read_scenario(EXAMPLES / "bitbrains.toml")
    assert override(scenario, traces=tmp_path).workload.kind == "bitbrains"
    assert override(scenario, traces=EXAMPLES / "small_traces").workload.kind == "traces"


def test_force_keeps_other_files(scenario: Path, tmp_path: Path):
    """--force removes the results of an earlier run, not the files of the user."""
    (tmp_path / "out" / "runs").mkdir(parents=True)
    own = [tmp_path / "out" / "photo.png", tmp_path / "out" / "runs" / "notes.txt"]
    for path in own:
        path.write_text("mine")
    assert plb("simulate", str(scenario), "--out", str(tmp_path / "out"), "--force", "--quiet").exit_code == 0
    assert all(path.read_text() == "mine" for path in own)


def test_files_that_cannot_be_written(scenario: Path, tmp_path: Path):
    """A file in place of a directory, or the reverse, is refused by name before anything runs."""
    (tmp_path / "file").write_text("")
    for arguments in (("--out", "file"), ("--out", "file/below"), ("--out", "new", "--json", ".")):
        paths = [word if word.startswith("--") else str(tmp_path / word) for word in arguments]
        run = plb("simulate", str(scenario), *paths, "--quiet")
        assert run.exit_code == 2, run.output
        assert str(tmp_path) in run.output
    assert not (tmp_path / "new").exists()


def test_figures_do_not_overwrite_input_files(scenario: Path, tmp_path: Path):
    """Input files are the scenario and the files of the results."""
    for place in (scenario, tmp_path / "out" / "summary.json"):
        run = plb("simulate", scenario, "--out", tmp_path / "out", "--json", place, "--quiet")
        assert run.exit_code == BAD_INPUT
        assert "is read; give another file to write to" in run.output
    assert scenario.read_text() == SMALL
    assert not (tmp_path / "out").exists()


def test_figures_do_not_overwrite_traces(tmp_path: Path):
    """The traces are those of the scenario or those of the command line."""
    traces = Path(shutil.copytree(EXAMPLES / "small_traces", tmp_path / "traces"))
    before = (traces / "traces.parquet").read_bytes()
    own = EXAMPLES / "own_traces.toml"
    arguments = ("--traces", traces, "--out", tmp_path / "out", "--json", traces / "traces.parquet")
    run = plb("simulate", own, *arguments, "--quiet")
    assert run.exit_code == BAD_INPUT
    assert "is in a directory that is read; give another file to write to" in run.output
    assert (traces / "traces.parquet").read_bytes() == before
    assert not (tmp_path / "out").exists()


def test_name_of_a_policy_is_no_formula_in_plots(tmp_path: Path):
    """A name with dollar signs, which no formula has between them, is drawn letter by letter."""
    path = tmp_path / "dollar.toml"
    path.write_text(
        '[cluster]\nnodes = 4\n[run]\ndays = 0.05\npolicies = ["$^$"]\n[policies."$^$"]\nw_failovers = 0.2\n'
    )
    run = plb("simulate", path, "--out", tmp_path / "out", "--quiet")
    assert run.exit_code == 0, run.output
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == {"violations.png", "load.png", "load_map.png"}
