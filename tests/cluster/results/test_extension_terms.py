"""A user's terms and constraints are in tables, summary, report and comparisons, under their names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cluster.errors import ResultsError
from cluster.report.writing import report_page
from cluster.results.notebook import Run
from cluster.results.reading import read_results
from plb.extensions.configuration import Configuration, Proposal, built_in_term
from tests.cluster.report.pages import Page, number
from tests.cluster.small_runs import results_of
from tests.cluster.tiny import Tenant, scenario_of, small_region, story
from tests.command_line import plb


class Twin:
    """The imbalance under another name."""

    name = "twin_of_imbalance"

    def total(self, configuration: Configuration) -> float:
        """Return the built-in term."""
        return built_in_term("imbalance").total(configuration)


class FirstNodeEmpty:
    """No replica on the first node while the disk load of the cluster is at least 50."""

    name = "first_node_empty"

    def refuses(self, configuration: Configuration, proposal: Proposal) -> bool:
        """Refuse moves to the node under load."""
        targets = [target for _, _, target in configuration.relocations(proposal)]
        return configuration.loads.sum() >= 50.0 and 0 in targets

    def broken(self, configuration: Configuration) -> Sequence[int]:
        """Return the replicas on the node under load."""
        return configuration.rows_on(0) if configuration.loads.sum() >= 50.0 else []


KEY = f"extension_terms.{Twin.name}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return results of a policy with the term, weight 0, and of one without, two repeats each."""
    sections = small_region(repeats=2, days=0.1, policies=["original", "watched"])
    sections["policies"] = {"watched": {"extension_terms": {Twin.name: 0.0}}}
    sections["extensions"] = [f"{__file__}:Twin"]
    return results_of(tmp_path_factory.mktemp("extensions") / "out", sections)[0]


def test_plans_have_the_term_as_they_have_built_in_ones(folder: Path):
    plans = read_results(folder).table("plans")
    watched, original = (plans.filter(policy=policy) for policy in ("watched", "original"))
    for when in ("before", "after"):
        assert watched[f"{KEY}_{when}"].to_list() == pytest.approx(watched[f"imbalance_{when}"].to_list(), rel=1e-9)
        assert original[f"{KEY}_{when}"].is_null().all(), "a policy without the term"
        assert f"{KEY}_{when}" in json.loads((folder / "columns.json").read_text())["plans"]
    assert watched[f"{KEY}_after"].n_unique() > 10


def test_the_total_is_the_mean_over_time(folder: Path):
    results = read_results(folder)
    for run in results.runs:
        assert ("extension_terms" in run.totals) == (run.policy == "watched")
        if run.policy == "watched":
            plans = results.table("plans", repeat=run.repeat).filter(policy="watched")
            rows = plans.select("time_s", "imbalance_after").rows()
            ends = [time for time, _ in rows[1:]] + [run.totals["simulated_seconds"]]
            area = sum(value * (end - begin) for (begin, value), end in zip(rows, ends, strict=True))
            assert run.figure(KEY) == pytest.approx(area / (ends[-1] - rows[0][0]), rel=1e-12)


def test_report_notebook_and_comparison_show_it(folder: Path, tmp_path: Path):
    results = read_results(folder)
    mean = sum(run.figure(KEY) for run in results.runs if run.policy == "watched") / 2
    page = Page(report_page(results))
    headings, *rows = page.table("Comparison of the policies")
    cells = {row[0]: row[headings.index(Twin.name)] for row in rows}
    assert cells["original"] == "-"
    assert number(cells["watched"].split(" ± ")[0]) == pytest.approx(mean, abs=0.05)
    assert any(picture["alt"].startswith(f"extension term {Twin.name} after every plan") for picture in page.pictures)
    assert re.search(rf"<th>{Twin.name}</th>", Run.read(folder)._repr_html_())
    done = plb("compare", folder, "--figure", KEY, "--json", tmp_path / "compared.json")
    assert done.exit_code == 0, done.output
    of_original, of_watched = json.loads((tmp_path / "compared.json").read_text())["rows"]
    assert KEY not in of_original["figures"]
    assert of_watched["figures"][KEY]["mean"] == pytest.approx(mean)
    assert "did you mean 'extension_terms.twin" in plb("compare", folder, "--figure", f"{KEY}s").stderr


@pytest.mark.parametrize("damage", [[], {Twin.name: "much"}, {Twin.name: None}])
def test_damaged_totals_are_refused(folder: Path, tmp_path: Path, damage: Any):
    summary = json.loads((folder / "summary.json").read_text())
    summary["runs"][0]["extension_terms"] = damage
    for name in ("summary.json", "timings.json"):
        (tmp_path / name).write_text((folder / name).read_text() if name != "summary.json" else json.dumps(summary))
    with pytest.raises(ResultsError, match=r"runs\[0\]\.extension_terms"):
        read_results(tmp_path)


def test_a_broken_constraint_is_the_cause_of_its_move_and_of_a_refusal():
    """When loads rise, the tenant on the first node leaves it; later a second replica finds no node."""
    own = {"extensions": [f"{__file__}:FirstNodeEmpty"]}
    sections = {**own, "engine": {"extension_constraints": [FirstNodeEmpty.name]}}
    rising, late = [10.0, 10.0] + [60.0] * 10, [5.0] * 6
    tenants = [Tenant("a", 0, rising), Tenant("b", 0, rising), Tenant("c", 3600, late, replicas=2)]
    run = story(scenario_of(2, 2.0, capacity=200.0, sections=sections), tenants, initial=10.0)
    assert run.totals["moves_by_cause"] == {FirstNodeEmpty.name: 1}
    assert run.tables["moves"]["why"].to_list() == ["first node empty rule broken on node n0"]
    assert json.loads(run.tables["refusals"]["ruled_out"][0]) == {FirstNodeEmpty.name: 1, "exclusion": 1}
