"""Why a replica fits nowhere: what each rule tells of the nodes that it excludes equals the definition."""

from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import NodeViolation, OverApplicationCapacity, Role, UnevenSpread
from plb.array_types import NOWHERE
from plb.constraints.affinity import WithoutParent
from plb.constraints.application_capacity import ApplicationFull
from plb.constraints.capacity import Full, Shortage
from plb.constraints.domains import ANY, EVEN, Crowded, FullDomain
from plb.constraints.exclusion import Taken
from plb.constraints.scale_out import BeyondScaleOut
from plb.extensions.configuration import Proposal
from plb.model.outcome import Unplaced
from plb.model.rules import ALL_RULES, Rule
from plb.planning.explanations.diagnosis import unplaced_row
from plb.planning.rule_priorities import placement_masks
from tests.engine.applications_by_hand import kept_free, leaving_load, load_of, members, standing
from tests.engine.listings_by_hand import (
    Situation,
    applications_with_reservation,
    domain_name,
    levels_of,
    nodes_of_application,
    open_nodes,
    parent_of,
)
from tests.engine.oracle import ring
from tests.engine.refusals_by_hand import by_hand, departed
from tests.engine.ruled_clusters import visited_engines
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

NUMBERED = (Rule.EXCLUSION, Rule.FAULT_DOMAIN, Rule.UPGRADE_DOMAIN, Rule.SCALE_OUT, Rule.AFFINITY)
"""Rules besides the two of capacity that give more than the number of the nodes that they exclude."""


@attrs.frozen
class Seeking:
    """A new replica without a node, and its situation."""

    situation: Situation
    row: int

    def standby_on(self, node: int) -> int:
        """Return the standby of its partition on a node, or NOWHERE."""
        problem, places = self.situation.problem, self.situation.places
        found = [one for one in ring(problem, self.row) if problem.standby[one] and places[one] == node]
        return found[0] if found else NOWHERE


@st.composite
def seeking_replicas(draw: st.DrawFn) -> Seeking | None:
    """Draw a situation and a replica that had no node before it; none, if all have one."""
    situation = Situation(*draw(visited_engines()))
    configuration, origin = situation.configuration, situation.problem.origin
    new = [row for row in configuration.rows.tolist() if origin[row] == NOWHERE and situation.problem.movable[row]]
    if not new:
        return None
    row = draw(st.sampled_from(new))
    if configuration.node_of(row) != NOWHERE:
        configuration.apply(Proposal(row, NOWHERE))
    return Seeking(situation, row)


def refused_by(seeking: Seeking, enforced: int) -> dict[Rule, list[int]]:
    right, found = by_hand(seeking.situation.configuration, enforced), {}
    for node in range(seeking.situation.configuration.nodes):
        rule = right.refusal(Proposal(seeking.row, node))
        if rule >= 0:
            found.setdefault(Rule(rule), []).append(node)
    return dict(sorted(found.items()))


def full(seeking: Seeking, nodes: list[int]) -> Full:
    """Return the metrics of which nodes have too little, with the numbers of the node that lacks least."""
    metrics, found = seeking.situation.metrics, []
    for metric in range(len(metrics)):
        lacking = [lack for node in nodes if (lack := shortage(seeking, node, metric, len(nodes))) is not None]
        if lacking:
            least = min(lacking, key=lambda lack: lack.missing)
            found.append(attrs.evolve(least, nodes=len(lacking)))
    return Full(len(nodes), tuple(found))


def shortage(seeking: Seeking, node: int, metric: int, nodes: int) -> Shortage | None:
    situation, standby = seeking.situation, seeking.standby_on(node)
    problem, places = situation.problem, situation.places
    before = standing(problem, places, node)
    after = [one for one in before if one != standby] + [seeking.row]
    kept = [kept_free(problem, rows)[metric] for rows in (before, after)]
    loads = [load_of(problem, rows)[metric] + of for rows, of in zip((before, after), kept, strict=True)]
    gives_way = load_of(problem, [standby] if standby != NOWHERE else [])[metric]
    growth = int(loads[1] - loads[0])
    needed = growth + gives_way
    free = problem.limit[node, metric] - loads[0] - problem.leaving_load[node, metric] + gives_way
    if problem.counts_departed and problem.transient[metric]:
        free -= departed(problem, places)[node, metric]
    if growth <= 0 or free >= needed:
        return None
    reserved_for = applications_with_reservation(situation, node, metric) if problem.reserves else ()
    name, emptiest = situation.metrics[metric], situation.node(node)
    return Shortage(name, nodes, needed, max(0, int(free)), emptiest, int(needed - free), reserved_for)


def crowded(seeking: Seeking, rule: Rule, nodes: list[int]) -> Crowded:
    """Return the domains of nodes at the first level at which the replica may not join them."""
    situation, problem = seeking.situation, seeking.situation.problem
    right, found = by_hand(situation.configuration, ALL_RULES), {}
    for node in nodes:
        level = next(one for one in levels_of(problem, rule) if right._crowds(one, seeking.row, node))
        name = domain_name(situation, level, node)
        found.setdefault(name, full_domain(seeking, name, node, level))
    return Crowded(rule.name.lower(), len(nodes), tuple(found.values()))


