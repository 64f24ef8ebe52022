"""`plb compare`: means, paired differences and the comparison of tenants."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cluster.results.comparison import compare_results, lines, table_of_differences
from cluster.results.reading import Results, read_results
from cluster.results.recorded_run import scenario_differences, why_other_tenants
from cluster.results.summary_tables import FIGURES
from cluster.results.writing import stamp
from cluster.runs.experiment import prepare
from cluster.scenario.digests import code_of_tenants
from cluster.scenario.scenario_file import scenario_from
from cluster.simulation.run_tables import RunTotals
from cluster.simulation.tenant_pools import read_source
from plb import ConflictError
from tests.cluster.small_runs import SMALL
from tests.cluster.tiny import small_region
from tests.command_line import plb
from workloads.regions import REGIONS, generate
from workloads.trace_files import write_traces


def summary_of(**sections: Any) -> dict[str, Any]:
    """Return the first part of a summary."""
    tables = small_region(repeats=3)
    for name, fields in sections.items():
        tables[name] = {**tables.get(name, {}), **fields}
    scenario = scenario_from(tables)
    return {
        "scenario": scenario.as_json(),
        "scenario_sha256": scenario.digest(),
        "seed": scenario.run.seed,
        "versions": {"plb": "1"},
        "split": {"rule": "none"},
        "metrics": {},
    }


def written(
    folder: Path, head: Mapping[str, Any], violations: Mapping[str, Sequence[int]], cut: Sequence[tuple[str, int]] = ()
) -> Results:
    """Write a results directory without tables, with these violations per policy and repeat, and read it."""
    figures = [field.name for field in attrs.fields(RunTotals) if field.default is attrs.NOTHING]
    runs = [
        {
            "policy": policy,
            "repeat": repeat,
            "complete": (policy, repeat) not in cut,
            **dict.fromkeys(figures, 5),
            "simulated_seconds": 43200.0,
            "failovers_by_cause": {},
            "moves_by_cause": {},
            "availability": None,
            "violations": count,
            "violations_avoidable": count,
            "violations_reported": count,
            "violations_unavoidable": 0,
        }
        for policy, counts in violations.items()
        for repeat, count in enumerate(counts)
    ]
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps({**head, "complete": not cut, "runs": runs}))
    seconds = dict.fromkeys(("placement", "repair", "balancing", "total"), 1.5)
    timings = [{"policy": one["policy"], "repeat": one["repeat"], "seconds": seconds, "slowest": []} for one in runs]
    (folder / "timings.json").write_text(json.dumps({"runs": timings}))
    return read_results(folder)


COUNTED = st.lists(st.integers(0, 1000), min_size=3, max_size=3)


@settings(max_examples=50)
@given(COUNTED, COUNTED, COUNTED)
def test_means_ratios_and_differences_agree_with_scipy(tmp_path_factory, first, second, third):
    """Intervals of means use the repeats of each row; those of differences use pairs."""
    folder = tmp_path_factory.mktemp("compared")
    one = written(folder / "one", summary_of(), {"original": first, "modified": second})
    other = written(folder / "other", summary_of(engine={"chains": 2}), {"original": third})
    found = compare_results([one, other])
    assert [(row.policy, row.repeats, row.pairs) for row in found.rows] == [
        *(("original", 3, 0), ("modified", 3, 3), ("original", 3, 3))
    ]
    for row, counts in zip(found.rows, (first, second, third), strict=True):
        estimate = row.figures["violations"]
        assert estimate.mean == pytest.approx(np.mean(counts))
        assert estimate.ratio == (pytest.approx(np.mean(counts) / np.mean(first)) if any(first) else None)
        assert estimate.half_width == pytest.approx(half_width(counts))
        if row.pairs:
            difference = row.differences["violations"]
            assert difference.mean == pytest.approx(np.mean(np.subtract(counts, first)))
            assert difference.half_width == pytest.approx(half_width(np.subtract(counts, first)))


def half_width(values: Any) -> float:
    """Return half of SciPy's interval."""
    return float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values))


