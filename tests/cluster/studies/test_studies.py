"""Studies: keys of tasks, and the whole commands."""

from __future__ import annotations

import json
import math
import re

import attrs
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.errors import ScenarioError
from cluster.results.intervals import Interval
from cluster.studies import annealing, compression, policies
from cluster.studies.annealing import AnnealingStudy
from cluster.studies.base import (
    MODIFIED,
    ORIGINAL,
    WITHOUT_PROBABILITIES,
    Base,
    base_of_regions,
    base_of_scenario,
    with_initial_demand,
    with_oracle,
)
from cluster.studies.compression import CompressionStudy
from cluster.studies.design import StudySetting
from cluster.studies.request import (
    ANNEALING_MARKS,
    ANNEALING_PILOT,
    PILOT_DENSITIES,
    PILOT_SEED,
    PILOTS,
    DensityStudy,
    Pilot,
    StudyRequest,
)
from cluster.studies.runner import Finished, OutputDirectory, run_study, stamped_as
from cluster.studies.violations import AVOIDABLE, Violations, violations_of
from plb import PlbError
from tests.cluster.small_studies import ONE_SETTING, SMALL, THIN, design_of, small_study, study
from tests.command_line import plb

CONSTRAINT = """
class Nothing:
    name = "nothing"

    def refuses(self, configuration, proposal):
        return False

    def broken(self, configuration):
        return []
"""


def test_keys_of_tasks_contain_all_differences():
    arms = (ORIGINAL, with_oracle(ORIGINAL), with_initial_demand(ORIGINAL, 90), MODIFIED)
    tasks, again, other = (design_of(arms=arms, repeats=2, seed=seed).tasks() for seed in (1, 1, 2))
    assert [task.key for task in tasks] == [task.key for task in again]
    assert len({task.key for task in (*tasks, *other)}) == 16
    assert [task.arguments["arm"] for task in tasks[:4]] == ["original", "original+oracle", "original@p90", "modified"]
    assert all(json.loads(json.dumps(dict(task.arguments))) == task.arguments for task in tasks)


def test_finished_runs_of_a_region_are_reused_with_more_regions():
    alone, both = base_of_regions(["region1"]), base_of_regions(["region1", "region2"])
    runs = [[task.key for task in design_of(base, [ORIGINAL]).tasks()] for base in (alone, both)]
    assert runs[0] == runs[1][:1]
    samples = [[task.key for task in CompressionStudy(base, 200, 0).tasks()] for base in (alone, both)]
    assert samples[0] == samples[1][:1]


def test_pilot_interpolates_densities_at_the_marks():
    """In one workload, violations double from density to density. The other has none and is full above density 1.75."""
    densities = []

    def run_tasks(_step, design):
        tried = {setting.workload: setting.density for setting in design.settings}
        densities.append(tried)
        assert design.seed == PILOT_SEED
        assert [arm.name for arm in design.arms] == ["original"]
        fits = {name: density for name, density in tried.items() if name == "grows" or density <= 1.75}
        counts = {"grows": lambda density: 2.0 ** (4 * density - 3), "full": lambda _density: 0.0}
        return [
            {"workload": name, "density": density, AVOIDABLE: counts[name](density)} for name, density in fits.items()
        ]

    chosen = ANNEALING_PILOT.densities(Base(("grows", "full"), 2.0, {"workload": {}}), run_tasks)
    assert densities == [
        {"grows": 2.0, "full": 2.0},
        {"grows": 1.75, "full": 1.75},
        {"grows": 2.25},
    ]
    assert chosen["grows"] == pytest.approx([(math.log2(mark) + 3) / 4 for mark in ANNEALING_MARKS], abs=0.06)
    assert chosen["full"] == [1.75]


@given(st.floats(-6.0, 8.0), st.floats(0.5, 6.0), st.lists(st.floats(1.0, 200.0), min_size=1, max_size=3, unique=True))
def test_pilot_finds_what_a_scan_of_all_densities_finds(start, slope, marks):
    """A pilot that tries the neighbours of the usual density needs no other densities."""

    def violations(density):
        return 2.0 ** (start + slope * density)

    def run_tasks(_step, design):
        return [{"workload": one.workload, AVOIDABLE: violations(one.density)} for one in design.settings]

    pilot = attrs.evolve(ANNEALING_PILOT, marks=sorted(marks))
    expected = np.interp(pilot.marks, [violations(density) for density in PILOT_DENSITIES], PILOT_DENSITIES)
    chosen = pilot.densities(Base(("region",), 2.0, {"workload": {}}), run_tasks)["region"]
    assert chosen == list(dict.fromkeys(round(density, 2) for density in expected.tolist()))


