"""The cost of moves between domains: by hand, after random walks, at the optimum, and with bad input."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb import InvalidValueError, Node
from plb.extensions.configuration import Proposal
from plb.extensions.energy_terms import apply_proposal_of_terms, begin, delta
from plb.ready_made import MoveCostBetweenDomains
from plb.testing import small_clusters, verify
from tests.machines import short_machine_of
from tests.terms.walks import engine_with

pytestmark = pytest.mark.kernels

zones = small_clusters(
    nodes=st.sampled_from([{"properties": {"zone": "east"}}, {"properties": {"zone": "west"}}, {}]),
)
COSTS = {("east", "west"): 3.0, ("west", "east"): 5.0}
RACKS = MoveCostBetweenDomains({("fd:/a", "b"): 4.0}, depth=1, default=1.0)

TestZones = short_machine_of(MoveCostBetweenDomains(COSTS, node_property="zone", default=0.5), clusters=zones)
TestNodes = short_machine_of(MoveCostBetweenDomains({("n0", "n1"): 2.0}, symmetric=False, default=1.5))

NODES = [
    Node("n0", fault_domain="fd:/a/r0"),
    Node("n1", fault_domain="fd:/a/r1"),
    Node("n2", fault_domain="fd:/b/r0"),
    Node("n3"),
]


@pytest.mark.parametrize(
    ("term", "costs"),
    [
        (RACKS, [0, 0, 4, 1]),
        (MoveCostBetweenDomains({("a/r0", "/a/r1"): 7.0}, depth=2), [0, 7, 0, 0]),
        (MoveCostBetweenDomains({("n1", "n0"): 7.0, ("n0", "n2"): 2}), [0, 7, 2, 0]),
        (MoveCostBetweenDomains({("n1", "n0"): 7.0, ("n0", "n2"): 2}, symmetric=False, default=3), [0, 3, 2, 3]),
        (MoveCostBetweenDomains({("fd:/a/r0", "fd:/b/r0"): 6}, node_property="FaultDomain", default=1), [0, 1, 6, 1]),
        (MoveCostBetweenDomains({("n0", "nowhere"): 6}), [0, 0, 0, 0]),
        (MoveCostBetweenDomains([[9, 7], [6, 9]], domains=["n0", "n2"], default=2), [0, 2, 7, 2]),
        (MoveCostBetweenDomains([[0, 7], [6, 0]], domains=["b", "fd:/a"], depth=1, default=2), [0, 0, 6, 2]),
    ],
)
def test_moves_by_hand(term: MoveCostBetweenDomains, costs: list[float]):
    """A replica of the first node moves to each node in turn; what counts is the way from its first node."""
    facts = verify(term).given(nodes=NODES, replicas=[(0, 1)])
    facts.totals(0)
    for node in (1, 2, 3, 2, 1, 0):
        facts.moves((0, node)).totals(costs[node])


def test_a_swap_of_roles_is_free():
    """A third node breaks the swap: then both replicas have moved."""
    term = MoveCostBetweenDomains({}, default=1.0)
    facts = verify(term).given(nodes=3, replicas=[(0, 1, "p"), (1, 1, "p")])
    facts.exchanges((0, 1)).changes_by(0).moves((0, 2)).changes_by(2).moves((0, 1)).changes_by(0)
    facts.exchanges((0, 1)).changes_by(0).totals(0)


def test_new_and_dropped_replicas_are_free():
    """A replica that was on no node before the search has no way, and one that is dropped has no end."""
    engine = engine_with(MoveCostBetweenDomains({}, default=1.0), [(1, 1)], ["s"])
    facts = verify(MoveCostBetweenDomains({}, default=1.0)).given(nodes=2, replicas=[(0, 1), (0, 1)])
    term, configuration = facts.subject, facts.configuration
    begin(term, configuration)
    for target, cost in ((1, 1), (-1, 0), (1, 1)):
        apply_proposal_of_terms((term,), configuration, Proposal(0, target))
        assert term.total(configuration) == cost
    assert engine.balance().energy_after.extension_terms == {"move_cost_between_domains": 0}


@settings(max_examples=60, deadline=None)
@given(
    racks=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=6),
    costs=st.dictionaries(
        st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")).filter(lambda pair: pair[0] != pair[1]),
        st.integers(0, 9),
    ),
    symmetric=st.booleans(),
    default=st.integers(0, 9),
)
def test_kernel_has_the_cost_of_every_pair_of_nodes(racks, costs, symmetric: bool, default: int):
    term = MoveCostBetweenDomains(costs, node_property="rack", symmetric=symmetric, default=default)
    nodes = [Node(f"n{i}", properties={} if rack is None else {"rack": rack}) for i, rack in enumerate(racks)]
    for start, rack in enumerate(racks):
        configuration = verify(term).given(nodes=nodes, replicas=[(start, 1)]).configuration
        begin(term, configuration)
        for end, other in enumerate(racks):
            if start == end or (rack == other and rack is not None):
                right = 0
            else:
                right = costs.get((rack, other), costs.get((other, rack), default) if symmetric else default)
            if start != end:
                assert delta(term, configuration, Proposal(0, end)) == right
    assert len(term.data.cost) <= 1 + len({one for pair in costs for one in pair})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"costs": {("a", "a"): 1}}, r"costs = \('a', 'a'\) .* two different domains"),
        ({"costs": {("fd:/a", "a/"): 1}, "depth": 1}, "costs = .* two different domains"),
        ({"costs": {"ab": 1}}, "costs = 'ab' .* a pair"),
        ({"costs": {("a", 1): 1}}, "costs = .* a pair"),
        ({"costs": {("a", "b", "c"): 1}}, "costs = .* a pair"),
        ({"costs": {("a", "b"): -1}}, r"energy term move_cost_between_domains: costs\[\('a', 'b'\)\] = -1 .* >= 0"),
        ({"costs": [1]}, r"costs = \[1\] .* a mapping"),
        ({"costs": [[0, 1]], "domains": ["a", "b"]}, r"shape \(1, 2\).* 2 rows and 2 columns"),
        ({"costs": [[0, -1], [1, 0]], "domains": ["a", "b"]}, r"costs\[0, 1\] = -1.0"),
        ({"costs": [["x"]], "domains": ["a"]}, "costs = .* a table"),
        ({"costs": [[0, 1], [1, 0]], "domains": ["a", "a"]}, "domains = .*"),
        ({"costs": {}, "depth": 0}, "depth = 0 .* >= 1"),
        ({"costs": {}, "node_property": ""}, "node_property = ''"),
        ({"costs": {}, "depth": 1, "node_property": "zone"}, "node_property = 'zone' .* None beside a depth"),
        ({"costs": {}, "symmetric": 1}, "symmetric = 1"),
        ({"costs": {}, "default": -1}, "default = -1"),
    ],
)
def test_bad_values_are_refused(arguments: dict[str, object], message: str):
    with pytest.raises(InvalidValueError, match=message):
        MoveCostBetweenDomains(**arguments)  # type: ignore[arg-type]