CHANGED = [
    ({"cluster": {"nodes": 20}, "workload": {"density": 0.75}}, True),
    ({"cluster": {"vcores": 160.0}, "workload": {"density": 0.75}}, True),
    ({"cluster": {"nodes": 13, "groups": [{"nodes": 3, "vcores": 80.0}]}, "workload": {"density": 15 / 13}}, True),
    ({"cluster": {"nodes": 11}, "workload": {"density": 1.363636364}}, True),
    ({"cluster": {"violation_threshold": 0.8}}, True),
    ({"workload": {"oracle_hours": 2.0}}, True),
    ({"faults": {"days_between_crashes": 3.0}}, True),
    ({"cluster": {"nodes": 20}}, False),
    ({"cluster": {"nodes": 11}, "workload": {"density": 1.3636}}, False),
    ({"workload": {"density": 1.6}}, False),
    ({"workload": {"density_end": 1.6}}, False),
    ({"workload": {"pair_share": 0.1}}, False),
    ({"workload": {"trace_seed": 1}}, False),
    ({"run": {"seed": 4}}, False),
    ({"run": {"days": 0.5}}, False),
    ({"run": {"fill_hours": 1.0}}, False),
]


@pytest.mark.parametrize(("sections", "same"), CHANGED)
def test_tenants_are_compared_by_their_settings(tmp_path, sections, same):
    one = written(tmp_path / "one", summary_of(), {"original": [1]})
    other = written(tmp_path / "other", summary_of(**sections), {"original": [1]})
    assert not why_other_tenants(one, one)
    assert (not why_other_tenants(one, other)) == (not why_other_tenants(other, one)) == same


@pytest.mark.parametrize(("sections", "same"), [CHANGED[0], CHANGED[2], CHANGED[3], CHANGED[9], CHANGED[12]])
def test_tenants_that_are_reported_as_equal_are_equal(sections, same):
    sequences = []
    for changed in ({}, sections):
        tables = small_region()
        for name, fields in changed.items():
            tables[name] = {**tables[name], **fields}
        sequences.append(prepare(scenario_from(tables)).sequences[0])
    names, times = ([one.traces.tenant.tolist() for one in sequences], [one.arrival.tolist() for one in sequences])
    assert (names[0] == names[1] and times[0] == times[1]) == same


@pytest.mark.parametrize(
    ("sections", "why"),
    [
        ({"run": {"seed": 9}}, "seed differs."),
        ({"run": {"days": 0.5}, "workload": {"pair_share": 0.1}}, "workload.pair_share, run.days differ."),
        ({"cluster": {"nodes": 20}}, "the promised demand of all tenants is 2400 of cpu, not 1200."),
        (
            {"cluster": {"nodes": 11}, "workload": {"density": 1.3636}},
            "the promised demand of all tenants is 1199.968 of cpu, not 1200.",
        ),
    ],
)
def test_a_missing_difference_has_a_reason(tmp_path, sections, why):
    """The reason is given once per directory. The first row has no difference to itself."""
    one = written(tmp_path / "one", summary_of(), {"original": [1, 2]})
    other = written(tmp_path / "other", summary_of(**sections), {"original": [1, 2], "modified": [1, 2]})
    comparison = compare_results([one, other])
    assert [row.pairs for row in comparison.rows] == [0, 0, 0]
    assert table_of_differences(comparison, FIGURES) is None
    expected = "No difference to the first row for original, modified of other, as its tenants may differ: "
    assert [line for line in lines(comparison) if line.startswith("No diff")] == [expected + why]
    assert not any(line.startswith("No diff") for line in lines(compare_results([other])))


def test_results_of_other_code_of_tenants_are_compared_with_a_remark(tmp_path):
    """Results of traces have no code of tenants, and are compared without a remark."""
    found = []
    for number, code in enumerate((None, "one", "one", "two")):
        split = {"region_digest": "r"} | ({} if code is None else {"tenants_code": code})
        found.append(written(tmp_path / f"{number}", {**summary_of(), "split": split}, {"original": [1, 2]}))
    remark = "The code that makes tenants differs between {} and 3, so their tenants may differ."
    for first, remarks in ((0, []), (1, [remark.format(1)]), (2, [remark.format(2)])):
        results = [found[first], *(one for one in found if one is not found[first])]
        compared = compare_results(results)
        assert [row.pairs for row in compared.rows] == [0, 2, 2, 2]
        assert [line for line in lines(compared) if line.startswith("The code")] == remarks