def test_pilot_of_a_cluster_that_holds_no_density_is_refused():
    with pytest.raises(PlbError, match=r"densities of full: the cluster cannot hold even the lowest, 0\.75"):
        ANNEALING_PILOT.densities(Base(("full",), 2.0, {"workload": {}}), lambda _step, _design: [])


def test_pilot_of_a_sparse_cluster_chooses_distinct_densities():
    def run_tasks(_step, design):
        setting = design.settings[0]
        return [{"workload": "thin", "density": setting.density, AVOIDABLE: 1e4 * setting.density}]

    chosen = ANNEALING_PILOT.densities(Base(("thin",), 0.01, {"workload": {}}), run_tasks)
    assert chosen["thin"] == [0.0038, 0.005]


def test_a_study_uses_cluster_and_tenants_of_a_scenario(tmp_path):
    path = tmp_path / "small.toml"
    more = "[run]\nfill_hours = 3.0\nseed = 5\n[metrics.cpu]\nweight = 2.0\n"
    path.write_text(SMALL.replace("nodes = 8", "nodes = 8\nvcores = 48.0") + more)
    base = base_of_scenario(path)
    assert (base.workloads, base.density, base.vcores) == (("region1",), 1.5, 48.0)
    assert base.tables["run"] == {"fill_hours": 3.0}
    assert base.tables["workload"] == {"kind": "region", "history_tenants": 300}
    assert base.tables["cluster"] == {"nodes": 8, "upgrade_domains": 4, "fault_domains": 4, "vcores": 48.0}
    assert base.tables["metrics"] == {"cpu": {"weight": 2.0}}
    task = design_of(base, [ORIGINAL], 1.5).tasks()[0]
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
        (["configurations", "--oracle"], "No such option"),
        (["sensitivity", "--density", "2"], "No such option"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(tmp_path, arguments, words):
    result = plb("study", *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert words in re.sub(r"[\s│]+", " ", result.stderr)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("more", [["--density", "1.5"], []])
def test_a_study_shorter_than_its_fill_is_refused(tmp_path, more):
    """The error precedes all runs, including the pilot of the densities."""
    fill = "[run]\nfill_hours = 36.0\n"
    result = small_study(tmp_path / "out", "annealing", "--days", 1, *more, more=fill)
    assert result.exit_code == 2
    assert "fill_hours = 36.0 is not allowed; expected at most the 1 days" in re.sub(r"\s+", " ", result.stderr)
    assert not (tmp_path / "out").exists()


def test_directory_of_another_study_is_refused(tmp_path):
    study(tmp_path / "out", "compression", "--samples", "1", "--jobs", "1")
    result = small_study(tmp_path / "out", "annealing", "--quick", "--days", 0.05)
    assert result.exit_code == 2
    assert "has the results of the study 'compression'" in result.stderr


def test_extensions_are_in_every_process(tmp_path):
    (tmp_path / "mine.py").write_text(CONSTRAINT)
    path = tmp_path / "small.toml"
    text = 'extensions = ["mine.py:Nothing"]\n' + SMALL.replace(
        "[engine]", '[engine]\nextension_constraints = ["nothing"]'
    )
    path.write_text(text)
    chosen = ("--quick", "--days", 0.05, "--jobs", 2)
    result = plb("study", "annealing", "--scenario", path, "--out", tmp_path / "out", *chosen)
    assert result.exit_code == 0, result.output


@pytest.mark.usefixtures("drawn_figures")
def test_annealing_study_does_not_depend_on_processes_and_resumes(tmp_path):
    once = (*ONE_SETTING[:-1], "1")
    one = study(tmp_path / "one", "annealing", *once, "--jobs", "1")
    two = study(tmp_path / "two", "annealing", *once, "--jobs", "2")
    assert one == two
    assert (tmp_path / "one/runs.parquet").read_bytes() == (tmp_path / "two/runs.parquet").read_bytes()
    assert (tmp_path / "one/figure8.png").stat().st_size > 10_000
    assert one["study"] == "annealing"
    assert set(one["settings"][0]["violations"]) == set(one["arms"]) == {arm.name for arm in annealing.ARMS}
    assert set(one["ratios"]["original / modified"]) == {"mean", "low", "high", "settings", "without"}
    assert one["arms"]["modified"]["not_placed"] == 0.0
    before = (tmp_path / "one/journal.jsonl").read_text()
    study(tmp_path / "one", "annealing", *ONE_SETTING, "--jobs", "1")
    after = (tmp_path / "one/journal.jsonl").read_text()
    assert after.startswith(before)
    assert len(after.splitlines()) == 2 * len(annealing.ARMS)
    frame = pl.read_parquet(tmp_path / "one/runs.parquet")
    assert frame["repeat"].to_list() == [0] * len(annealing.ARMS) + [1] * len(annealing.ARMS)
    assert "total" in pl.read_parquet(tmp_path / "one/timings.parquet").columns
    assert "total" not in frame.columns


@pytest.mark.parametrize("options", [{}, {"oracle": True}, {"initial_demand": True}])
def test_slow_policies_need_the_full_study(options):
    policies_by_arm = {arm.name: arm.policy for arm in policies.arms(**options)}
    assert not {*policies_by_arm.values()} & {*policies.SLOW}
    count = len(WITHOUT_PROBABILITIES) - len(policies.SLOW)
    expected = count + 2 + count * options.get("oracle", 0) + 4 * (count + 1) * options.get("initial_demand", 0)
    assert len(policies_by_arm) == expected


def test_claims_by_rank_of_density_compare_the_lowest_and_the_highest_densities():
    """Policies with probabilities have half the violations at the lower densities, and as many at the higher ones."""
    settings = tuple(StudySetting(name, 80.0, density) for name in ("region1", "region2") for density in (2.0, 1.0))
    usual = np.full((4, 3), 8.0)
    counts = {arm.name: usual * (0.5 if "prv" in arm.name else 1.0) for arm in policies.arms()}
    for arm in policies.AT_DEPARTURES:
        counts[arm.name][[0, 2]] = 8.0
    claims = {
        claim.label: claim.ours
        for claim in policies.PlacementPolicyStudy(design_of()).claims(Violations(settings, counts))
    }
    ratio = f"best without probabilities / {policies.WORST_FIT}"
    assert claims[f"80 vCores, density 1 of 2: {ratio}"].mean == 2.0
    assert claims[f"80 vCores, density 2 of 2: {ratio}"].mean == 1.0
    assert claims[f"80 vCores: {ratio}"].mean == 1.5
    assert str(claims[f"80 vCores: {policies.WORST_FIT} against inner_product, pairs"]).startswith("6 fewer")


@pytest.mark.usefixtures("drawn_figures")
def test_policies_study_compares_every_variant(tmp_path):
    """With an oracle, these are the 16 of the paper, two by peaks, and eight for each of four other initial demands."""
    figures = study(tmp_path / "all", "policies", *THIN, "--repeats", "1", "--full", "--jobs", "1")
    names = set(figures["settings"][0]["violations"])
    assert names == {arm.name for arm in policies.arms(full=True)}
    assert len(names) == 16 + 2 + 4 * 8
    assert (tmp_path / "all/figure9.png").stat().st_size > 10_000


def test_failed_run_is_reported_with_its_parameters_and_the_others_finish(tmp_path):
    chosen = ("--density", 1.5, "--density", 500, "--days", 0.05, "--repeats", 1, "--jobs", 1)
    result = small_study(tmp_path / "out", "annealing", *chosen)
    assert result.exit_code == 1
    first = "The first: region1, 80 vCores, density 500, original, repeat 0"
    assert f"{len(annealing.ARMS)} runs failed. {first}" in result.stderr
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
    settings = [StudySetting("region1", 80.0, density) for density in (1.0, 2.0)]
    design = attrs.evolve(design_of(), settings=settings)
    finished = {("original", 1.0), ("modified", 2.0)}
    runs = [{**task.arguments, "violations": 3.0} for task in design.tasks()]
    found = AnnealingStudy(design).result(Finished([run for run in runs if (run["arm"], run["density"]) in finished]))
    assert found.tables == ()
    keys = ("ratios", "arms", "counts", "ratios_avoidable", "counts_avoidable", "paper")
    empty = {key: {} for key in keys}
    assert found.figures == {"study": "annealing", "settings": [], **empty}
    assert found.plots == {"figure8.png": None}


def test_densities_are_those_of_all_pilots(tmp_path, monkeypatch):
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


@pytest.mark.usefixtures("drawn_figures")
def test_compression_study_agrees_with_an_undivided_experiment(tmp_path):
    figures = study(tmp_path / "c", "compression", "--samples", "3", "--jobs", "1")
    assert [one["tenants"] for one in figures["settings"]] == list(compression.TENANTS)
    assert (tmp_path / "c/figure7.png").stat().st_size > 5_000
    rows = pl.read_parquet(tmp_path / "c/runs.parquet").to_dicts()
    hits = json.loads(rows[0]["hits"])
    for setting in figures["settings"]:
        of_setting = (setting["full"], setting["violations"]["compressed"])
        assert of_setting == tuple(count / 3 for count in hits[str(setting["tenants"])])


@pytest.mark.parametrize("options", [(), ("--restart",)])
def test_runs_of_other_code_are_made_again(tmp_path, change_code, options):
    arms = len(annealing.ARMS)

    def run(*options):
        figures = ("--json", tmp_path / "f.json")
        done = small_study(tmp_path / "out", "annealing", *THIN, "--jobs", 1, *figures, *options)
        assert done.exit_code == 0, done.output
        lines = (tmp_path / "out/journal.jsonl").read_text().splitlines()
        stamp = json.loads((tmp_path / "f.json").read_text())["stamp"]
        return done.stderr, len(lines), json.loads((tmp_path / "out/study.json").read_text()), stamp

    said, lines, before, _ = run("--repeats", "1")
    assert ("of other code" in said, lines) == (False, arms)
    change_code("CHANGED = True")
    said, lines, now, stamp = run(*options, "--repeats", "2")
    assert now["versions"]["code"] == stamp["versions"]["code"] != before["versions"]["code"]
    assert lines == (2 if options else 3) * arms
    assert (f"{arms} finished runs of other code do not count" in said) is (options == ())
    if not options:
        change_code("CHANGED = False")
        said, _, _, _ = run("--repeats", "1")
        assert f"{arms} finished runs of other code do not count" in said  # those of other repeats are not needed


def rows(counts):
    """Return runs with these violations by density and arm."""
    return [
        {"workload": "w", "vcores": 80.0, "density": density, "arm": arm, "repeat": repeat, "violations": count}
        for density, of_arms in counts.items()
        for arm, of_repeats in of_arms.items()
        for repeat, count in enumerate(of_repeats)
        if count is not None
    ]


def found_of(counts):
    """Return the violations of runs, given by density and arm."""
    return violations_of([StudySetting("w", 80.0, density) for density in counts], rows(counts))


@settings(max_examples=30)
@given(st.lists(st.tuples(*[st.tuples(*[st.integers(0, 20)] * 2)] * 3), min_size=1, max_size=4))
def test_ratio_is_the_mean_of_the_ratios_of_means(table):
    """Settings in which the second arm has no violations are omitted and counted."""
    counts = {float(index): dict(zip("abc", of_arms, strict=True)) for index, of_arms in enumerate(table)}
    ratio = found_of(counts).ratio(["a", "b"], "c")
    expected = [
        min(sum(of_arms["a"]), sum(of_arms["b"])) / sum(of_arms["c"])
        for of_arms in counts.values()
        if sum(of_arms["c"])
    ]
    assert (ratio.settings, ratio.without) == (len(expected), len(counts) - len(expected))
    if expected:
        assert math.isclose(ratio.mean, float(np.mean(expected)))
        assert (ratio.low is None) == (ratio.high is None)
        assert ratio.low is None or ratio.low <= ratio.mean * (1 + 1e-9) <= ratio.high * (1 + 2e-9)
    else:
        assert ratio.mean is None


def test_interval_has_no_width_where_repeats_agree_and_is_missing_for_one_repeat():
    """The interval describes only the variation between repeats."""
    alike = found_of({1.0: {"a": [6, 6, 6], "b": [2, 2, 2]}, 2.0: {"a": [4, 4, 4], "b": [4, 4, 4]}}).ratio(["a"], "b")
    assert (alike.mean, alike.low, alike.high) == (2.0, 2.0, 2.0)
    once = found_of({1.0: {"a": [6], "b": [2]}}).ratio(["a"], "b")
    assert (once.mean, once.low, once.high) == (3.0, None, None)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 30), min_size=2, max_size=8), st.integers(1, 9))
