"""Applications of a scenario: who belongs to them, how they bind placements, and what the results say of their use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from cluster.errors import ScenarioError
from cluster.report.writing import report_page
from cluster.results.reading import read_results
from cluster.scenario.scenario_file import scenario_from
from cluster.scenario.workload_sections import ApplicationsSection, Known
from cluster.simulation.services import NO_APPLICATION, TenantApplications
from cluster.simulation.simulation import Simulation
from cluster.simulation.tenant_arrivals import TenantSequence
from plb import UnknownNameError
from tests.cluster.report.pages import Page
from tests.cluster.small_runs import results_of
from tests.cluster.tiny import Tenant, scenario_of, simulation_of, small_region, story, traces_of


def sequence_of(classes: list[str], parent: list[int]) -> TenantSequence:
    """Return tenants of these classes; `parent` has the parent of each, or -1."""
    tenants = [Tenant(f"t{index}", index, [1.0]) for index in range(len(classes))]
    names = tuple(dict.fromkeys(classes))
    codes = np.array([names.index(one) for one in classes], np.int16)
    traces = attrs.evolve(traces_of(tenants), classes=names, class_code=codes)
    return TenantSequence(traces, np.arange(len(classes)), len(classes), 100.0, 0, parent=np.array(parent))


def test_tenants_belong_to_the_first_section_that_matches_and_form_groups_by_arrival():
    """Of three B tenants two form the first application, and a child that of its parent; the last has none."""
    sections = {
        "pairs": ApplicationsSection(tenant_class="B*", tenants=2, most_nodes=1),
        "rest": ApplicationsSection(tenant_class="[AB]*"),
    }
    known = TenantApplications.of(sections, sequence_of(["B1", "A", "B2", "A", "B1", "C"], [-1, -1, -1, 0, -1, -1]))
    names = [None if (one := known.application_of(tenant)) is None else one.name for tenant in range(6)]
    assert names == ["pairs/1", "rest", "pairs/1", "pairs/1", "pairs/2", None]
    assert [one.most_nodes for one in known.applications] == [1, 1, None]


def test_section_without_tenants_names_no_application():
    sections = {"all": ApplicationsSection(), "none": ApplicationsSection(tenant_class="A")}
    known = TenantApplications.of(sections, sequence_of(["A", "A"], [-1, -1]))
    assert [one.name for one in known.applications] == ["all"]
    assert NO_APPLICATION not in known.of_tenant


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"tenant_class": "X*"}, "applications.shop.tenant_class"),
        ({"node_reservation": {"gpu": 1.0}}, "applications.shop.node_reservation"),
        ({"total_capacity": {"gpu": 1.0}}, "applications.shop.total_capacity"),
    ],
)
def test_unknown_classes_and_metrics_are_refused(section: dict[str, Any], message: str):
    with pytest.raises(UnknownNameError, match=message):
        TenantApplications.of({"shop": ApplicationsSection(**section)}, sequence_of(["A"], [-1]))


@pytest.mark.parametrize(
    ("tables", "place"),
    [
        ({"applications": {"shop": {"most_node": 1}}}, "applications.shop.most_node"),
        ({"applications": {"shop": {"most_nodes": -1}}}, "applications.shop.most_nodes"),
        ({"applications": {"shop": {"node_capacity": {"cpu": -1.0}}}}, "applications.shop.node_capacity"),
        ({"applications": {"shop": {"most_nodes": 2**31 + 1}}}, "applications.shop.most_nodes"),
        ({"applications": {"shop": {"minimum_nodes": 3, "most_nodes": 2}}}, "applications.shop.minimum_nodes"),
        (
            {"applications": {"shop": {"node_capacity": {"cpu": 1.0}, "node_reservation": {"cpu": 2.0}}}},
            "applications.shop.node_reservation",
        ),
        ({"applications": {"shop/1": {}}}, "applications.NAME"),
        ({"applications": {"": {}}}, "applications.NAME"),
        ({"policies": {"x": {"applications": "some"}}}, "policies.x.applications"),
    ],
)
def test_problems_of_a_file_have_their_place(tables: dict[str, Any], place: str):
    with pytest.raises(ScenarioError) as refused:
        scenario_from(tables)
    assert [problem.place for problem in refused.value.problems] == [place]


def test_scenario_without_applications_has_the_digest_of_before():
    plain = scenario_from({"name": "s"})
    assert "applications" not in plain.as_json()
    one = scenario_from({"name": "s", "applications": {"shop": {}}})
    other = scenario_from(
        {"name": "s", "applications": {"shop": {}}, "policies": {"original": {"applications": "none"}}}
    )
    assert len({plain.digest(), one.digest(), other.digest()}) == 3
    assert (one.applications_of("original"), other.applications_of("original")) == (Known.ALL, Known.NONE)


def limited(hours: float, tenants: list[Tenant], known: str = "all", **section: Any) -> Simulation:
    """Return a simulation on three nodes in which all tenants are one application."""
    sections = {"applications": {"shop": section}, "policies": {"original": {"applications": known}}}
    return simulation_of(scenario_of(3, hours, sections=sections), tenants, initial=30.0)


def test_application_stays_on_its_nodes_and_its_use_is_in_the_totals():
    """Three tenants of 30 GB fit on one node of 100; the fourth finds no place."""
    tenants = [Tenant(f"t{index}", index, [30.0] * 12) for index in range(4)]
    run = limited(1.0, tenants, most_nodes=1).run()
    assert run.totals["placement_failures"] == 1
    use = {"disk": 90.0}
    expected = {"nodes": 1.0, "most_nodes": 1, "load": use, "largest_load": use, "largest_load_on_node": use}
    assert run.totals["applications"] == {"shop": expected}


@pytest.mark.parametrize("known", ["all", "without reservations", "none"])
def test_policy_may_know_less_of_the_applications(known: str):
    tenants = [Tenant(f"t{index}", index, [30.0] * 12) for index in range(3)]
    simulation = limited(1.0, tenants, known, most_nodes=1, node_reservation={"disk": 50.0})
    run = simulation.run()
    described = [(one.most_nodes, dict(one.node_reservation)) for one in simulation.engine.applications]
    reserved = {"disk": 50.0} if known == "all" else {}
    assert described == ([] if known == "none" else [(1, reserved)])
    assert run.totals["applications"]["shop"]["largest_load"] == {"disk": 90.0}


def test_run_without_applications_has_no_use_of_them():
    assert "applications" not in story(scenario_of(2, 1), [Tenant("t", 0, [1.0])]).totals


def test_report_lists_the_use_of_applications(tmp_path: Path):
    sections = small_region(policies=["original"], days=0.05)
    sections["applications"] = {"shop": {"tenant_class": "GP_*", "most_nodes": 4}}
    results = read_results(results_of(tmp_path / "out", sections)[0])
    rows = Page(report_page(results)).table("Use of nodes and loads by applications")[1:]
    (totals,) = [run.totals["applications"]["shop"] for run in results.runs]
    assert [row[:3] for row in rows] == [["original", "shop", metric] for metric in totals["load"]]
    assert {row[4] for row in rows} == {str(totals["most_nodes"])}
    assert totals["most_nodes"] <= 4
