"""Returns after an upgrade: replicas and primaries go back to the places that were kept for them.

See docs/embedding.md, Upgrades. A missing replica returns to a kept place before others are placed. A primary returns
to a place without a replica after that: the missing replica becomes the primary there. What the rules refuse is
reported by a move of kind void.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from plb.array_types import NOWHERE
from plb.constraints.domains import SPREADING
from plb.evaluation.delta import move_row
from plb.evaluation.proposals import refusal
from plb.model.role import PRIMARY
from plb.model.rules import NO_REFUSAL
from plb.search.extensions import Extensions
from plb.state.arrays import Problem, Proposal, Solution
from plb.state.cluster_state import ClusterState, PartitionRecord
from plb.state.role_slots import slots_of


@attrs.frozen(eq=False)
class Return:
    """Places of a partition that wait for replicas to return."""

    partition: str
    """Name of the partition."""
    places: Sequence[int]
    """Rows of the places without a replica: standbys, and those of dropped replicas."""
    missing: Sequence[int]
    """Rows of its missing replicas."""
    primary: int = NOWHERE
    """Row of the primary that returns; NOWHERE: any missing replica does."""


def return_of(state: ClusterState, record: PartitionRecord) -> Return | None:
    """Return the places of a partition to which replicas return; None without any.

    A primary that is to be swapped out goes first, a primary that returns before other replicas. It waits while the
    present one moves away.
    """
    table = state.rows
    if record.still or not record.upgrading or any(table.swaps_out[row] for row in record.rows):
        return None
    missing = [row for row in record.rows if table.node[row] == NOWHERE]
    asking = [row for row in record.rows if table.regains[row]]
    if asking:
        primary = next((row for row in slots_of(state, record) if table.role[row] == PRIMARY), NOWHERE)
        places = [row for row in asking if table.standby[row]]
        return Return(record.name, places, missing, primary) if places and primary != NOWHERE else None
    places = [row for row in record.rows if table.kept[row] and table.standby[row]]
    return Return(record.name, places, missing) if places and len(missing) >= len(places) else None


class Returns:
    """Places the replicas that return.

    Parameters
    ----------
    problem
        The problem of placement.
    solution
        Modified.
    masks
        Enforced rules, from all to the hard ones.
    extensions
        With the extension constraints; None: there are none.

    Attributes
    ----------
    placed
        Rows that have returned.
    refused
        Rows of places that stay without a replica, with the names of their partitions.
    """

    def __init__(
        self, problem: Problem, solution: Solution, masks: Sequence[int], extensions: Extensions | None
    ) -> None:
        self._problem, self._solution, self._masks, self._extensions = problem, solution, masks, extensions
        self.placed: list[int] = []
        self.refused: list[tuple[str, int]] = []

    def place(self, wish: Return) -> None:
        """Place missing replicas of a partition on its kept places."""
        places, missing = list(wish.places), list(wish.missing)
        for mask in self._masks:
            for row in list(missing):
                place = next((one for one in places if self._allows(mask, row, self._node(one))), NOWHERE)
                if place != NOWHERE:
                    move_row(self._problem, self._solution, row, self._node(place))
                    self.placed.append(row)
                    missing.remove(row)
                    places.remove(place)
        self.refused += [(wish.partition, place) for place in places]

    def taker(self, wish: Return) -> int:
        """Return the missing replica that becomes the primary on the place of the primary; NOWHERE without any.

        The rules have to allow the present primary there, beside the missing replicas where placement has put them.
        """
        node, primary = self._node(wish.places[0]), wish.primary
        row = primary if primary in wish.missing else next(iter(wish.missing), NOWHERE)
        if any(self._allows_primary(mask, primary, row, node) for mask in self._masks):
            return row
        self.refused.append((wish.partition, wish.places[0]))
        return NOWHERE

    def _allows_primary(self, mask: int, primary: int, row: int, node: int) -> bool:
        """Return whether the rules allow the primary on a node, if the missing `row` gives up its place for it."""
        solution, at = self._solution, self._solution.node[row] if row != NOWHERE else NOWHERE
        if at == NOWHERE:
            return self._allows(mask, primary, node)
        if row != primary:
            replaced = self._problem.standby.copy()
            replaced[row] = True
            beside = self._problem._replace(standby=replaced, standbys=self._problem.standbys + 1)
            if refusal(beside, solution, mask & SPREADING, self._proposal(primary, node)) != NO_REFUSAL:
                return False
            mask &= ~SPREADING
        move_row(self._problem, solution, row, NOWHERE)
        allowed = self._allows(mask, primary, node)
        move_row(self._problem, solution, row, int(at))
        return allowed

    def _allows(self, mask: int, row: int, node: int) -> bool:
        """Return whether the enforced rules and the extension constraints allow `row` on a node."""
        proposal = self._proposal(row, node)
        if refusal(self._problem, self._solution, mask, proposal) != NO_REFUSAL:
            return False
        extensions = self._extensions
        if extensions is None:
            return True
        return extensions.refuse(extensions.configuration(self._problem, self._solution), proposal) is None

    def _proposal(self, row: int, node: int) -> Proposal:
        return Proposal(row, node, NOWHERE, int(self._solution.node[row]))

    def _node(self, place: int) -> int:
        return int(self._solution.node[place])
