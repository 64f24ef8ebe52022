"""The rules for proposals in plain Python: sets of rows and counts from scratch, written from their definitions.

A rule reads the nodes of all rows, not the sums that a search keeps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import attrs
import numpy as np

from plb import Role
from plb.array_types import NOWHERE, Bool
from plb.constraints.affinity import FREE, STRANDED
from plb.constraints.domains import ANY, EVEN
from plb.constraints.range import LARGEST_SUM
from plb.extensions.configuration import Configuration, Proposal
from plb.model.rules import JOINING, NO_REFUSAL, Rule
from plb.state.arrays import Problem

from .applications_by_hand import (
    exceeds_application_capacity,
    exceeds_total,
    is_beyond_scale_out,
    overfills_with_reservations,
)
from .oracle import ring, sums_from_scratch

Places = Sequence[int]


@attrs.frozen
class ByHand:
    """A problem, the node of each row, and the enforced rules."""

    problem: Problem
    places: Places
    enforced: int

    def holds(self, rule: int) -> bool:
        """Return whether a rule is enforced."""
        return bool(self.enforced & 2**rule)

    def refusal(self, proposal: Proposal) -> int:
        """Return the first rule that refuses a proposal, or NO_REFUSAL."""
        row, target, partner = proposal.row, proposal.target, proposal.partner
        refused = self._of_move(row, target) if partner == NOWHERE else self._of_exchange(row, partner)
        return self._of_budgets(proposal) if refused == NO_REFUSAL else refused

    # one replica

    def _of_move(self, row: int, target: int) -> int:
        refused = self._of_place(row, target)
        if refused != NO_REFUSAL:
            return refused
        standby = self._standby_on(row, target)
        if self.holds(Rule.CAPACITY) and self._overfills(row, NOWHERE if standby is None else standby, target):
            return Rule.CAPACITY
        if self.holds(Rule.SCALE_OUT) and is_beyond_scale_out(self.problem, self.places, row, target):
            return Rule.SCALE_OUT
        if self.holds(Rule.APPLICATION_CAPACITY):
            gives_way = NOWHERE if standby is None else standby
            if exceeds_total(self.problem, self.places, row, gives_way):
                return Rule.APPLICATION_CAPACITY
            if exceeds_application_capacity(self.problem, self.places, row, gives_way, target):
                return Rule.APPLICATION_CAPACITY
        return Rule.RANGE if self._exceeds_range(row, target) else NO_REFUSAL

    def _upgraded_for(self, row: int) -> Bool:
        """Return whether each node is upgraded in the upgrade that a row follows, (N,)."""
        problem, application = self.problem, int(self.problem.application[row])
        if application == NOWHERE or not problem.application_upgraded[application].any():
            return problem.upgraded
        if not problem.upgraded.any():
            return problem.application_upgraded[application]
        by_upgrade = (problem.upgraded, problem.application_upgraded[application])
        for one in (row, *ring(problem, row)):
            if problem.role[one] == Role.PRIMARY and problem.origin[one] != NOWHERE:
                reached = [bool(of[problem.origin[one]]) for of in by_upgrade]
                if reached[0] != reached[1]:
                    return by_upgrade[reached[0]]
                break
        return by_upgrade[int(problem.completed_domains[application] >= problem.completed_domains[-1])]

    def _of_place(self, row: int, target: int) -> int:
        problem = self.problem
        upgraded = self._upgraded_for(row)[target]
        has_standby = any(problem.standby[one] for one in ring(problem, row))
        wants_siblings = problem.prefers_siblings[row] and (has_standby or not upgraded)
        checks = {
            Rule.NODE: not problem.receives[problem.kind[row], target],
            Rule.EXCLUSION: self._excluded(row, target),
            Rule.PLACEMENT: not problem.feasibility_classes[problem.feasibility_class[row], target],
            Rule.PREFERRED_LOCATION: wants_siblings and self._standby_on(row, target) is None,
            Rule.THROTTLING: self._throttled(row, target),
        }
        for rule, breaks in checks.items():
            if breaks and (rule in (Rule.NODE, Rule.EXCLUSION) or self.holds(rule)):
                return rule
        for level, rule in enumerate(problem.domain_rule.tolist()):
            if self.holds(rule) and self._crowds(level, row, target):
                return int(rule)
        parts = self._leaves_parent(row, target) or self._leaves_siblings_apart(row)
        return Rule.AFFINITY if self.holds(Rule.AFFINITY) and parts else NO_REFUSAL

    def _excluded(self, row: int, target: int) -> bool:
        """Return whether a sibling or its origin is there, or, with chains, whether moves lead from there back."""
        places, origin = self.places, self.problem.origin
        origin_node = origin[row]
        others = [other for other in ring(self.problem, row) if not self.problem.standby[other]]
        if target in [places[other] for other in others]:
            return True
        if not self.problem.chains:
            came_back = origin_node != NOWHERE and origin_node in [places[other] for other in others]
            return came_back or target in [origin[other] for other in others]
        left = {int(origin[o]): o for o in ring(self.problem, row) if NOWHERE != origin[o] != places[o]}
        if origin_node == NOWHERE or target == origin_node or target not in left:
            return False
        first = left[target]
        if places[first] == origin_node and self.problem.role[first] != self.problem.role[row]:
            return False
        at = target
        while at in left and at != origin_node:
            at = places[left[at]]
        return bool(at == origin_node)

    def _standby_on(self, row: int, target: int) -> int | None:
        found = [o for o in ring(self.problem, row) if self.problem.standby[o] and self.places[o] == target]
        return found[0] if found else None

    def _throttled(self, row: int, target: int) -> bool:
        problem = self.problem
        if not problem.throttles or problem.origin[row] == target or self._is_never_throttled(row):
            return False
        return bool(problem.in_build[target] + arrivals(problem, self.places)[target] >= problem.most_in_build[target])

    def _is_never_throttled(self, row: int) -> bool:
        problem = self.problem
        alone = all(problem.origin[one] == NOWHERE or problem.standby[one] for one in ring(problem, row))
        first = problem.role[row] == Role.PRIMARY and problem.origin[row] == NOWHERE and alone
        return bool(problem.role[row] == Role.INSTANCE or problem.parent_row[row] != NOWHERE or first)

    # domains

    def _crowds(self, level: int, row: int, target: int) -> bool:
        problem = self.problem
        most = int(problem.most_in_domain[problem.service[row], level])
        domain = problem.domain[:, level]
        here = self.places[row]
        if most == ANY or (here != NOWHERE and domain[here] == domain[target]):
            return False
        others = self._spread(ring(problem, row))
        if most != EVEN:
            return sum(domain[at] == domain[target] for at in others) >= most
        if not ring(problem, row):
            return False
        return self._leaves_too_few(level, row, others, target) or self._too_many(level, row, others, target)

    def _leaves_too_few(self, level: int, row: int, others: list[int], target: int) -> bool:
        """Return whether the domain that the replica leaves falls below its rounded-down share."""
        here = self.places[row]
        usable = self._usable_domains(level, row)
        if here == NOWHERE or here not in usable:
            return False
        domain, parent = self.problem.domain[:, level], self.problem.parent[:, level]
        beside = [at for at in others if at in usable and parent[at] == parent[here]]
        left = len(beside) + (parent[here] == parent[target])
        return sum(domain[at] == domain[here] for at in beside) < left // usable[here]

    def _too_many(self, level: int, row: int, others: list[int], target: int) -> bool:
        """Return whether a domain with replicas exceeds its share, or reaches it before the others do."""
        usable = self._usable_domains(level, row)
        domain, parent = self.problem.domain[:, level], self.problem.parent[:, level]
        per_domain = Counter(int(domain[at]) for at in others if at in usable and parent[at] == parent[target])
        inside = per_domain[int(domain[target])]
        if inside == 0:
            return False
        share = (per_domain.total() + 1) / usable[target]
        another_below = len(per_domain) < usable[target] or min(per_domain.values()) < math.floor(share)
        return inside >= math.ceil(share) or (inside >= math.floor(share) > 0 and another_below)

    def _usable_domains(self, level: int, row: int) -> dict[int, int]:
        """Return, for each node in a usable domain, the number of usable domains under the same parent."""
        counts = self.problem.siblings[self.problem.feasibility_class[row], :, level]
        return {node: int(count) for node, count in enumerate(counts) if count > 0}

    def _spread(self, rows: Iterable[int]) -> list[int]:
        """Return the nodes of the rows that count in domains."""
        return [self.places[row] for row in rows if self.places[row] != NOWHERE and not self.problem.unspread[row]]

    def _counts_for_limit(self, level: int, row: int) -> bool:
        """Return whether a row counts where domains have a limit: in a domain, or on a node, that it can use."""
        problem, at = self.problem, self.places[row]
        if at == NOWHERE or problem.unspread[row]:
            return False
        fits = problem.feasibility_classes[problem.feasibility_class[row]]
        return bool(at in self._usable_domains(level, row) or fits[at])

    def is_crowded(self, level: int, row: int) -> bool:
        """Return whether the domain of a row has too many replicas, or one more than a domain with too few."""
        problem, at = self.problem, self.places[row]
        most = int(problem.most_in_domain[problem.service[row], level])
        usable = self._usable_domains(level, row)
        if at == NOWHERE or problem.unspread[row] or most == ANY or not ring(problem, row):
            return False
        domain, parent = problem.domain[:, level], problem.parent[:, level]
        partition = [row, *ring(problem, row)]
        if most != EVEN:
            counted = [self.places[one] for one in partition if self._counts_for_limit(level, one)]
            return self._counts_for_limit(level, row) and sum(domain[place] == domain[at] for place in counted) > most
        places = self._spread(partition)
        if at not in usable:
            return False
        per_domain = Counter(int(domain[place]) for place in places if place in usable and parent[place] == parent[at])
        inside, share = per_domain[int(domain[at])], per_domain.total() / usable[at]
        if inside > math.ceil(share):
            return True
        another_below = len(per_domain) < usable[at] or min(per_domain.values()) < math.floor(share)
        return inside > math.floor(share) > 0 and another_below

    # affinity

    def apart(self, places: Places, row: int, target: int) -> bool:
        """Return whether a row on a node is apart from its parent, with the other rows at `places`."""
        problem = self.problem
        if problem.affinity[row] in (FREE, STRANDED):
            return bool(problem.affinity[row] == STRANDED)
        parents = self._partition(int(problem.parent_row[row]))
        beside = {places[p]: p for p in reversed(parents) if places[p] != NOWHERE and not problem.unspread[p]}
        if target in beside:
            both = self._has_primary(row) and self._has_primary(beside[target])
            alike = (problem.role[row] == Role.PRIMARY) == (problem.role[beside[target]] == Role.PRIMARY)
            return bool(problem.aligned[row] and both and not alike)
        children = {places[o] for o in ring(problem, row) if not problem.unspread[o]}
        return not (problem.loose[row] and set(beside) <= children)

    def _leaves_parent(self, row: int, target: int) -> bool:
        here, origin = self.places[row], self.problem.origin
        if not self.problem.related or not self.apart(self.places, row, target):
            return False
        origin_node = int(origin[row])
        began_apart = (
            self.problem.affinity[row] == STRANDED
            if origin_node == NOWHERE
            else self.apart(origin.tolist(), row, origin_node)
        )
        may_stay_apart = began_apart and not self.enforced & JOINING and here != NOWHERE
        return not (may_stay_apart and self.apart(self.places, row, here))

    def _leaves_siblings_apart(self, row: int) -> bool:
        """Return whether others of a larger child rely on a row to be beside a replica of the parent."""
        problem, places = self.problem, self.places
        if problem.affinity[row] in (FREE, STRANDED) or not problem.loose[row] or problem.unspread[row]:
            return False
        parents = self._partition(int(problem.parent_row[row]))
        beside = {places[p] for p in parents if places[p] != NOWHERE and not problem.unspread[p]}
        others = {places[o] for o in ring(problem, row) if not problem.unspread[o] and places[o] != NOWHERE}
        relied_on = beside <= {*others, places[row]} and not beside <= others
        return relied_on and bool(others - beside)

    def _partition(self, row: int) -> list[int]:
        return [row, *ring(self.problem, row)]

    def _has_primary(self, row: int) -> bool:
        return any(self.problem.role[one] == Role.PRIMARY for one in self._partition(row))

    def pair_would_break(self, row: int) -> bool:
        """Return whether a replica of the parent, or of a child that has to stay with it, is on the node of a row."""
        problem, at = self.problem, self.places[row]
        siblings = set(self._partition(row))
        parents = [int(problem.parent_row[row])] if problem.parent_row[row] != NOWHERE else []
        rows = range(len(self.places))
        children = [one for one in rows if problem.parent_row[one] in siblings and not problem.loose[one]]
        above = [one for parent in parents for one in self._partition(parent) if not problem.leaving[one]]
        return any(self.places[one] == at and not problem.standby[one] for one in [*above, *children])

    # capacity

    def _overfills(self, row: int, outgoing: int, target: int) -> bool:
        problem = self.problem
        growth = problem.load[row] - (problem.load[outgoing] if outgoing != NOWHERE else 0)
        standing = np.array(sums_from_scratch(problem, np.array(self.places))["node_load"])[target]
        load = standing + problem.leaving_load[target]

        def too_full(more: np.ndarray, limit: np.ndarray) -> bool:
            return bool(((more > 0) & (load + more > limit)).any())

        if too_full(growth, problem.limit[target]):
            return True
        if problem.reserves and overfills_with_reservations(problem, self.places, row, outgoing, target):
            return True
        origin_node = problem.origin[row]
        if problem.tight and origin_node != NOWHERE and too_full(growth, problem.move_limit[target]):
            return True
        if not problem.tight or not problem.counts_departed or origin_node == target:
            return False
        if outgoing != NOWHERE and problem.origin[outgoing] == target and outgoing not in ring(problem, row):
            growth = problem.load[row]  # its capacity is free only after it has left
        return too_full(growth * problem.transient, problem.limit[target] - departed(problem, self.places)[target])

    def _exceeds_range(self, row: int, target: int) -> bool:
        there = [r for r, at in enumerate(self.places) if at == target and not self.problem.leaving[r]]
        return bool((self.problem.peak_ceiling[[*there, row]].sum(axis=0) > LARGEST_SUM).any())

    # two replicas

    def _of_exchange(self, row: int, partner: int) -> int:
        here, there = self.places[row], self.places[partner]
        if NOWHERE in (here, there):
            return Rule.NODE
        if partner in ring(self.problem, row):
            refused = self._of_swap(row, partner)
        else:
            refused = self._of_place(row, there)
            refused = self._of_place(partner, here) if refused == NO_REFUSAL else refused
        if refused != NO_REFUSAL:
            return refused
        overfull = self._overfills(row, partner, there) or self._overfills(partner, row, here)
        if self.holds(Rule.CAPACITY) and overfull:
            return Rule.CAPACITY
        beyond = (is_beyond_scale_out(self.problem, self.places, *end) for end in ((row, there), (partner, here)))
        if self.holds(Rule.SCALE_OUT) and any(beyond):
            return Rule.SCALE_OUT
        if self.holds(Rule.APPLICATION_CAPACITY) and any(
            exceeds_application_capacity(self.problem, self.places, *ends)
            for ends in ((row, partner, there), (partner, row, here))
        ):
            return Rule.APPLICATION_CAPACITY
        too_much = self._exceeds_range(row, there) or self._exceeds_range(partner, here)
        return Rule.RANGE if too_much else NO_REFUSAL

    def _of_swap(self, row: int, partner: int) -> int:
        problem, here, there = self.problem, self.places[row], self.places[partner]
        both_feasible = (
            problem.feasibility_classes[problem.feasibility_class[row], there]
            and problem.feasibility_classes[problem.feasibility_class[partner], here]
        )
        checks = {
            Rule.NODE: not problem.receives[0, [here, there]].all(),
            Rule.EXCLUSION: self._swap_needs_order(row, partner),
            Rule.PLACEMENT: not both_feasible,
            Rule.AFFINITY: self._leaves_parent(row, there) or self._leaves_parent(partner, here),
        }
        for rule, breaks in checks.items():
            if breaks and (rule in (Rule.NODE, Rule.EXCLUSION) or self.holds(rule)):
                return rule
        return NO_REFUSAL

    def _swap_needs_order(self, row: int, partner: int) -> bool:
        """Return whether a replica would move to the origin of a sibling, other than by one swap of two."""
        origin = self.problem.origin
        now = {row: self.places[row], partner: self.places[partner]}
        origins = [origin[row], origin[partner]]
        if list(now.values()) in (origins, origins[::-1]):
            return False
        others = [o for o in ring(self.problem, row) if o != partner]
        is_back = now[row] == origins[0] or now[partner] == origins[1]
        on_an_origin = any(self.places[o] != NOWHERE and self.places[o] in origins for o in others)
        return is_back or on_an_origin or any(origin[o] in now.values() for o in others)

    # budgets

    def _of_budgets(self, proposal: Proposal) -> int:
        """Return the budget that the proposal overdraws further, with both sides counted from scratch."""
        problem = self.problem
        after = list(self.places)
        if proposal.partner != NOWHERE:
            after[proposal.partner] = after[proposal.row]
        after[proposal.row] = proposal.target
        old, new = (sums_from_scratch(problem, np.array(places)) for places in (self.places, after))

        def overdrawn(name: str, most: Sequence[int]) -> bool:
            return any(a > b and a > limit for a, b, limit in zip(new[name], old[name], most, strict=True))

        if new["moves"] > 10 * problem.max_moves:
            return Rule.MOVES
        if overdrawn("node_moves", problem.max_node_moves.tolist()):
            return Rule.NODE_MOVES
        if overdrawn("service_moves", problem.max_service_moves.tolist()):
            return Rule.SERVICE_MOVES
        counts = [builds_and_swaps(problem, places) for places in (self.places, after)]
        for index, (rule, most) in enumerate({Rule.BUILDS: problem.max_builds, Rule.SWAPS: problem.max_swaps}.items()):
            if problem.throttled and counts[1][index] > max(most, counts[0][index]):
                return rule
        return NO_REFUSAL


def builds_and_swaps(problem: Problem, places: Places) -> tuple[int, int]:
    """Return the number of new and moved replicas, without pairs that swap roles, and that of these pairs."""
    away = {row for row, at in enumerate(places) if at not in (NOWHERE, problem.origin[row])}
    swapped = [
        (row, other)
        for row in away
        for other in ring(problem, row)
        if (problem.role[row], problem.role[other]) == (Role.PRIMARY, Role.SECONDARY)
        and NOWHERE not in (problem.origin[row], problem.origin[other])
        and (places[row], places[other]) == (problem.origin[other], problem.origin[row])
    ]
    return len(away) - 2 * len(swapped), len(swapped)


def by_hand(configuration: Configuration, enforced: int) -> ByHand:
    return ByHand(configuration.problem, configuration.solution.node.tolist(), enforced)


def departed(problem: Problem, places: Places) -> np.ndarray:
    """Return the load that leaves each node in this plan, (N, R), less what a sibling in its place needs."""
    gone = np.zeros(problem.limit.shape, np.int64)
    for row, at in enumerate(places):
        origin_node = int(problem.origin[row])
        if origin_node in (NOWHERE, at):
            continue
        crossed = [o for o in ring(problem, row) if places[o] == origin_node and problem.origin[o] == at]
        taken = sum(problem.load[o] for o in crossed if not problem.unspread[o])
        gone[origin_node] += np.maximum(0, problem.load[row] - taken)
    return gone


def arrivals(problem: Problem, places: Places) -> list[int]:
    """Return the number of replicas that each node builds in this plan, (N,), without changes of place of siblings."""
    built = [0] * len(problem.limit)
    for row, at in enumerate(places):
        origin_node = int(problem.origin[row])
        if at in (NOWHERE, origin_node):
            continue
        crossed = [o for o in ring(problem, row) if problem.origin[o] == at and places[o] == origin_node]
        built[at] += origin_node == NOWHERE or all(problem.unspread[o] for o in crossed)
    return built
