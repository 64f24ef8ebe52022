"""The term move cost between domains: what the moves of a plan cost, by the domains that they lead from and to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import by_pointer, kernel
from plb.errors import InvalidValueError
from plb.extensions.configuration import Configuration
from plb.extensions.energy_terms import CompiledTerm
from plb.model import Node
from plb.state.arrays import Problem, Solution, are_siblings
from plb.state.proposal import Proposal
from plb.terms.moved_rows import moved_rows, moved_to
from plb.validation import check_collection, check_count, check_mapping, check_name, check_number, check_switch

PAIR = "a pair of two different domains"


@by_pointer
class CostsOfDomains(NamedTuple):
    """Data of the kernel, for K domains that have a cost of their own."""

    domain: Int
    """(N,) domain of each node."""
    named: Int
    """(N,) number of that domain among those with a cost of their own, from 1; 0: it has none."""
    cost: Float
    """(K+1, K+1) cost of the move of one replica from the first domain to another one, the second."""


@kernel
def _cost_between(data: CostsOfDomains, start: int, end: int) -> float:
    """Return the cost of the move of one replica between two nodes."""
    if data.domain[start] == data.domain[end]:
        return 0.0
    return float(data.cost[data.named[start], data.named[end]])


@kernel
def _cost_of_partition(
    problem: Problem, solution: Solution, data: CostsOfDomains, proposal: Proposal, first: int
) -> float:
    """Return the cost of the moves of the partition of a row after a proposal."""
    cost, row = 0.0, first
    while True:
        place = moved_to(problem, solution, proposal, row)
        if place != NOWHERE:
            cost += _cost_between(data, problem.origin[row], place)
        row = problem.sibling[row]
        if row == first:
            return cost


@kernel
def change_of_move_costs(problem: Problem, solution: Solution, data: CostsOfDomains, proposal: Proposal) -> float:
    """Return the change of the cost by a proposal: of one partition, or of two in an exchange."""
    row, partner = proposal.row, proposal.partner
    still = Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    change = _cost_of_partition(problem, solution, data, proposal, row)
    change -= _cost_of_partition(problem, solution, data, still, row)
    if partner != NOWHERE and not are_siblings(problem, row, partner):
        change += _cost_of_partition(problem, solution, data, proposal, partner)
        change -= _cost_of_partition(problem, solution, data, still, partner)
    return change


class MoveCostBetweenDomains(CompiledTerm):
    """The cost of moves between domains.

    The total is Σ over moved replicas of cost(domain of the node before the search, domain of the node after it), in
    the unit of the costs. A move within a domain costs 0; so does a new replica, a dropped one, and a swap of roles.

    Source: ROADEF/EURO challenge 2012, "Google machine reassignment", problem statement, machine move cost. There the
    domains are the machines, which is the default here.

    Parameters
    ----------
    costs
        By pair of domains (from, to) the cost of the move of one replica, at least 0.
    depth
        If given, domains are the first `depth` levels of fault domains, such as ``"fd:/dc1"`` for 1; at least 1.
    node_property
        If given, domains are the values of this property of nodes (`Node.placement_properties`). A node without it is
        in a domain of its own.
    symmetric
        Whether a pair that is not named has the cost of the opposite pair, if that is named.
    default
        Cost of all other pairs, at least 0.
    name
        Name of the term in settings and plans.

    Without `depth` and `node_property`, each node is a domain with its own name. Names of domains that the cluster does
    not have are ignored. The kernel has a table of all pairs of the K domains that `costs` names, 8·K² bytes: 200 MB
    for costs that name 5,000 nodes.

    Raises
    ------
    InvalidValueError
        If a value is out of range, a pair has one domain twice, or both `depth` and `node_property` are given.
    """

    name = "move_cost_between_domains"
    change = change_of_move_costs

    def __init__(
        self,
        costs: Mapping[tuple[str, str], float],
        *,
        depth: int | None = None,
        node_property: str | None = None,
        symmetric: bool = True,
        default: float = 0.0,
        name: str = name,
    ) -> None:
        super().__init__()
        self.name = check_name("energy term", name)
        item = f"energy term {name}"
        if depth is not None and node_property is not None:
            raise InvalidValueError(item, "node_property", node_property, "None beside a depth")
        self.depth = None if depth is None else check_count(item, "depth", depth, low=1)
        self.node_property = None if node_property is None else check_name(item, node_property, field="node_property")
        self.symmetric = check_switch(item, "symmetric", symmetric)
        self.default = check_number(item, "default", default)
        given = check_mapping(item, "costs", costs, "a mapping of pairs of domains to numbers")
        self.costs = {
            self._pair(item, pair): check_number(item, f"costs[{pair}]", cost) for pair, cost in given.items()
        }

    def _pair(self, item: str, pair: object) -> tuple[str, str]:
        both = check_collection(item, "costs", pair, PAIR)
        if len(both) != 2 or not all(isinstance(one, str) for one in both):
            raise InvalidValueError(item, "costs", pair, PAIR)
        one, other = both if self.depth is None else map(_path, both)
        if one == other:
            raise InvalidValueError(item, "costs", pair, PAIR)
        return one, other

    def domain_of(self, node: Node) -> str | None:
        """Return the domain of a node; None if it is in one of its own, without a name."""
        if self.depth is not None:
            return _path("/".join(node.fault_domain_path[: self.depth]))
        return node.name if self.node_property is None else node.placement_properties.get(self.node_property)

    def cost_between(self, one: Node, other: Node) -> float:
        """Return the cost of the move of one replica between two nodes."""
        start, end = self.domain_of(one), self.domain_of(other)
        if one is other or (start == end and start is not None):
            return 0.0
        if start is None or end is None:
            return self.default
        opposite = self.costs.get((end, start), self.default) if self.symmetric else self.default
        return self.costs.get((start, end), opposite)

    def new_data(self, configuration: Configuration) -> CostsOfDomains:
        """Return the domains of the nodes, and the costs between those that have their own."""
        names = [self.domain_of(configuration.node(index)) for index in range(configuration.nodes)]
        known = set(names)
        pairs = {pair: cost for pair, cost in self.costs.items() if known.issuperset(pair)}
        named = {name: 1 + number for number, name in enumerate(dict.fromkeys(name for pair in pairs for name in pair))}
        cost = np.full((1 + len(named), 1 + len(named)), self.default)
        for (start, end), one in pairs.items():
            cost[named[start], named[end]] = one
            if self.symmetric and (end, start) not in pairs:
                cost[named[end], named[start]] = one
        domains: dict[object, int] = {}
        keys = [(index, None) if name is None else name for index, name in enumerate(names)]
        domain = [domains.setdefault(key, len(domains)) for key in keys]
        of_nodes = [0 if name is None else named.get(name, 0) for name in names]
        return CostsOfDomains(np.array(domain, np.int64), np.array(of_nodes, np.int64), cost)

    def total(self, configuration: Configuration) -> float:
        """Return the cost of the replicas that have moved."""
        node, origin = configuration.solution.node, configuration.problem.origin
        ends = [(configuration.node(int(origin[row])), int(node[row])) for row in moved_rows(configuration)]
        return float(sum(self.cost_between(start, configuration.node(end)) for start, end in ends))


def _path(domain: str) -> str:
    """Return a fault domain without the prefix and the slashes that users may leave out."""
    return "/".join(part for part in domain.removeprefix("fd:").split("/") if part)
