"""Terms of the moves of a plan: the most moved service, and costs by the domains that moves lead from and to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from plb.array_types import NOWHERE, Float, Int
from plb.compiler import by_pointer, kernel
from plb.errors import InvalidValueError
from plb.extensions.configuration import Configuration
from plb.extensions.energy_terms import CompiledTerm
from plb.extensions.kernel_data import Values
from plb.model import Node
from plb.state.arrays import Problem, Proposal, Solution, are_siblings, siblings_of
from plb.validation import (
    check_collection,
    check_count,
    check_mapping,
    check_name,
    check_names,
    check_number,
    check_switch,
    check_text,
)


@kernel
def _node_after(solution: Solution, proposal: Proposal, row: int) -> int:
    """Return the node of a replica after a proposal, or NOWHERE."""
    if row == proposal.row:
        return proposal.target
    if row == proposal.partner:
        return proposal.source
    return int(solution.node[row])


@kernel
def moved_to(problem: Problem, solution: Solution, proposal: Proposal, row: int) -> int:
    """Return the node to which a replica has moved after a proposal, or NOWHERE if it has not; O(siblings).

    A new replica, a dropped one and one that has swapped roles has not moved. A proposal for the row NOWHERE changes
    nothing.
    """
    origin, node = problem.origin[row], _node_after(solution, proposal, row)
    if NOWHERE in (origin, node) or node == origin or problem.leaving[row]:
        return NOWHERE
    sibling = problem.sibling[row]
    while sibling != row:
        may_swap = problem.origin[sibling] == node and not problem.leaving[sibling]
        if may_swap and _node_after(solution, proposal, sibling) == origin:
            return NOWHERE
        sibling = problem.sibling[sibling]
    return node


def moved_rows(configuration: Configuration) -> list[int]:
    """Return the rows of the replicas that have moved, ascending; one that has swapped roles has not moved."""
    problem, node = configuration.problem, configuration.solution.node
    rows = configuration.rows
    origin = problem.origin[rows]
    displaced = rows[(origin != NOWHERE) & (node[rows] != NOWHERE) & (node[rows] != origin)].tolist()
    ends = {(row, int(problem.origin[row]), int(node[row])) for row in displaced}
    return [
        row
        for row, start, end in sorted(ends)
        if not any((sibling, end, start) in ends for sibling in siblings_of(problem, row))
    ]


@by_pointer
class MovesOfServices(NamedTuple):
    """Sums of the kernels."""

    moves: Int
    """(S,) moved replicas of each service."""
    services: Int
    """(M+1,) number of services with each number of moved replicas."""
    most: Int
    """(1,) the largest number of moved replicas of a service."""


@kernel
def _more_moves(problem: Problem, solution: Solution, proposal: Proposal, first: int) -> int:
    """Return by how many a proposal raises the number of moved replicas in the partition of the row `first`."""
    no_move = Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    more, row = 0, first
    while True:
        more += int(moved_to(problem, solution, proposal, row) != NOWHERE)
        more -= int(moved_to(problem, solution, no_move, row) != NOWHERE)
        row = problem.sibling[row]
        if row == first:
            return more


@kernel
def _changes(problem: Problem, solution: Solution, proposal: Proposal) -> tuple[int, int, int, int]:
    """Return the service of a proposal's row and by how many its moved replicas rise, then the same of its partner's.

    The second service is NOWHERE, with 0, if there is no partner, or one of the same service.
    """
    row, partner = proposal.row, proposal.partner
    service, second = int(problem.service[row]), NOWHERE
    more, second_more = _more_moves(problem, solution, proposal, row), 0
    if partner != NOWHERE and not are_siblings(problem, row, partner):
        more_of_partner = _more_moves(problem, solution, proposal, partner)
        if problem.service[partner] == service:
            more += more_of_partner
        else:
            second, second_more = int(problem.service[partner]), more_of_partner
    return service, more, second, second_more


@kernel
def _most_after(sums: MovesOfServices, service: int, more: int, second: int, second_more: int) -> int:
    """Return the largest number of moved replicas of a service after a change of two; O(largest decrease).

    `service` has `more` moved replicas, and `second`, unless it is NOWHERE, `second_more`.
    """
    before = sums.moves[service]
    most_changed, second_before = before + more, NOWHERE
    if second != NOWHERE:
        second_before = sums.moves[second]
        most_changed = max(most_changed, second_before + second_more)
    most = sums.most[0]
    while most > most_changed:
        if sums.services[most] > int(before == most) + int(second_before == most):
            return int(most)
        most -= 1
    return int(most_changed)


@kernel
def change_of_most_moved(
    problem: Problem, solution: Solution, _data: Values, sums: MovesOfServices, proposal: Proposal
) -> float:
    """Return the change of the largest number of moved replicas of a service by a proposal."""
    service, more, second, second_more = _changes(problem, solution, proposal)
    return float(_most_after(sums, service, more, second, second_more) - sums.most[0])


@kernel
def keep_moves_of_services(
    problem: Problem, solution: Solution, _data: Values, sums: MovesOfServices, proposal: Proposal
) -> None:
    """Update the sums before a proposal is applied."""
    service, more, second, second_more = _changes(problem, solution, proposal)
    sums.most[0] = _most_after(sums, service, more, second, second_more)
    _count(sums, service, more)
    if second != NOWHERE:
        _count(sums, second, second_more)


@kernel
def _count(sums: MovesOfServices, service: int, more: int) -> None:
    """Count `more` moved replicas of a service in `moves` and `services`."""
    sums.services[sums.moves[service]] -= 1
    sums.moves[service] += more
    sums.services[sums.moves[service]] += 1


class MostMovedService(CompiledTerm):
    """The largest number of moved replicas of one service.

    The total is max over services of the number of their replicas that are on another node than before the search. New
    replicas, dropped ones and swaps of roles do not count. Without any service it is 0.

    Source: ROADEF/EURO challenge 2012, "Google machine reassignment", problem statement, service move cost.

    Parameters
    ----------
    name
        Name of the term in settings and plans.
    """

    name = "most_moved_service"
    change = change_of_most_moved
    keep = keep_moves_of_services

    def __init__(self, *, name: str = name) -> None:
        super().__init__()
        self.name = check_name("energy term", name)

    def new_sums(self, configuration: Configuration) -> MovesOfServices:
        """Return the numbers of moved replicas."""
        moves = self._moves(configuration)
        services = np.bincount(moves, minlength=len(configuration.solution.node) + 1)
        return MovesOfServices(moves, services, np.array([moves.max(initial=0)]))

    def total(self, configuration: Configuration) -> float:
        """Return the largest number of moved replicas."""
        return float(self._moves(configuration).max(initial=0))

    def _moves(self, configuration: Configuration) -> Int:
        """Return the number of moved replicas of each service, (S,)."""
        services = configuration.problem.service[moved_rows(configuration)]
        moves: Int = np.bincount(services, minlength=len(configuration.solution.service_moves))
        return moves


PAIR = "a pair of two different domains"
"""What errors say that a key of costs has to be."""


@by_pointer
class CostsOfDomains(NamedTuple):
    """Data of the kernel, for K domains that have a cost of their own."""

    domain: Int
    """(N,) number of the domain of each node."""
    named: Int
    """(N,) number of the node's domain among the K domains, from 1; 0: it is none of them."""
    cost: Float
    """(K+1, K+1) cost of the move of one replica from a domain, the first index, to another one; numbers of `named`."""


