"""`plb capacity`: tenants, results directory, command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from cluster.capacity import running
from cluster.capacity.question import Searched, ask
from cluster.capacity.report import differences, plot_capacity, sentences_of_differences
from cluster.capacity.running import CapacitySearch, Subject, run_at, tenants_at
from cluster.errors import DensityError
from cluster.results.intervals import Interval
from cluster.scenario.scenario_file import scenario_from
from cluster.simulation.tenant_arrivals import make_tenants
from cluster.simulation.tenant_pools import read_source
from plb import PlbError
from tests.cluster.capacity.synthetic import Counting
from tests.cluster.small_runs import SMALL
from tests.cluster.tiny import small_region
from tests.command_line import plb
from workloads.regions import REGIONS, generate
from workloads.trace_files import write_traces


@pytest.mark.parametrize("groups", [(), ({"nodes": 3, "vcores": 128.0},)])
def test_tenants_do_not_depend_on_the_number_of_nodes(groups):
    table = small_region(days=1)
    table["cluster"]["groups"] = groups
    scenario = scenario_from(table)
    source, question = read_source(scenario), ask(scenario, Searched.NODES, {})
    for repeat in range(2):
        scenario_value = make_tenants(scenario, source, repeat)
        for nodes in (8.0, 10.0, 17.0, 40.0):
            there = tenants_at(question, scenario, source, nodes, repeat)
            assert np.array_equal(there.traces.tenant, scenario_value.traces.tenant)
            assert np.array_equal(there.arrival, scenario_value.arrival)
            assert np.array_equal(there.parent, scenario_value.parent)
            assert there.density(0.0) == pytest.approx(
                scenario_value.density(0.0) * scenario_value.total_capacity / there.total_capacity, rel=1e-12
            )


def test_a_denser_cluster_begins_with_the_tenants_of_a_less_dense_one():
    scenario = scenario_from(small_region(days=1))
    source, question = read_source(scenario), ask(scenario, Searched.DENSITY, {})
    less, more = (tenants_at(question, scenario, source, density) for density in (1.0, 1.5))
    assert more.first > less.first
    assert np.array_equal(more.traces.tenant[: less.first], less.traces.tenant[: less.first])


def test_too_few_nodes_cannot_hold_the_tenants():
    scenario = scenario_from(small_region())
    source, question = read_source(scenario), ask(scenario, Searched.NODES, {})
    with pytest.raises(DensityError, match=r"or more nodes$|only 1 nodes$"):
        tenants_at(question, scenario, source, 1.0)


def test_run_at_the_value_of_the_scenario_equals_that_of_simulate(scenario, tmp_path):
    assert plb("simulate", scenario, "--out", tmp_path / "out", "--quiet").exit_code == 0
    runs = json.loads((tmp_path / "out" / "summary.json").read_text())["runs"]
    expected = {(run["policy"], run["repeat"]): run for run in runs}
    subject = Subject.read(scenario, {"density": None, "traces": None})
    for searched, value in ((Searched.NODES, 10.0), (Searched.DENSITY, 1.5)):
        question = ask(subject.scenario, searched, {})
        for (policy, repeat), run in expected.items():
            task = subject.task(question, value, policy, repeat)
            totals = run_at(json.loads(json.dumps(task.arguments)))["totals"]
            assert {name: run[name] for name in totals} == totals


def test_scenario_that_changes_during_a_search_is_refused(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    subject = Subject.read(path, {"density": None, "traces": None})
    task = subject.task(ask(subject.scenario, Searched.NODES, {}), 10.0, "original", 0)
    path.write_text(SMALL.replace("density = 1.5", "density = 1.4"))
    with pytest.raises(PlbError, match="have changed since the search began"):
        run_at(task.arguments)


def test_keys_of_runs_depend_only_on_the_tenants_and_the_run(scenario):
    def key(**given: Any) -> str:
        limits = {"violations": given.pop("violations", 1.0)}
        subject = Subject.read(scenario, {"density": None, "traces": None, **given})
        return subject.task(ask(subject.scenario, Searched.NODES, limits), 10.0, "original", 0).key

    assert key() == key(violations=3.0) == key(repeats=5) == key(policy=["original"])
    assert len({key(), key(seed=4), key(days=0.2)}) == 3


@pytest.fixture
def synthetic(monkeypatch):
    """Return a function that searches a small scenario with synthetic violations."""

    def search(
        file: Path, out: Path, counting: Counting, *, force: bool = False, each_repeat: bool = False, **limits: float
    ) -> CapacitySearch:
        monkeypatch.setattr(running, "run_at", counting)
        subject = Subject.read(file, {"repeats": 2, "density": None, "traces": None})
        question = ask(subject.scenario, Searched.NODES, limits)
        console = Console(quiet=True)
        return CapacitySearch(subject, question, out, jobs=1, force=force, console=console, each_repeat=each_repeat)

    return search


def falling(policy, nodes, repeat):
    """Return violations in two days, which fall with the number of nodes."""
    return max(0, (30 if policy == "original" else 26) - nodes) + repeat


def test_each_repeat_has_an_answer_of_its_own(synthetic, scenario, tmp_path):
    """The second repeat has a violation more, so it needs a node more; the policies differ by four nodes in both."""
    search = synthetic(scenario, tmp_path / "out", Counting(falling), each_repeat=True)
    search.run()
    report = json.loads((tmp_path / "out" / "capacity.json").read_text())
    assert report["complete"]
    assert report["question"]["each_repeat"]
    assert report["repeats"] == {"original": [28.0, 29.0], "modified": [24.0, 25.0]}
    assert report["differences"] == {"modified": {"mean": -4.0, "low": -4.0, "high": -4.0, "repeats": 2.0}}
    words = "modified needs in the mean of 2 repeats, each searched by itself, 4.00 ± 0.00 nodes fewer than original."
    assert sentences_of_differences(search.question, search.found_by_repeat) == [words]


def test_differences_are_of_pairs_and_name_what_is_missing(synthetic, scenario, tmp_path):
    question = synthetic(scenario, tmp_path / "out", Counting(falling), lowest=8.0).question
    found = {"original": [28.0, 31.0, 29.0, None], "modified": [30.0, 30.0, 25.0, 8.0]}
    pairs = [2.0, -1.0, -4.0]
    assert differences(found)["modified"] == {**Interval.of(pairs).as_json(), "repeats": 3.0}
    assert sentences_of_differences(question, found) == [
        "modified needs in the mean of 3 repeats, each searched by itself, 1.00 ± 7.45 nodes fewer than original. "
        "original has no answer in 1 of 4 repeats; modified has its answer at the end of the range in 1 of 4 repeats, "
        "so the difference is not complete."
    ]
    assert sentences_of_differences(question, {"original": [None], "modified": [9.0]}) == [
        "modified and original have no answer in the same repeat."
    ]


def test_an_interrupted_search_resumes_with_the_missing_runs(synthetic, scenario, tmp_path):
    whole = Counting(falling)
    synthetic(scenario, tmp_path / "whole", whole).run()
    first = Counting(falling, interrupted_at=9)
    search = synthetic(scenario, tmp_path / "halves", first)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert search.answers["original"].points
    report = json.loads((tmp_path / "halves" / "capacity.json").read_text())
    assert report["complete"] is False
    second = Counting(falling)
    synthetic(scenario, tmp_path / "halves", second).run()
    assert first.calls + second.calls == whole.calls
    for name in ("capacity.json", "capacity.png"):
        assert (tmp_path / "halves" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_other_questions_need_force_and_reuse_finished_runs(synthetic, scenario, tmp_path):
    """Violations a day are m and m + 0.5 in two repeats, so the interval ends at m + 3.43, computed by hand."""
    answers = synthetic(scenario, tmp_path / "out", Counting(falling), violations=4.0).run()
    assert {policy: part.found for policy, part in answers.items()} == {"original": 29.0, "modified": 25.0}
    with pytest.raises(PlbError, match="--force to write the answer again, from the finished runs that fit"):
        synthetic(scenario, tmp_path / "out", Counting(falling), violations=6.0)
    again = Counting(falling)
    answers = synthetic(scenario, tmp_path / "out", again, force=True, violations=6.0).run()
    assert answers["original"].found == 25.0
    anew = Counting(falling)
    synthetic(scenario, tmp_path / "new", anew, violations=6.0).run()
    assert set(again.calls) < set(anew.calls)


def test_failed_run_ends_the_search_with_its_error(synthetic, scenario, tmp_path):
    def broken(*which):
        if which[1] > 11:
            raise RuntimeError("out of order")
        return 9

    with pytest.raises(PlbError, match=r"(?s)a run failed: .*RuntimeError: out of order; finished runs are kept"):
        synthetic(scenario, tmp_path / "out", Counting(broken)).run()
    assert (tmp_path / "out" / "journal.jsonl").read_text().count("\n") > 0


@pytest.mark.parametrize("damaged", ["", "[]", "{}", '{"question": 3}', "\x00", "[" * 100_000])
def test_directory_with_a_damaged_report_is_refused(synthetic, scenario, tmp_path, damaged):
    (tmp_path / "capacity.json").write_text(damaged)
    with pytest.raises(PlbError, match="--force"):
        synthetic(scenario, tmp_path, Counting(falling))


def test_results_do_not_depend_on_the_number_of_processes(scenario, tmp_path):
    chosen = ("--violations", 20, "--lowest", 8, "--highest", 12, "--repeats", 2)
    run = plb("capacity", scenario, *chosen, "--jobs", 1, "--out", tmp_path / "one", "--json", tmp_path / "a.json")
    assert run.exit_code == 0, run.output
    title = "small: nodes for at most 20 violations a day"
    for words in (title, "original: 12 nodes suffice", "add 2 nodes", "11 nodes do not"):
        assert words in run.stdout
    figures = json.loads((tmp_path / "a.json").read_text())
    assert figures["complete"] is True
    assert set(figures["policies"]) == {"original", "modified"}
    both = plb("capacity", scenario, *chosen, "--jobs", 2, "--out", tmp_path / "two", "--quiet")
    assert (both.exit_code, both.stdout) == (0, "")
    for name in ("capacity.json", "capacity.png"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    report = json.loads((tmp_path / "one" / "capacity.json").read_text())
    stamp = figures.pop("stamp")
    assert {"scenario", "scenario_sha256", "versions", "seed", "split", *figures} <= set(report)
    assert (stamp["seed"], stamp["versions"]) == (report["seed"], report["versions"])
    again = plb("capacity", scenario, *chosen, "--jobs", 1, "--out", tmp_path / "one", "--json", tmp_path / "b.json")
    assert again.exit_code == 0
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "a.json").read_bytes()


def test_command_searches_the_density(scenario, tmp_path):
    """Only the nodes of the scenario are used. A density that the cluster cannot hold is in the table."""
    chosen = ("--density", "--violations", 50, "--step", 1, "--policy", "original", "--repeats", 1, "--highest", 90)
    run = plb("capacity", scenario, *chosen, "--jobs", 1, "--out", tmp_path / "out")
    assert run.exit_code == 0, run.output
    assert "small: density for at most 50 violations a day" in run.stdout
    assert "impossible" in run.stdout or "not placed" in run.stdout
    assert re.search(r"original: density \d suffices, with", run.stdout)


def test_command_reads_traces_of_a_user(tmp_path):
    write_traces(generate(REGIONS["region1"], 600, seed=1), tmp_path / "traces")
    path = tmp_path / "own.toml"
    own = 'kind = "traces"\npath = "traces"\ndensity = 1.0'
    path.write_text(SMALL.replace("density = 1.5\nhistory_tenants = 300", own))
    chosen = ("--violations", 50, "--lowest", 9, "--highest", 10, "--repeats", 1, "--policy", "original", "--jobs", 1)
    run = plb("capacity", path, *chosen, "--out", tmp_path / "out")
    assert run.exit_code == 0, run.output
    assert "original: 9 nodes suffice" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--violations", "-1"), "violations = -1.0"),
        (("--policy", "orignal"), "did you mean 'original'"),
        (("--highest", "0.5"), "highest = 0.5"),
        (("--density", "--lowest", "60", "--highest", "70"), "cannot be reached"),
        (("--json", "."), "is a directory"),
    ],
)
def test_bad_input_gives_one_message(scenario, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    run = plb("capacity", scenario, "--out", tmp_path / "out", *arguments)
    assert run.exit_code == 2, run.output
    assert words in run.stderr
    assert not (tmp_path / "out").exists()


def test_an_interrupted_command_states_how_to_resume(scenario, tmp_path, monkeypatch):
    monkeypatch.setattr(running, "run_at", Counting(falling, interrupted_at=6))
    run = plb("capacity", scenario, "--jobs", 1, "--out", tmp_path / "out")
    assert run.exit_code == 130
    assert "the same command continues from" in run.stderr
    assert "the search has not ended" in run.stdout


@pytest.mark.parametrize(("violations", "scale"), [(4.0, "linear"), (400.0, "symlog")])
def test_plot_of_very_many_violations_is_logarithmic(synthetic, scenario, tmp_path, violations, scale):
    search = synthetic(scenario, tmp_path / "out", Counting(lambda *which: 0.0 if which[1] > 20 else violations))
    search.run()
    ax = Figure().subplots()
    plot_capacity(ax, search.question, list(search.answers.values()))
    assert ax.get_yscale() == scale


def test_runs_of_other_code_are_made_again(scenario, tmp_path, monkeypatch, change_code):
    monkeypatch.setattr(running, "run_at", Counting(falling))
    chosen = ("--repeats", 2, "--jobs", 1, "--policy", "original")

    def run(*options):
        done = plb("capacity", scenario, *chosen, "--out", tmp_path / "out", "--json", tmp_path / "a.json", *options)
        assert done.exit_code == 0, done.output
        report = json.loads((tmp_path / "out/capacity.json").read_text())
        stamp = json.loads((tmp_path / "a.json").read_text())["stamp"]
        assert stamp["versions"] == report["versions"]
        return done.stderr, len((tmp_path / "out/journal.jsonl").read_text().splitlines()), report

    said, runs, before = run()
    assert "of other code" not in said
    change_code("CHANGED = True")
    said, lines, again = run()
    assert said.count("of other code do not count") == 1
    assert lines == 2 * runs
    assert again["policies"] == before["policies"]
    change_code("CHANGED = False")
    assert "of other code" in run("--repeats", 1, "--force")[0]
    assert "of other code" not in run("--repeats", 1)[0]  # the journal has such runs of the second repeat only
