"""Questions, points and answers for synthetic clusters, and the search, compared with an exhaustive one."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cluster.capacity.question import Searched, ask, least_sufficient
from cluster.capacity.report import answer, figures, point_of, sentence
from cluster.errors import ScenarioError
from cluster.scenario.cluster_sections import MOST_NODES
from cluster.scenario.scenario_file import scenario_from
from plb import InvalidValueError
from tests.cluster.capacity.synthetic import point, question_of, totals
from tests.cluster.tiny import small_region


def answered(question, curves):
    """Return the answers of policies whose violations per day are functions of the value."""

    def evaluate(pairs):
        return [point(question, value, curves[policy](value)) for policy, value in pairs]

    return answer(question, list(curves), evaluate)


@given(st.dictionaries(st.sampled_from("abc"), st.floats(1, 160), min_size=1))
def test_each_policy_gets_its_smallest_sufficient_number_of_nodes(edges):
    question = question_of()
    answers = answered(question, {policy: lambda n, e=edge: 0.0 if n >= e else 2.0 for policy, edge in edges.items()})
    for policy, edge in edges.items():
        assert answers[policy].found == np.ceil(edge)
        assert answers[policy].complete
        failing = answers[policy].failing(question)
        assert edge <= 1 if failing is None else failing.value == np.ceil(edge) - 1


@given(st.floats(0.05, 7.9))
def test_highest_sufficient_density_is_on_the_grid(edge):
    question = question_of(Searched.DENSITY)
    found = answered(question, {"any": lambda density: 0.0 if density <= edge else 2.0})["any"]
    allowed = [k / 20 for k in range(1, 161) if k / 20 <= edge]
    assert found.found == pytest.approx(max(allowed))
    assert found.failing(question).value == pytest.approx(max(allowed) + 0.05)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=6), st.lists(st.integers(0, 9), min_size=6, max_size=6))
def test_point_is_mean_and_interval_over_repeats(violations, unresolved):
    found = point_of(question_of(), 40.0, [totals(*pair) for pair in zip(violations, unresolved, strict=False)])
    a_day = [sum(pair) / 2 for pair in zip(violations, unresolved, strict=False)]
    assert found.mean == pytest.approx(np.mean(a_day))
    low, high = np.mean(a_day), np.mean(a_day)
    if np.std(a_day) > 0:
        low, high = stats.t.interval(0.95, len(a_day) - 1, loc=np.mean(a_day), scale=stats.sem(a_day))
    assert found.half_width == pytest.approx((high - low) / 2)
    assert found.high == pytest.approx(high)


@pytest.mark.parametrize(
    ("violations", "suffices"), [((2, 2), True), ((0, 4), False), ((2,), True), ((3,), False), ((0, 1, 0, 1), True)]
)
def test_value_suffices_if_its_interval_ends_within_the_limit(violations, suffices):
    """The limit is 1 a day, which are 2 in two days. A mean of 1 is not enough; a single repeat has no interval."""
    assert point_of(question_of(), 40.0, [totals(count) for count in violations]).suffices == suffices


def test_cluster_that_refuses_tenants_does_not_suffice():
    """Such a cluster has no violations because it is empty. Refusals up to the allowed share are accepted."""
    runs = [totals(refused=1), totals(refused=3)]
    strict = point_of(question_of(), 40.0, runs)
    assert not strict.suffices
    assert strict.verdict(question_of()) == "no: not placed"
    assert point_of(question_of(refused=0.02), 40.0, runs).suffices
    assert not point_of(question_of(refused=0.019), 40.0, runs).suffices


def test_value_without_a_run_does_not_suffice():
    """A cluster that cannot hold its tenants has no violations either. The point states the reason."""
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
def test_sentence_states_the_number_of_nodes_to_add(edge, words):
    question = question_of()
    found = answered(question, {"any": lambda nodes: 0.0 if nodes >= edge else 2.0})["any"]
    assert words in sentence(question, found)


@given(st.integers(1, 159))
def test_share_in_the_sentence_refers_to_the_density_of_the_answer(place):
    question = question_of(Searched.DENSITY)
    edge = place * 0.05
    printed = sentence(
        question, answered(question, {"any": lambda density: 0.0 if density <= edge + 1e-9 else 2.0})["any"]
    )
    share = re.search(r"The density of the scenario, 2, is (\d+)% (lower|higher)", printed)
    if share is None:
        assert "This is the density of the scenario." in printed
        assert edge == pytest.approx(2.0)
    else:
        change = int(share[1]) / 100 * (1 if share[2] == "higher" else -1)
        assert edge * (1 + change) == pytest.approx(2.0, abs=0.0051 * edge)


def test_sentence_states_an_uncertain_answer():
    question = question_of()
    clear = answered(question, {"any": lambda nodes: 0.0 if nodes >= 30 else 2.0})["any"]
    assert sentence(question, clear).endswith("10 nodes can be removed.")
    single = answer(question, ["any"], lambda pairs: [point_of(question, pairs[0][1], [totals(0)])])["any"]
    assert "A single repeat has no interval." in sentence(question, single)
    noisy = answer(
        question,
        ["any"],
        lambda pairs: [point_of(question, pairs[0][1], [totals(0), totals(0 if pairs[0][1] >= 30 else 4)])],
    )["any"]
    assert "With 29 nodes the interval contains the limit, 1: more --repeats can show" in sentence(question, noisy)


def test_points_of_figures_are_ordered_by_value():
    """Their keys are those of docs/capacity.md."""
    question = question_of()
    found = figures(question, answered(question, {"any": lambda nodes: 41.0 - nodes}), repeats=2, days=2.0)
    nodes = [point["nodes"] for point in found["policies"]["any"]["points"]]
    assert nodes == sorted(nodes)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def scenario(**sections):
    """Return a small scenario."""
    return scenario_from({**small_region(), **sections})


def test_node_groups_keep_their_nodes():
    mixed = scenario(cluster={"nodes": 10, "groups": [{"nodes": 4, "vcores": 128.0}]})
    question = ask(mixed, Searched.NODES, {})
    assert (question.lowest, question.scenario_value, question.highest) == (4.0, 10.0, 40.0)
    assert [count for count, _ in question.scenario(mixed, 13.0).cluster.kinds] == [9, 4]
    with pytest.raises(InvalidValueError, match="at least 4: nodes in groups are kept"):
        ask(mixed, Searched.NODES, {"lowest": 3.0})


def test_density_of_other_nodes_keeps_the_reserved_capacity():
    mixed = scenario(cluster={"nodes": 10, "groups": [{"nodes": 5, "vcores": 160.0}]})
    question = ask(mixed, Searched.NODES, {})
    assert question.density(mixed, 20.0) == pytest.approx(1.5 * (5 * 80 + 5 * 160) / (15 * 80 + 5 * 160))
    assert ask(mixed, Searched.DENSITY, {}).density(mixed, 1.7) == 1.7


def test_density_that_rises_keeps_its_shape():
    rising = scenario(workload={"density": 1.5, "density_end": 3.0})
    there = ask(rising, Searched.DENSITY, {}).scenario(rising, 1.0).workload
    assert (there.density, there.density_end) == (1.0, 2.0)


PLAN = {"workload": {"kind": "plan"}}
CRASHES = {"faults": {"crashes": [{"node": "n1", "at_hours": 1.0, "hours": 1.0}]}}


@pytest.mark.parametrize(
    ("sections", "searched", "words"),
    [
        (PLAN, Searched.NODES, "workload.kind: a plan has fixed tenants on fixed nodes"),
        (PLAN, Searched.DENSITY, "workload.kind: a plan has fixed tenants on fixed nodes"),
        (CRASHES, Searched.NODES, "faults.crashes: names nodes, and the names change"),
    ],
)
def test_impossible_questions_are_refused(sections, searched, words):
    with pytest.raises(ScenarioError, match=words):
        ask(scenario(**sections), searched, {})


@pytest.mark.parametrize("nodes", [25_000, 25_001, 60_000, MOST_NODES])
def test_search_stops_at_the_largest_cluster(nodes):
    """The default upper bound, four times the nodes of the scenario, can exceed the limit of a scenario."""
    question = ask(scenario(cluster={**small_region()["cluster"], "nodes": nodes}), Searched.NODES, {})
    assert question.highest == min(4 * nodes, MOST_NODES)
    assert question.scenario(scenario(), question.easiest).cluster.nodes == question.highest


@pytest.mark.parametrize(
    ("limits", "words"),
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
        ({"lowest": 300.0}, "lowest = 300.0 is not allowed; expected at most 40, the end of the search without --high"),
    ],
)
def test_values_out_of_range_are_refused(limits, words):
    with pytest.raises(InvalidValueError, match=words):
        ask(scenario(), Searched.NODES, limits)


def searched(sufficient, start, lowest, highest, first_step):
    """Return the result of the search, and the tried places in order."""
    search = least_sufficient(start, lowest, highest, first_step)
    tried = [next(search)]
    while True:
        try:
            tried.append(search.send(tried[-1] in sufficient))
        except StopIteration as end:
            return end.value, tried


@st.composite
def lines(draw):
    """Return both ends of a line, a start on it, and a first step."""
    lowest = draw(st.integers(-60, 60))
    highest = draw(st.integers(lowest, lowest + 120))
    return draw(st.integers(lowest, highest)), lowest, highest, draw(st.integers(1, 9))


@given(lines(), st.integers(-70, 190))
def test_smallest_sufficient_place_is_found_on_a_monotone_curve(line, edge):
    _, lowest, highest, _ = line
    sufficient = {place for place in range(lowest, highest + 1) if place >= edge}
    assert searched(sufficient, *line)[0] == min(sufficient, default=None)


@given(lines(), st.sets(st.integers(-60, 180)))
def test_answer_suffices_and_its_predecessor_fails_on_any_curve(line, sufficient):
    """The curve need not be monotone. Without an answer, the last place was tried and fails."""
    _, lowest, highest, _ = line
    found, tried = searched(sufficient, *line)
    assert len(set(tried)) == len(tried)
    assert all(lowest <= place <= highest for place in tried)
    if found is None:
        assert highest in tried
        assert highest not in sufficient
    else:
        assert found in tried
        assert found in sufficient
        assert found == lowest or (found - 1 in tried and found - 1 not in sufficient)


@given(lines(), st.integers(-70, 190))
def test_number_of_tries_is_logarithmic(line, edge):
    start, lowest, highest, _ = line
    sufficient = {place for place in range(lowest, highest + 1) if place >= edge}
    found, tried = searched(sufficient, *line)
    distance = abs(start - (highest if found is None else found))
    assert len(tried) <= 2 * math.log2(distance + line[3] + 1) + 4