@kernel
def _cost_between(data: CostsOfDomains, start: int, end: int) -> float:
    """Return the cost of the move of one replica from the node `start` to the node `end`."""
    if data.domain[start] == data.domain[end]:
        return 0.0
    return float(data.cost[data.named[start], data.named[end]])


@kernel
def _cost_of_partition(
    problem: Problem, solution: Solution, data: CostsOfDomains, proposal: Proposal, first: int
) -> float:
    """Return the cost of all moves in the partition of the row `first` after a proposal."""
    cost, row = 0.0, first
    while True:
        node = moved_to(problem, solution, proposal, row)
        if node != NOWHERE:
            cost += _cost_between(data, problem.origin[row], node)
        row = problem.sibling[row]
        if row == first:
            return cost


@kernel
def change_of_move_costs(
    problem: Problem, solution: Solution, data: CostsOfDomains, _sums: Values, proposal: Proposal
) -> float:
    """Return the change of the cost by a proposal: of one partition, or of two in an exchange."""
    row, partner = proposal.row, proposal.partner
    no_move = Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    change = _cost_of_partition(problem, solution, data, proposal, row)
    change -= _cost_of_partition(problem, solution, data, no_move, row)
    if partner != NOWHERE and not are_siblings(problem, row, partner):
        change += _cost_of_partition(problem, solution, data, proposal, partner)
        change -= _cost_of_partition(problem, solution, data, no_move, partner)
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
        By pair of domains (from, to) the cost of the move of one replica, at least 0; or with `domains` a table,
        (K, K), of the costs from each of these to each, whose diagonal has no effect.
    domains
        If given, the names of the K different domains of the table, in its order.
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
    not have are ignored. The kernel has a table of all pairs of the K domains that have costs, 8·K² bytes: 200 MB for
    costs of 5,000 nodes.

    Raises
    ------
    InvalidValueError
        If a value is out of range, a pair has one domain twice, both `depth` and `node_property` are given, or a table
        has another shape than its domains ask for.
    """

    name = "move_cost_between_domains"
    change = change_of_move_costs

    def __init__(
        self,
        costs: Mapping[tuple[str, str], float] | npt.ArrayLike,
        *,
        domains: Sequence[str] | None = None,
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
        if domains is None:
            pairs = check_mapping(item, "costs", costs, "a mapping of pairs of domains to numbers")
            self._named, self._cost = self._table_of_pairs(item, pairs)
        else:
            self._named, self._cost = self._table(item, domains, costs)

    def _table_of_pairs(self, item: str, costs: Mapping[object, object]) -> tuple[dict[str, int], Float]:
        """Return the number of each of K named domains, from 1, and (1 + K, 1 + K) costs, from `costs` by pair."""
        checked = {
            self._pair(item, pair): check_number(item, f"costs[{pair}]", cost)  # type: ignore[arg-type]
            for pair, cost in costs.items()
        }
        named = {
            name: 1 + number for number, name in enumerate(dict.fromkeys(name for pair in checked for name in pair))
        }
        table = np.full((1 + len(named), 1 + len(named)), self.default)
        for (start, end), cost in checked.items():
            table[named[start], named[end]] = cost
            if self.symmetric and (end, start) not in checked:
                table[named[end], named[start]] = cost
        return named, table

    def _table(self, item: str, domains: Sequence[str], costs: object) -> tuple[dict[str, int], Float]:
        """Return the number of each of K named domains, from 1, and (1 + K, 1 + K) costs, from a table, (K, K)."""
        names = [self._path_of(name) for name in check_names(item, "domains", domains)]
        if len(set(names)) < len(names):
            raise InvalidValueError(item, "domains", list(names), "different domains")
        table = np.full((1 + len(names), 1 + len(names)), self.default)
        table[1:, 1:] = _checked_table(item, costs, len(names))
        return {name: 1 + number for number, name in enumerate(names)}, table

    def _path_of(self, domain: str) -> str:
        """Return the name of a domain, if it is a fault domain without the prefix and slashes that may be left out."""
        return domain if self.depth is None else _path(domain)

    def _pair(self, item: str, pair: object) -> tuple[str, str]:
        """Return `pair`, a key of the costs, as the names of two different domains; refuse others."""
        members = check_collection(item, "costs", pair, PAIR)
        if len(members) != 2 or not all(isinstance(name, str) for name in members):
            raise InvalidValueError(item, "costs", pair, PAIR)
        start, end = (self._path_of(check_text(item, "costs", name)) for name in members)
        if start == end:
            raise InvalidValueError(item, "costs", pair, PAIR)
        return start, end

    def domain_of(self, node: Node) -> str | None:
        """Return the name of the domain of a node; None if it is in a domain of its own, without a name."""
        if self.depth is not None:
            return _path("/".join(node.fault_domain_path[: self.depth]))
        return node.name if self.node_property is None else node.placement_properties.get(self.node_property)

    def new_data(self, configuration: Configuration) -> CostsOfDomains:
        """Return the domains of the nodes, and the costs between domains with costs of their own."""
        names = [self.domain_of(configuration.node(index)) for index in range(configuration.nodes)]
        numbers: dict[object, int] = {}
        keys = [(index, None) if name is None else name for index, name in enumerate(names)]
        domain = [numbers.setdefault(key, len(numbers)) for key in keys]
        named = [0 if name is None else self._named.get(name, 0) for name in names]
        return CostsOfDomains(np.array(domain, np.int64), np.array(named, np.int64), self._cost)

    def total(self, configuration: Configuration) -> float:
        """Return the cost of the replicas that have moved."""
        data, rows = self.new_data(configuration), moved_rows(configuration)
        start, end = configuration.problem.origin[rows], configuration.solution.node[rows]
        costs = data.cost[data.named[start], data.named[end]]
        return float(costs[data.domain[start] != data.domain[end]].sum())


def _checked_table(item: str, costs: object, domains: int) -> Float:
    """Return `costs` as a table between a number of `domains`, (domains, domains); refuse others."""
    allowed = f"a table of finite numbers >= 0 with {domains} rows and {domains} columns"
    try:
        table = np.asarray(costs, np.float64)
    except (TypeError, ValueError):
        raise InvalidValueError(item, "costs", costs, allowed) from None
    if table.shape != (domains, domains):
        raise InvalidValueError(item, "costs", f"an array of shape {table.shape}", allowed)
    if wrong := np.argwhere(~(np.isfinite(table) & (table >= 0))).tolist():
        raise InvalidValueError(item, f"costs{wrong[0]}", float(table[tuple(wrong[0])]), allowed)
    return table


def _path(domain: str) -> str:
    """Return a fault domain without the prefix and the slashes that users may leave out."""
    return "/".join(part for part in domain.removeprefix("fd:").split("/") if part)