def test_the_stamp_has_the_digests_of_parameters_and_code():
    """The digest of a region's parameters does not depend on the code. Summaries of these tests have the same keys."""
    scenario = scenario_from(small_region())
    stamped = stamp(scenario, read_source(scenario))
    assert stamped["split"]["region_digest"] == scenario.workload.parameters_of_region().digest()
    assert stamped["split"]["tenants_code"] == code_of_tenants()
    assert set(stamped) == set(summary_of())


def with_traces(folder: Path, **workload: Any) -> Results:
    """Write results of a scenario with traces, and read them."""
    tables = {"workload": {"kind": "traces", "density": 0.3, **workload}, "run": {"days": 0.1}}
    scenario = scenario_from({"name": "moved", "cluster": {"nodes": 5}, **tables})
    return written(folder, stamp(scenario, read_source(scenario)), {"original": [1]})


@pytest.mark.parametrize("relative", [True, False])
def test_traces_are_compared_by_content(tmp_path, monkeypatch, relative):
    """Relative paths count from the directory of the run; other paths are listed as a difference."""
    found = []
    for number, seed in enumerate((1, 1, 2)):
        path = tmp_path / f"{number}" / "traces"
        write_traces(generate(REGIONS["region1"], 200, seed), path)
        monkeypatch.chdir(path.parent)
        found.append(with_traces(path.parent / "out", path="traces" if relative else str(path)))
    assert not why_other_tenants(found[0], found[1])
    assert why_other_tenants(found[0], found[2]) == "split.traces_digest differs"
    assert list(scenario_differences(found[:2])) == ([] if relative else ["workload.path"])


def test_another_history_leaves_the_tenants_the_same(tmp_path):
    """Simulated tenants do not depend on a history from other traces; the scenarios differ in the path, if at all."""
    write_traces(generate(REGIONS["region1"], 200, 1), tmp_path / "traces")
    found = []
    for number, seed in enumerate((3, 4)):
        write_traces(generate(REGIONS["region1"], 50 + number, seed), tmp_path / f"past{number}")
        fields = {"path": str(tmp_path / "traces"), "history_path": str(tmp_path / f"past{number}")}
        found.append(with_traces(tmp_path / f"{number}", **fields))
    assert found[0].summary["split"]["history_digest"] != found[1].summary["split"]["history_digest"]
    assert not why_other_tenants(*found)


def test_rows_without_a_common_repeat_are_named(tmp_path):
    one = written(tmp_path / "one", summary_of(), {"original": [1, 2]}, cut=[("original", 1)])
    other = written(tmp_path / "other", summary_of(), {"original": [1, 2]}, cut=[("original", 0)])
    assert any(line.endswith("no repeat is finished in both.") for line in lines(compare_results([one, other])))


def test_scenarios_with_unknown_tenants_count_as_different(tmp_path):
    """A summary written by another program may contain only the checked keys."""
    head = summary_of()
    bare = copy.deepcopy(head)
    bare["scenario"] = {"name": "bare", "cluster": {"violation_threshold": 0.9}, "run": {"policies": ["original"]}}
    one = written(tmp_path / "one", head, {"original": [1]})
    other = written(tmp_path / "bare", bare, {"original": [1]})
    assert why_other_tenants(one, other)
    assert why_other_tenants(other, other)
    assert scenario_differences([one, other])["workload.density"] == [1.5, "-"]
    assert "workload.density: 1.5 | -" in "\n".join(lines(compare_results([one, other])))


def test_scenario_differences_are_listed_by_key(tmp_path):
    """Versions are compared as well. A policy that only one scenario has is listed by name only."""
    head = summary_of(cluster={"nodes": 20}, run={"policies": ["original"]}, engine={"chains": 2})
    one = written(tmp_path / "one", summary_of(), {"original": [1]})
    other = written(tmp_path / "other", {**head, "versions": {"plb": "2"}}, {"original": [1]})
    found = compare_results([one, other])
    assert found.scenario_differences == {
        "cluster.nodes": [10, 20],
        "run.policies": [["original", "modified"], ["original"]],
        "engine.chains": [1, 2],
    }
    text = "\n".join(lines(found))
    assert "cluster.nodes: 10 | 20" in text
    assert "They were made with different versions:\n  plb: 1 | 2" in text