def test_interval_over_equal_counts_is_that_of_a_mean(above, below):
    """Where the second arm has the same violations in all repeats, the ratio is a mean of ratios."""
    ratio = found_of({1.0: {"a": above, "b": [below] * len(above)}}).ratio(["a"], "b")
    low, high = Interval.of([count / below for count in above]).ends
    assert (ratio.low, ratio.high) == (pytest.approx(max(0.0, low), abs=1e-12), pytest.approx(high))


def test_there_is_no_interval_if_one_repeat_has_all_violations_below():
    some = found_of({1.0: {"a": [10, 10, 10], "b": [0, 0, 4]}}).ratio(["a"], "b")
    assert (some.mean, some.low, some.high) == (7.5, None, None)


def test_ties_count_as_equally_good():
    found = found_of({1.0: {"a": [0], "b": [0]}, 2.0: {"a": [3], "b": [3]}, 3.0: {"a": [4], "b": [3]}})
    assert found.at_least_as_good("a", ["b"]) == 2
    assert found.at_least_as_good("b", ["a"]) == 3


def test_failed_repeat_is_omitted_for_all_arms():
    counts = {1.0: {"a": [5, 7, 9], "b": [1, None, 3]}, 2.0: {"a": [2, 4, 6], "b": [1, 1, 1]}}
    found = found_of(counts)
    assert found.counts["a"].tolist() == [[5, 9], [2, 4]]
    assert found.counts["b"].tolist() == [[1, 3], [1, 1]]
    assert found_of({1.0: {"a": [5], "b": [None]}, 2.0: {"a": [2], "b": [1]}}).settings == (
        StudySetting("w", 80.0, 2.0),
    )
