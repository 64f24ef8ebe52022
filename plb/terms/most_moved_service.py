"""The term most moved service: the largest number of replicas of one service that a plan moves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import by_pointer, kernel
from plb.extensions.configuration import Configuration
from plb.extensions.energy_terms import CompiledTerm
from plb.state.arrays import Problem, Solution, are_siblings
from plb.state.proposal import Proposal
from plb.terms.moved_rows import moved_rows, moved_to
from plb.validation import check_name


@by_pointer
class MovesOfServices(NamedTuple):
    """Sums of the kernels."""

    moves: Int
    """(S,) moved replicas of each service."""
    services: Int
    """(M+1,) number of services by number of moved replicas."""
    most: Int
    """(1,) the largest number of moved replicas of a service."""


@kernel
def _more_moves(problem: Problem, solution: Solution, proposal: Proposal, first: int) -> int:
    """Return by how many the moved replicas of the partition of a row increase by a proposal."""
    still = Proposal(NOWHERE, NOWHERE, NOWHERE, NOWHERE)
    more, row = 0, first
    while True:
        more += int(moved_to(problem, solution, proposal, row) != NOWHERE)
        more -= int(moved_to(problem, solution, still, row) != NOWHERE)
        row = problem.sibling[row]
        if row == first:
            return more


@kernel
def _changes(problem: Problem, solution: Solution, proposal: Proposal) -> tuple[int, int, int, int]:
    """Return the services whose moves a proposal changes, and by how many; the second one may be NOWHERE."""
    row, partner = proposal.row, proposal.partner
    service, other = int(problem.service[row]), NOWHERE
    more, others = _more_moves(problem, solution, proposal, row), 0
    if partner != NOWHERE and not are_siblings(problem, row, partner):
        found = _more_moves(problem, solution, proposal, partner)
        if problem.service[partner] == service:
            more += found
        else:
            other, others = int(problem.service[partner]), found
    return service, more, other, others


@kernel
def _most_after(sums: MovesOfServices, service: int, more: int, other: int, others: int) -> int:
    """Return the largest number of moves after a change of one service, or of two; O(largest decrease)."""
    before = sums.moves[service]
    highest, other_before = before + more, NOWHERE
    if other != NOWHERE:
        other_before = sums.moves[other]
        highest = max(highest, other_before + others)
    most = sums.most[0]
    while most > highest:
        if sums.services[most] > int(before == most) + int(other_before == most):
            return int(most)
        most -= 1
    return int(highest)


@kernel
def change_of_most_moved(problem: Problem, solution: Solution, sums: MovesOfServices, proposal: Proposal) -> float:
    """Return the change of the largest number of moves by a proposal."""
    service, more, other, others = _changes(problem, solution, proposal)
    return float(_most_after(sums, service, more, other, others) - sums.most[0])


@kernel
def keep_moves_of_services(problem: Problem, solution: Solution, sums: MovesOfServices, proposal: Proposal) -> None:
    """Update the sums before a proposal is applied."""
    service, more, other, others = _changes(problem, solution, proposal)
    sums.most[0] = _most_after(sums, service, more, other, others)
    _count(sums, service, more)
    if other != NOWHERE:
        _count(sums, other, others)


@kernel
def _count(sums: MovesOfServices, service: int, more: int) -> None:
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
        found: Int = np.bincount(services, minlength=len(configuration.solution.service_moves))
        return found
