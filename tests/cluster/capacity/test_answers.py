"""Questions, points and answers of made-up clusters."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cluster.capacity.answers import answer, figures, point_of
from cluster.capacity.question import Searched, ask
from cluster.capacity.report import sentence
from cluster.errors import ScenarioError
from cluster.scenario.cluster_section import MOST_NODES
from cluster.scenario.scenario_file import scenario_from
from plb import InvalidValueError
from tests.cluster.capacity.made_up import point, question_of, totals
from tests.cluster.tiny import small_region


def answered(question, curves):
    """Return the answers of policies, each with its violations a day as a function of the value."""

    def evaluate(pairs):
        return [point(question, value, curves[policy](value)) for policy, value in pairs]

    return answer(question, list(curves), evaluate)


@given(st.dictionaries(st.sampled_from("abc"), st.floats(1, 160), min_size=1))
def test_each_policy_has_the_fewest_nodes_that_suffice(edges):
    """Policies are searched side by side and do not disturb one another."""
    question = question_of()
    answers = answered(
        question, {policy: lambda nodes, edge=edge: 0.0 if nodes >= edge else 2.0 for policy, edge in edges.items()}
    )
    for policy, edge in edges.items():
        assert answers[policy].found == np.ceil(edge)
        assert answers[policy].complete
        failing = answers[policy].failing(question)
        assert edge <= 1 if failing is None else failing.value == np.ceil(edge) - 1


@given(st.floats(0.05, 7.9))
def test_highest_density_that_suffices_is_found_on_the_grid(edge):
    """Violations rise with the density; the answer is the last multiple of the step that is not too dense."""
    question = question_of(Searched.DENSITY)
    found = answered(question, {"any": lambda density: 0.0 if density <= edge else 2.0})["any"]
    allowed = [k / 20 for k in range(1, 161) if k / 20 <= edge]
    assert found.found == pytest.approx(max(allowed))
    assert found.failing(question).value == pytest.approx(max(allowed) + 0.05)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=6), st.lists(st.integers(0, 9), min_size=6, max_size=6))
def test_point_is_mean_and_interval_over_repeats(violations, unresolved):
    """Of both violations and shortages that nothing could be done about, a day, by SciPy's interval."""
    found = point_of(question_of(), 40.0, [totals(*pair) for pair in zip(violations, unresolved, strict=False)])
    a_day = [sum(pair) / 2 for pair in zip(violations, unresolved, strict=False)]
    assert found.mean == pytest.approx(np.mean(a_day))
    assert found.suffices == (np.mean(a_day) <= 1.0)
    if np.std(a_day) > 0:
        low, high = stats.t.interval(0.95, len(a_day) - 1, loc=np.mean(a_day), scale=stats.sem(a_day))
        assert found.half_width == pytest.approx((high - low) / 2)


def test_cluster_that_refuses_tenants_does_not_suffice():
    """It has no violations because it is empty; up to a share that is allowed, it does."""
    runs = [totals(refused=1), totals(refused=3)]
    strict = point_of(question_of(), 40.0, runs)
    assert not strict.suffices
    assert strict.verdict(question_of()) == "no: not placed"
    assert point_of(question_of(refused=0.02), 40.0, runs).suffices
    assert not point_of(question_of(refused=0.019), 40.0, runs).suffices


def test_value_without_a_run_does_not_suffice():
    """What the cluster cannot hold has no violations either; its point says why."""
    found = point_of(question_of(), 2.0, [totals(), {"impossible": "too few nodes"}])
    assert not found.suffices
    assert found.mean is None
    assert found.as_json("nodes")["impossible"] == "too few nodes"


@pytest.mark.parametrize(
    ("edge", "words"),
    [
        (36, "36 nodes suffice, with 0.00 ± 0.00 violations a day; 35 nodes do not, with 2.00 ± 0.00.\n"),
        (36, "The scenario has 40 nodes: 4 nodes can be removed."),
        (41, "The scenario has 40 nodes: add 1 node."),
        (40, "The scenario has 40 nodes: add none."),
        (1, "1 node suffices, with 0.00 ± 0.00 violations a day; this is the end of the range."),
        (200, "no value in the range suffices (160 nodes: 2.00 ± 0.00 violations a day: does not suffice)"),
    ],
)
def test_sentence_says_what_to_add(edge, words):
    """With the value before, which was seen to fail."""
    question = question_of()
    found = answered(question, {"any": lambda nodes: 0.0 if nodes >= edge else 2.0})["any"]
    assert words in sentence(question, found)


def test_sentence_of_density_compares_it_with_that_of_the_scenario():
    """As a share."""
    question = question_of(Searched.DENSITY)
    found = answered(question, {"any": lambda density: 0.0 if density <= 1.5 else 2.0})["any"]
    assert "density 1.5 suffices, with 0.00 ± 0.00 violations a day; density 1.55 does not" in sentence(question, found)
    assert "The density of the scenario, 2, is 33% higher." in sentence(question, found)


@given(st.integers(1, 159))
def test_share_of_the_sentence_is_of_the_density_that_was_found(place):
    """That density, and so much more or less of it, is the scenario's."""
    question = question_of(Searched.DENSITY)
    edge = place * 0.05
    said = sentence(
        question, answered(question, {"any": lambda density: 0.0 if density <= edge + 1e-9 else 2.0})["any"]
    )
    share = re.search(r"The density of the scenario, 2, is (\d+)% (lower|higher)", said)
    if share is None:
        assert "This is the density of the scenario." in said
        assert edge == pytest.approx(2.0)
    else:
        change = int(share[1]) / 100 * (1 if share[2] == "higher" else -1)
        assert edge * (1 + change) == pytest.approx(2.0, abs=0.0051 * edge)