def full_domain(seeking: Seeking, name: str, node: int, level: int) -> FullDomain:
    """Return the replicas in the domain of a node, and how many it may have once there is one more."""
    situation, problem, row = seeking.situation, seeking.situation.problem, seeking.row
    domain, parent = problem.domain[:, level], problem.parent[:, level]
    counts_on = open_nodes(problem, row, level)
    at = [situation.places[one] for one in situation.counting([row, *ring(problem, row)])]
    at = [place for place in at if place in counts_on]
    here = sum(domain[place] == domain[node] for place in at)
    most = int(problem.most_in_domain[problem.service[row], level])
    if most == EVEN:
        domains = {int(domain[one]) for one in counts_on if parent[one] == parent[node]}
        share = (sum(parent[place] == parent[node] for place in at) + 1) / len(domains)
        most = math.ceil(share) if here >= math.ceil(share) else math.floor(share)
    return FullDomain(name, here, most)


def application_full(seeking: Seeking, nodes: list[int]) -> list[ApplicationFull]:
    """Return, for each node, the capacity of its application that the replica exceeds most."""
    situation, row = seeking.situation, seeking.row
    problem, places, application = situation.problem, situation.places, int(situation.problem.application[row])
    total = load_of(problem, members(problem, places, application)), problem.application_limit[application]
    found = []
    for node in nodes:
        standby = seeking.standby_on(node)
        growth = problem.load[row] - load_of(problem, [standby] if standby != NOWHERE else [])
        there = load_of(problem, members(problem, places, application, node))
        there = there + leaving_load(problem, application, node)
        of_node = there, problem.application_node_limit[application]
        exceeds_total = bool(((growth > 0) & (total[0] + growth > total[1])).any())
        load, limit = total if exceeds_total else of_node
        grows = [metric for metric in range(len(growth)) if growth[metric] > 0]
        most = max(grows, key=lambda metric: load[metric] + growth[metric] - limit[metric])
        where = None if exceeds_total else situation.node(node)
        names = situation.application(application), situation.metrics[most]
        found.append(ApplicationFull(len(nodes), *names, where, growth[most], load[most], limit[most]))
    return found


def concerned(seeking: Seeking, rules: int) -> list[str]:
    """Return the names of those of some rules that concern the service of the replica."""
    situation, problem, row = seeking.situation, seeking.situation.problem, seeking.row
    service = situation.configuration.service_of(row)
    limits = problem.most_in_domain[problem.service[row]]
    has_limits = problem.application[row] != NOWHERE
    concerns = {
        Rule.PREFERRED_LOCATION: bool(problem.prefers_siblings[row]),
        Rule.THROTTLING: bool(problem.throttles),
        Rule.SCALE_OUT: has_limits,
        Rule.APPLICATION_CAPACITY: has_limits,
        Rule.AFFINITY: service.affinity_to is not None,
        **{
            rule: any(limits[level] != ANY for level in levels_of(problem, rule))
            for rule in (Rule.FAULT_DOMAIN, Rule.UPGRADE_DOMAIN)
        },
    }
    return [rule.name.lower() for rule in Rule if rules >> rule & 1 and concerns.get(rule, True)]


def check_diagnosis(seeking: Seeking, rule: Rule, nodes: list[int], found: object) -> None:
    """Compare what one rule tells of the nodes that it excludes with the definition."""
    situation, row = seeking.situation, seeking.row
    application = int(situation.problem.application[row])
    names = tuple(situation.node(node) for node in nodes)
    assert (found.rule, found.nodes) == (rule.name.lower(), len(nodes))
    if rule is Rule.EXCLUSION:
        assert found == Taken(len(nodes), names)
    elif rule in (Rule.FAULT_DOMAIN, Rule.UPGRADE_DOMAIN):
        assert found == crowded(seeking, rule, nodes)
    elif rule is Rule.CAPACITY:
        assert found == full(seeking, nodes)
    elif rule is Rule.SCALE_OUT:
        most, used = int(situation.problem.most_nodes[application]), nodes_of_application(situation, application)
        assert found == BeyondScaleOut(len(nodes), situation.application(application), most, used)
    elif rule is Rule.APPLICATION_CAPACITY:
        each = application_full(seeking, nodes)
        assert found in each
        assert found.distance == min((one.load + one.needed - one.limit) / one.needed for one in each)
    elif rule is Rule.AFFINITY:
        assert found == WithoutParent(len(nodes), *parent_of(situation, row))


def diagnosis_of(seeking: Seeking, masks: tuple[int, ...]) -> Unplaced:
    return unplaced_row(seeking.situation.named, seeking.row, masks)


