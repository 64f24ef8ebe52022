"""Studies: keys of tasks, and the whole commands."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

import polars as pl
import pytest
from typer.testing import CliRunner

from cluster.cli.app import app
from cluster.errors import ScenarioError
from cluster.studies import annealing, compression, policies
from cluster.studies.annealing import AnnealingStudy
from cluster.studies.base import (
    MODIFIED,
    ORIGINAL,
    Base,
    base_of_regions,
    base_of_scenario,
    with_initial_demand,
    with_oracle,
)
from cluster.studies.compression import CompressionStudy
from cluster.studies.design import Design, StudySetting
from cluster.studies.request import (
    ANNEALING_MARKS,
    ANNEALING_PILOT,
    PILOT_SEED,
    PILOTS,
    DensityStudy,
    Pilot,
    StudyRequest,
)
from cluster.studies.runner import Finished, OutputDirectory, run_study, stamped_as
from plb import UnknownNameError
from tests.cluster.small_studies import ONE_SETTING, SMALL, study

CONSTRAINT = """
from plb.registry import register_constraint


class Nothing:
    name = "nothing"

    def refuses(self, configuration, proposal):
        return False

    def broken(self, configuration):
        return []


register_constraint(Nothing())
"""


def test_keys_of_tasks_contain_all_differences():
    """Two arms on the same tenants differ only in key and digest, and so do two seeds."""
    base = base_of_regions(["region1"])
    arms = (ORIGINAL, with_oracle(ORIGINAL), with_initial_demand(ORIGINAL, 90), MODIFIED)
    described = {"days": 1.0, "repeats": 2, "engine": {}}
    tasks = Design(base, [StudySetting("region1", 80.0, 2.0)], arms, seed=1, **described).tasks()
    again = Design(base, [StudySetting("region1", 80.0, 2.0)], arms, seed=1, **described).tasks()
    other = Design(base, [StudySetting("region1", 80.0, 2.0)], arms, seed=2, **described).tasks()
    assert [task.key for task in tasks] == [task.key for task in again]
    assert len({task.key for task in (*tasks, *other)}) == 16
    assert [task.arguments["arm"] for task in tasks[:4]] == ["original", "original+oracle", "original@p90", "modified"]
    assert all(json.loads(json.dumps(dict(task.arguments))) == task.arguments for task in tasks)


def test_finished_runs_of_a_region_are_reused_with_more_regions():
    """A study with an additional region runs only that region."""
    described = {"days": 1.0, "repeats": 1, "seed": 0, "engine": {}}
    alone, both = base_of_regions(["region1"]), base_of_regions(["region1", "region2"])
    first, *others = (
        Design(base, [StudySetting(name, 80.0, 2.0) for name in base.workloads], [ORIGINAL], **described).tasks()
        for base in (alone, both)
    )
    assert [task.key for task in first] == [task.key for task in others[0]][:1]
    samples = [[task.key for task in CompressionStudy(base, 200, 0).tasks()] for base in (alone, both)]
    assert samples[0] == samples[1][:1]


def test_pilot_interpolates_densities_at_the_marks():
    """In one workload, violations double from density to density. The other has none and is full at density 2."""
    densities = []

    def run_tasks(design):
        density = design.settings[0].density
        densities.append((density, [one.workload for one in design.settings]))
        assert design.seed == PILOT_SEED
        assert [arm.name for arm in design.arms] == ["original"]
        counts = {"grows": 2.0 ** (4 * density - 3), "full": 0.0}
        names = [one.workload for one in design.settings if one.workload == "grows" or density <= 2.0]
        return [{"workload": name, "density": density, "violations": counts[name]} for name in names]

    chosen = ANNEALING_PILOT.densities(Base(("grows", "full"), 2.0, {"workload": {}}), run_tasks)
    assert densities[0] == (0.75, ["grows", "full"])
    assert densities[-1] == (2.5, ["grows"])
    assert chosen["grows"] == pytest.approx([(math.log2(mark) + 3) / 4 for mark in ANNEALING_MARKS], abs=0.06)
    assert chosen["full"] == [2.0]


def test_pilot_of_a_sparse_cluster_chooses_distinct_densities():
    """The densities are rounded in proportion, so none is 0."""

    def run_tasks(design):
        setting = design.settings[0]
        return [{"workload": "thin", "density": setting.density, "violations": 1e4 * setting.density}]

    chosen = ANNEALING_PILOT.densities(Base(("thin",), 0.01, {"workload": {}}), run_tasks)
    assert chosen["thin"] == [0.0038, 0.005, 0.012]


def test_unknown_region_is_refused():
    """The message names the region."""
    with pytest.raises(UnknownNameError, match="region9"):
        base_of_regions(["region9"])


def test_a_study_uses_cluster_and_tenants_of_a_scenario(tmp_path):
    """Density, days, seed and policies are those of the study."""
    path = tmp_path / "small.toml"
    more = "[run]\nfill_hours = 3.0\nseed = 5\n[metrics.cpu]\nweight = 2.0\n"
    path.write_text(SMALL.replace("nodes = 8", "nodes = 8\nvcores = 48.0") + more)
    base = base_of_scenario(path)
    assert (base.workloads, base.density, base.vcores) == (("region1",), 1.5, 48.0)
    assert base.tables["run"] == {"fill_hours": 3.0}
    assert base.tables["workload"] == {"kind": "region", "history_tenants": 300}
    assert base.tables["cluster"] == {"nodes": 8, "upgrade_domains": 4, "fault_domains": 4, "vcores": 48.0}
    assert base.tables["metrics"] == {"cpu": {"weight": 2.0}}
    task = Design(
        base, [StudySetting("region1", 48.0, 1.5)], [ORIGINAL], days=1.0, repeats=1, seed=1, engine={}
    ).tasks()[0]
    assert task.arguments["scenario"]["cluster"]["vcores"] == 48.0


@pytest.mark.parametrize(
    ("section", "place"),
    [
        ("[workload]\noracle_hours = 24.0", "workload.oracle_hours"),
        ("[workload]\ninitial_demand_percentile = 90.0", "workload.initial_demand_percentile"),
        ("[workload]\ndensity_end = 3.0", "workload.density_end"),
        ('[engine]\npolicy = "random"', "engine.policy"),
    ],
)
def test_scenario_with_settings_of_a_study_is_refused(tmp_path, section, place):
    """Otherwise arms would not have the settings in their names."""
    path = tmp_path / "scenario.toml"
    path.write_text(section + "\n")
    with pytest.raises(ScenarioError, match=rf"{place}.*studies set this"):
        base_of_scenario(path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["annealing", "--density", "0"], "density = 0.0 is not allowed"),
        (["annealing", "--density", "nan"], "density = nan is not allowed"),
        (["annealing", "--density", "1e308"], "density = 1e+308 is not allowed"),
        (["annealing", "--days", "0"], "days = 0.0 is not allowed"),
        (["annealing", "--days", "0.005"], "days = 0.005 is not allowed; expected at least one metering interval"),
        (["policies", "--days", "1e6"], "run.days: run: days = 1000000.0 is not allowed"),
        (["configurations", "--days", "1e6"], "run.days: run: days = 1000000.0 is not allowed"),
        (["sensitivity", "--days", "0.005"], "days = 0.005 is not allowed; expected at least one metering interval"),
        (["overhead", "--days", "0.005"], "days = 0.005 is not allowed; expected at least one metering interval"),
        (["risk", "--days", "0.5"], "study: days = 0.5 is not allowed; expected a finite number >= 1"),
        (["risk", "--repeats", "1000000000"], "repeats = 1000000000 is not allowed"),
        (["compression", "--samples", "1000000000000"], "samples = 1000000000000 is not allowed"),
        (["annealing", "--region", "region9"], "unknown region 'region9'"),
        (["annealing", "--samples", "3"], "No such option"),
        (["compression", "--oracle"], "No such option"),
        (["policies", "--traces", "somewhere"], "requires --scenario"),
        (["annealing", "--scenario", "nowhere.toml"], "nowhere.toml"),
        (["annealing", "--scenario", "nowhere.toml", "--region", "region1"], "the scenario file has"),
        (["overhead", "--region", "region1", "--region", "region2"], "overhead measures one region"),
        (["densities", "--quick"], "No such option"),
        (["configurations", "--region", "region1"], "No such option"),
        (["sensitivity", "--density", "2"], "No such option"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(tmp_path, arguments, words):
    """The exit code is 2, with a message, and no file is written."""
    result = CliRunner().invoke(app, ["study", *arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert words in re.sub(r"[\s│]+", " ", result.stderr)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("more", [["--density", "1.5"], []])
def test_a_study_shorter_than_its_fill_is_refused(tmp_path, more):
    """The error precedes all runs, including the pilot of the densities."""
    (tmp_path / "slow.toml").write_text(SMALL + "[run]\nfill_hours = 36.0\n")
    command = ["study", "annealing", "--scenario", str(tmp_path / "slow.toml"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*command, "--days", "1", *more])
    assert result.exit_code == 2
    assert "fill_hours = 36.0 is not allowed; expected at most the 1 days" in re.sub(r"\s+", " ", result.stderr)
    assert not (tmp_path / "out").exists()


def test_directory_of_another_study_is_refused(tmp_path):
    """Otherwise the results of two studies would be mixed."""
    study(tmp_path / "out", "compression", "--samples", "1", "--jobs", "1")
    command = ["study", "annealing", "--scenario", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*command, "--quick", "--days", "0.05"])
    assert result.exit_code == 2
    assert "has the results of the study 'compression'" in result.stderr


def test_interrupted_run_is_not_kept(tmp_path):
    """Ctrl-C ends the study. A kept part of a run would count as a run with fewer violations."""
    (tmp_path / "small.toml").write_text(SMALL)
    # a shell starts background processes with Ctrl-C ignored
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start = [sys.executable, "-c", heard + "from cluster.cli.app import main; main()", "study", "annealing"]
    command = [*start, "--scenario", str(tmp_path / "small.toml")]
    more = ["--density", "1.5", "--days", "100", "--repeats", "1", "--jobs", "1", "--out", str(tmp_path / "out")]
    with subprocess.Popen([*command, *more], stderr=subprocess.PIPE, text=True) as process:
        journal = tmp_path / "out/journal.jsonl"
        while not journal.exists() and process.poll() is None:
            time.sleep(0.1)
        time.sleep(1.0)
        for _ in range(3):  # a library may ignore one interrupt during its import
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
                break
        assert process.wait(60) == 130
        assert "interrupted" in process.stderr.read()
    kept = [json.loads(line)["values"]["totals"] for line in journal.read_text().splitlines()]
    assert len(kept) < len(annealing.ARMS)
    assert all(totals["simulated_seconds"] == 100 * 86400 for totals in kept)


def test_policy_of_a_user_is_registered_in_every_process(tmp_path):
    """Runs include the imported files of the scenario."""
    (tmp_path / "mine.py").write_text(CONSTRAINT)
    path = tmp_path / "small.toml"
    text = 'imports = ["mine.py"]\n' + SMALL.replace("[engine]", '[engine]\nextension_constraints = ["nothing"]')
    path.write_text(text)
    command = ["study", "annealing", "--scenario", str(path), "--out", str(tmp_path / "out"), "--quick"]
    result = CliRunner().invoke(app, [*command, "--days", "0.05", "--jobs", "2"])
    assert result.exit_code == 0, result.output


def test_annealing_study_does_not_depend_on_processes_and_resumes(tmp_path):
    """Figures and runs are equal for any number of processes. A third repeat adds only its runs."""
    one = study(tmp_path / "one", "annealing", *ONE_SETTING, "--jobs", "1")
    two = study(tmp_path / "two", "annealing", *ONE_SETTING, "--jobs", "2")
    assert one == two
    assert (tmp_path / "one/runs.parquet").read_bytes() == (tmp_path / "two/runs.parquet").read_bytes()
    assert (tmp_path / "one/figure8.png").stat().st_size > 10_000
    assert one["study"] == "annealing"
    assert set(one["settings"][0]["violations"]) == {arm.name for arm in annealing.ARMS}
    assert set(one["ratios"]["original / modified"]) == {"mean", "low", "high", "settings", "without"}
    assert set(one["arms"]) == {arm.name for arm in annealing.ARMS}
    assert one["arms"]["modified"]["not_placed"] == 0.0
    before = (tmp_path / "one/journal.jsonl").read_text()
    study(tmp_path / "one", "annealing", *ONE_SETTING[:-1], "3", "--jobs", "1")
    after = (tmp_path / "one/journal.jsonl").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == 3 * len(annealing.ARMS)
    frame = pl.read_parquet(tmp_path / "one/runs.parquet")
    assert frame["repeat"].to_list()[:8] == [0] * 8
    assert "total" in pl.read_parquet(tmp_path / "one/timings.parquet").columns
    assert "total" not in frame.columns


def test_policies_study_compares_every_variant(tmp_path):
    """With an oracle, these are the 16 of the paper, two by peaks, and eight for each of four other initial demands."""
    figures = study(tmp_path / "all", "policies", *ONE_SETTING[:-1], "1", "--full", "--jobs", "1")
    names = set(figures["settings"][0]["violations"])
    assert names == {arm.name for arm in policies.arms(oracle=True, initial_demand=True)}
    assert len(names) == 16 + 2 + 4 * 8
    assert (tmp_path / "all/figure9.png").stat().st_size > 10_000


def test_failed_run_is_reported_with_its_parameters_and_the_others_finish(tmp_path):
    """A density beyond the cluster fails, and the runs of the other setting finish."""
    (tmp_path / "small.toml").write_text(SMALL)
    command = ["study", "annealing", "--scenario", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out")]
    more = ["--density", "1.5", "--density", "500", "--days", "0.05", "--repeats", "1", "--jobs", "1"]
    result = CliRunner().invoke(app, [*command, *more])
    assert result.exit_code == 1
    assert "8 runs failed. The first: region1, 80 vCores, density 500, original, repeat 0" in result.stderr
    failures = json.loads((tmp_path / "out/failures.json").read_text())["failures"]
    assert {one["arguments"]["density"] for one in failures} == {500.0}
    assert "DensityError" in failures[0]["error"]
    assert pl.read_parquet(tmp_path / "out/runs.parquet")["density"].unique().to_list() == [1.5]


def test_figures_have_the_seed_of_the_study(tmp_path):
    """Without a record of the study, that of its pilot counts. Unreadable records are ignored."""
    for place, content in {".": '{"seed": 7}', "pilot": '{"seed": 1000003}', "other": "[" * 100_000}.items():
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / "study.json").write_text(content)
    assert stamped_as({}, tmp_path)["stamp"]["seed"] == 7
    (tmp_path / "study.json").unlink()
    assert stamped_as({}, tmp_path)["stamp"]["seed"] == 1000003


def test_arms_without_a_common_repeat_are_not_compared():
    """Different arms failed in different settings. There is no table and no plot, but there are figures."""
    settings = [StudySetting("region1", 80.0, density) for density in (1.0, 2.0)]
    design = Design(
        base_of_regions(["region1"]), settings, (ORIGINAL, MODIFIED), days=1.0, repeats=1, seed=0, engine={}
    )
    finished = {("original", 1.0), ("modified", 2.0)}
    found = [
        {**task.arguments, "violations": 3.0}
        for task in design.tasks()
        if (task.arguments["arm"], task.arguments["density"]) in finished
    ]
    found = AnnealingStudy(design).result(Finished(found))
    assert found.tables == ()
    assert found.figures == {"study": "annealing", "settings": [], "ratios": {}, "arms": {}, "counts": {}}
    assert found.plots == {"figure8.png": None}


def test_densities_are_those_of_all_pilots(tmp_path, monkeypatch):
    """The study has the keys of every study, and its only runs are those of the pilots."""
    monkeypatch.setattr(Pilot, "run_in", lambda *_: {"region1": [1.0]})
    output = OutputDirectory(tmp_path)
    request = StudyRequest(base=base_of_regions(["region1"]), output=output)
    figures = run_study(DensityStudy.of(request), output).figures
    assert (figures["study"], figures["settings"], figures["ratios"]) == ("densities", [], {})
    assert set(figures["densities"]) == {pilot.name for pilot in PILOTS}
    assert json.loads((tmp_path / "study.json").read_text())["complete"] is True


def test_a_plot_without_data_is_removed(tmp_path):
    """An older plot would not match the present runs."""
    (tmp_path / "figure7.png").write_text("older")
    (tmp_path / "journal.jsonl").write_text("")
    assert not run_study(CompressionStudy(Base((), 2.0, {}), 1, 0), OutputDirectory(tmp_path)).tables
    assert not (tmp_path / "figure7.png").exists()


def test_compression_study_agrees_with_an_undivided_experiment(tmp_path):
    """The probabilities equal those of all samples together, regardless of the division into parts."""
    figures = study(tmp_path / "c", "compression", "--samples", "3", "--jobs", "1")
    assert [one["tenants"] for one in figures["settings"]] == list(compression.TENANTS)
    assert (tmp_path / "c/figure7.png").stat().st_size > 5_000
    rows = pl.read_parquet(tmp_path / "c/runs.parquet").to_dicts()
    hits = json.loads(rows[0]["hits"])
    assert [one["violations"]["compressed"] for one in figures["settings"]] == [
        hits[str(tenants)][1] / 3 for tenants in compression.TENANTS
    ]
    assert [one["full"] for one in figures["settings"]] == [
        hits[str(tenants)][0] / 3 for tenants in compression.TENANTS
    ]


@pytest.mark.parametrize("options", [(), ("--restart",)])
def test_runs_of_other_code_are_made_again(tmp_path, change_code, options):
    """A message says how many of the requested runs there are."""
    (tmp_path / "small.toml").write_text(SMALL)
    command = ["study", "annealing", "--scenario", tmp_path / "small.toml", "--out", tmp_path / "out", "--jobs", "1"]
    command += ["--density", "1.5", "--days", "0.05", "--repeats", "2", "--json", tmp_path / "f.json"]
    arms = len(annealing.ARMS)

    def run(*options):
        done = CliRunner().invoke(app, [*map(str, command), *options])
        assert done.exit_code == 0, done.output
        lines = (tmp_path / "out/journal.jsonl").read_text().splitlines()
        stamp = json.loads((tmp_path / "f.json").read_text())["stamp"]
        return done.stderr, len(lines), json.loads((tmp_path / "out/study.json").read_text()), stamp

    said, lines, before, _ = run()
    assert ("of other code" in said, lines) == (False, 2 * arms)
    change_code("CHANGED = True")
    said, lines, now, stamp = run(*options, "--repeats", "3")
    assert now["versions"]["code"] == stamp["versions"]["code"] != before["versions"]["code"]
    assert lines == (3 if options else 5) * arms
    assert ("16 finished runs of other code do not count" in said) is (options == ())
    if not options:
        change_code("CHANGED = False")
        said, _, _, _ = run("--repeats", "1")
        assert "8 finished runs of other code do not count" in said  # those of other repeats are not needed