def test_equal_scenarios_are_reported_as_equal(tmp_path):
    results = [written(tmp_path / name, summary_of(), {"original": [1, 2, 3], "modified": [1, 2, 3]}) for name in "ab"]
    assert list(lines(compare_results(results))) == [
        f"All ran the same scenario, {results[0].summary['scenario_sha256'][:12]}."
    ]


def test_interrupted_runs_are_excluded_and_reported(tmp_path):
    one = written(tmp_path / "one", summary_of(), {"original": [8, 4, 6], "modified": [5]}, [("original", 1)])
    found = compare_results([one])
    assert found.rows[0].figures["violations"].mean == 7.0
    assert [row.repeats for row in found.rows] == [2, 1]
    assert list(lines(found)) == [
        f"Interrupted after 0.50 days and omitted: original, repeat 2 of {one.folder}",
        f"Not started: 2 runs of {one.folder}",
    ]
    assert found.as_json()["directories"][0]["interrupted"] == [{"policy": "original", "repeat": 1}]


def test_a_directory_without_finished_runs_is_refused(tmp_path):
    one = written(tmp_path / "one", summary_of(), {"original": [1]}, [("original", 0)])
    with pytest.raises(ConflictError, match="no run is finished"):
        compare_results([one])


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return two results directories of simulations: a small scenario, and the same tenants on more nodes."""
    folder = tmp_path_factory.mktemp("compare")
    (folder / "small.toml").write_text(SMALL)
    (folder / "more.toml").write_text(SMALL.replace("nodes = 10", "nodes = 12").replace("1.5", "1.25"))
    for name in ("small", "more"):
        chosen = ("--repeats", 2, "--days", 0.05, "--out", folder / name, "--quiet")
        run = plb("simulate", folder / f"{name}.toml", *chosen)
        assert run.exit_code == 0, run.output
    return folder / "small", folder / "more"


def test_command_compares_simulated_directories(simulated, tmp_path):
    run = plb("compare", *simulated, "--json", tmp_path / "found.json")
    assert run.exit_code == 0, run.output
    for words in ("2 results", "difference to the first row", "cluster.nodes: 10 | 12", "workload.density: 1.5 | 1.25"):
        assert words in run.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert set(found) == {"directories", "rows", "scenario_differences", "version_differences", "stamp"}
    assert found["stamp"]["seed"] == found["directories"][0]["seed"]
    assert [row["pairs"] for row in found["rows"]] == [0, 2, 2, 2]
    assert set(found["rows"][0]["figures"]) == set(FIGURES)
    kept = {"mean", "half_width", "ratio"}
    assert set(found["rows"][0]["figures"]["moves"]) == kept
    assert set(found["rows"][1]["figures"]["moves"]) == kept | {"difference", "difference_half_width"}


def test_command_shows_the_requested_figures(simulated):
    run = plb("compare", simulated[0], "--figure", "moves", "--figure", "failovers")
    assert "ratio: moves by those of the first row" in run.stdout
    assert "violations" not in run.stdout
    assert plb("compare", simulated[0], "--quiet").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "nowhere: is not a results directory of plb simulate"),
        (("FIRST", "--figure", "violatons"), "did you mean 'violations'"),
        (("FIRST", "AGAIN"), "is given twice"),
        (("BROKEN",), "is not JSON"),
        (("FIRST", "--json", "SUMMARY"), "is read; give another file to write to"),
        (("FIRST", "--json", "TABLE"), "is in a directory that is read; give another file to write to"),
    ],
)
def test_bad_input_gives_one_message(simulated, tmp_path, arguments, words):
    (tmp_path / "summary.json").write_text("{")
    first = simulated[0]
    paths = {"FIRST": first, "AGAIN": first / ".." / first.name, "BROKEN": tmp_path, "SUMMARY": first / "summary.json"}
    paths["TABLE"] = next(first.glob("runs/*")) / "moves.parquet"
    run = plb("compare", *(paths.get(word, word) for word in arguments))
    assert run.exit_code == 2
    assert words in run.stderr
    assert "Traceback" not in run.stderr