@examples(200)
@given(seeking_replicas(), st.sampled_from(NUMBERED))
def test_diagnosis_of_each_rule_equals_its_definition(seeking, numbered):
    """Every node counts at the first rule that excludes it, and each rule gives the numbers that it compares.

    So it is under the masks of a placement, and if all rules but one, and those that hold always, are given up.
    """
    if seeking is None:
        return
    alone = [1 << rule | 1 << Rule.PLACEMENT for rule in (numbered, Rule.CAPACITY, Rule.APPLICATION_CAPACITY)]
    for mask in (*placement_masks(seeking.situation.engine.config), *alone):
        found, right = diagnosis_of(seeking, (mask,)).diagnosis, refused_by(seeking, mask)
        assert [one.rule for one in found] == [rule.name.lower() for rule in right]
        for one, (rule, nodes) in zip(found, right.items(), strict=True):
            check_diagnosis(seeking, rule, nodes, one)


@examples(150)
@given(seeking_replicas(), st.integers(0, ALL_RULES))
def test_rules_that_were_given_up_are_named_if_they_concern_the_replica(seeking, given_up):
    """A rule that binds no replica of its service was not given up for it."""
    if seeking is not None:
        found = diagnosis_of(seeking, (ALL_RULES, ALL_RULES & ~given_up))
        assert [*found.given_up] == concerned(seeking, given_up)
        assert found.partition == seeking.situation.configuration.partition_of(seeking.row)
        assert found.role == Role(int(seeking.situation.problem.role[seeking.row]))


def test_texts_of_what_is_full():
    """The words have the numbers, and the missing share of a need is the distance of a node."""
    short = Shortage("cpu", 2, 5.0, 3.0, "n0", 2.0)
    assert str(short) == "5 cpu needed, at most 3 free, on n0"
    assert str(attrs.evolve(short, reserved_for=("a", "b"))) == f"{short}, which reserves some for a, b"
    other = Shortage("memory", 1, 8.0, 2.0, "n1", 6.0)
    both = Full(2, (short, other))
    assert str(both) == f"{short}; {other}"
    assert (both.distance, Full(2, ()).distance) == (0.75, 1.0)
    assert [*both.changes("n7", ())] == [
        "2 more cpu must be free on n7 (it needs 5 and 3 is free)",
        "6 more memory must be free on n7 (it needs 8 and 2 is free)",
    ]


@pytest.mark.parametrize(
    ("load", "limit", "words"),
    [
        (5.0, None, "at or above its threshold of 4"),
        (5.0, 5.0, "at or above its threshold of 4"),
        (6.0, 5.0, "above its limit of 5"),
        (6.0, 3.0, "at or above its threshold of 4"),
        (6.0, 4.0, "above its limit of 4"),
    ],
)
def test_text_of_an_overloaded_node_names_the_higher_bound_that_it_exceeds(load, limit, words):
    """That is the limit, unless the load is within it, the limit is below the threshold, or it is not known."""
    found = NodeViolation("n0", "cpu", load, 4.0, limit)
    assert str(found) == f"cpu of node n0 is {load:g}, {words}"
    assert dict(found.numbers) == {"load": load, "threshold": 4.0} | ({} if limit is None else {"limit": limit})


def test_texts_of_what_domains_hold():
    """A full domain says what it may hold, and an uneven one which of its two bounds it misses."""
    full = Crowded("fault_domain", 3, (FullDomain("fd:/a", 2, 1), FullDomain("fd:/b", 4, 3)))
    assert str(full) == "fd:/a holds 2 and may hold 1, fd:/b holds 4 and may hold 3"
    assert [*full.changes("n0", ())] == [
        "a replica of the partition must leave fd:/a (fd:/a holds 2 and may hold 1)",
        "a replica of the partition must leave fd:/b (fd:/b holds 4 and may hold 3)",
    ]
    ends = {0: "no replica of p; at least 1 required", 1: "1 replica of p; at least", 3: "3 replicas of p; at most 2"}
    for count, end in ends.items():
        uneven = UnevenSpread("upgrade_domain", "p", "ud0", 1, count, least=1, most=2)
        assert f"upgrade domain ud0 holds {end}" in str(uneven)
        assert dict(uneven.numbers) == {"replicas": count, "least": 1, "most": 2}
        assert not hasattr(uneven, "__dict__"), "lists of violations may be long"


def test_texts_of_what_applications_exceed():
    """The missing share of the need is the distance, and what must change is missing on the node that is asked for."""
    full = ApplicationFull(2, "app", "cpu", "n0", needed=4.0, load=9.0, limit=10.0)
    in_all = attrs.evolve(full, node=None)
    assert str(full) == "4 cpu needed; application app has 9 of 10 on n0"
    assert str(in_all) == "4 cpu needed; application app has 9 of 10 in all"
    assert [*full.changes("n7", ())] == [f"application app must have 3 less cpu on n7 ({full})"]
    assert [*in_all.changes("n7", ())] == [f"application app must have 3 less cpu in all ({in_all})"]
    assert (full.distance, attrs.evolve(full, needed=0.0).distance) == (0.75, 1.0)
    over = OverApplicationCapacity("app", "cpu", "n0", load=12.0, limit=10.0)
    assert str(over) == "cpu of application app on node n0 is 12, above its limit of 10"
    assert str(attrs.evolve(over, node=None)) == "cpu of application app in all is 12, above its limit of 10"
    assert dict(over.numbers) == {"load": 12.0, "limit": 10.0}