def test_sentence_says_where_chance_decides():
    """Where an interval reaches across the limit, and where there is none; not where all is clear."""
    question = question_of()
    clear = answered(question, {"any": lambda nodes: 0.0 if nodes >= 30 else 2.0})["any"]
    assert sentence(question, clear).endswith("10 nodes can be removed.")
    single = answer(question, ["any"], lambda pairs: [point_of(question, pairs[0][1], [totals(0)])])["any"]
    assert "A single repeat has no interval." in sentence(question, single)
    noisy = answer(question, ["any"], lambda pairs: [point_of(question, pairs[0][1], [totals(0), totals(4)])])["any"]
    assert "use more --repeats" in sentence(question, noisy)


def test_figures_have_stable_keys():
    """Those that docs/capacity.md names; points by value."""
    question = question_of()
    found = figures(question, answered(question, {"any": lambda nodes: 41.0 - nodes}), repeats=2, days=2.0)
    asked = {
        "searched",
        "violations_a_day",
        "refused_share",
        "lowest",
        "highest",
        "step",
        "scenario_value",
        "repeats",
        "days",
    }
    assert set(found) == {"question", "complete", "policies"}
    assert set(found["question"]) == asked
    assert set(found["policies"]["any"]) == {"answer", "complete", "seen_to_fail", "points"}
    nodes = [one["nodes"] for one in found["policies"]["any"]["points"]]
    assert nodes == sorted(nodes)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def scenario(**sections):
    """Return a small scenario."""
    return scenario_from({**small_region(), **sections})


def test_nodes_in_groups_stay():
    """Only nodes of the first kind come and go, and no fewer are searched than the groups have."""
    mixed = scenario(cluster={"nodes": 10, "groups": [{"nodes": 4, "vcores": 128.0}]})
    question = ask(mixed, Searched.NODES, {})
    assert (question.lowest, question.scenario_value, question.highest) == (4.0, 10.0, 40.0)
    assert [count for count, _ in question.scenario(mixed, 13.0).cluster.kinds] == [9, 4]
    with pytest.raises(InvalidValueError, match="at least 4: nodes in groups are kept"):
        ask(mixed, Searched.NODES, {"lowest": 3.0})


def test_density_of_other_nodes_is_that_of_the_same_promises():
    """It falls as nodes are added; that of large nodes counts as much as they have."""
    mixed = scenario(cluster={"nodes": 10, "groups": [{"nodes": 5, "vcores": 160.0}]})
    question = ask(mixed, Searched.NODES, {})
    assert question.density(mixed, 20.0) == pytest.approx(1.5 * (5 * 80 + 5 * 160) / (15 * 80 + 5 * 160))
    assert ask(mixed, Searched.DENSITY, {}).density(mixed, 1.7) == 1.7


def test_density_that_rises_keeps_its_shape():
    """Its end grows in proportion."""
    rising = scenario(workload={"density": 1.5, "density_end": 3.0})
    there = ask(rising, Searched.DENSITY, {}).scenario(rising, 1.0).workload
    assert (there.density, there.density_end) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("sections", "searched", "words"),
    [
        ({"workload": {"kind": "plan"}}, Searched.NODES, "workload.kind: a plan has fixed tenants on fixed nodes"),
        ({"workload": {"kind": "plan"}}, Searched.DENSITY, "workload.kind: a plan has fixed tenants on fixed nodes"),
        (
            {"faults": {"crashes": [{"node": "n1", "at_hours": 1.0, "hours": 1.0}]}},
            Searched.NODES,
            "faults.crashes: names nodes, and the names change",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(sections, searched, words):
    """With the place in the scenario."""
    with pytest.raises(ScenarioError, match=words):
        ask(scenario(**sections), searched, {})


@pytest.mark.parametrize("nodes", [25_000, 25_001, 60_000, MOST_NODES])
def test_search_of_very_many_nodes_ends_where_clusters_do(nodes):
    """Four times the scenario's own nodes may be more than a scenario may have."""
    question = ask(scenario(cluster={**small_region()["cluster"], "nodes": nodes}), Searched.NODES, {})
    assert question.highest == min(4 * nodes, MOST_NODES)
    assert question.scenario(scenario(), question.easiest).cluster.nodes == question.highest


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"violations": -1.0}, "violations = -1.0"),
        ({"refused": 1.5}, "refused = 1.5"),
        ({"lowest": 9.0, "highest": 8.0}, "highest = 8.0"),
        ({"step": 2.5}, "a whole number of nodes"),
        ({"step": 7.0, "lowest": 8.0, "highest": 13.0}, "a multiple of the step 7"),
        ({"lowest": 0.0}, "lowest = 0.0"),
        ({"step": 0.0}, "step = 0.0"),
        ({"highest": 1e7}, "highest = 10000000.0 is not allowed; expected a finite number >= 1 and <= 100000"),
        ({"step": 1e6}, "step = 1000000.0"),
        (
            {"lowest": 300.0},
            "lowest = 300.0 is not allowed; expected at most 40, the end of the search without --highest",
        ),
    ],
)
def test_values_out_of_range_are_refused(given, words):
    """Each by its name."""
    with pytest.raises(InvalidValueError, match=words):
        ask(scenario(), Searched.NODES, given)
