"""What a placement policy is, built in or written by a user.

A policy needs a `name` and a `choose`. The other methods are optional: `begin` for random numbers and
for data from the configuration, `leaving` for the order of failovers, `evict` for moves of further replicas, `memory`
and `recall` for what is kept from plan to plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.errors import InvalidValueError
from plb.validation import check_collection, check_items

if TYPE_CHECKING:
    from plb.extensions.configuration import Configuration, Proposal


@runtime_checkable
class PlacementPolicy(Protocol):
    """Chooses the node of a replica, one replica at a time.

    An engine has a copy of the policy for its whole life: the attributes of the copy are kept for the
    next plan, also if the previous plan was not applied.
    """

    @property
    def name(self) -> str:
        """The name with which settings choose the policy."""

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int | None:
        """Return the node for a replica.

        Parameters
        ----------
        configuration
            The cluster with the plan so far. Trial changes have to be undone.
        row
            The replica. It is missing, or on a node that it has to leave.
        nodes
            Indices of the nodes that no rule and no constraint refuses, ascending; at least one, and never the node
            of the replica.

        Returns
        -------
        int or None
            One of `nodes`, or None if the policy does not place the replica.
        """


@runtime_checkable
class PreparedPolicy(PlacementPolicy, Protocol):
    """A policy with a method for the start of a search."""

    def begin(self, configuration: Configuration, rng: np.random.Generator) -> None:
        """Begin a search: a placement, or a repair.

        Parameters
        ----------
        configuration
            The cluster at its start.
        rng
            A generator for this search alone, from the seed of the engine.
        """


@runtime_checkable
class OrderingPolicy(PlacementPolicy, Protocol):
    """A policy that chooses the replicas to leave a node above its limit."""

    def leaving(self, configuration: Configuration, node: int, rows: Int) -> Sequence[int]:
        """Return the order in which replicas leave a node, until it is within its limits.

        Parameters
        ----------
        node
            The node.
        rows
            Replicas on it that may move and have load of a metric above its limit, ascending. Rows that are not in the
            result stay.
        """


@runtime_checkable
class RepackingPolicy(PlacementPolicy, Protocol):
    """A policy that moves other replicas before it places one."""

    def evict(self, configuration: Configuration, row: int) -> Iterable[Proposal]:
        """Return moves of other placed replicas, which are made in this order before a node for `row` is chosen.

        All of them are made, or none if a rule, a constraint or a budget refuses one or a replica may not move. They
        are undone if `row` is not placed then. The method is not called if settings forbid placement to move others.
        """


@runtime_checkable
class RememberingPolicy(PlacementPolicy, Protocol):
    """A policy that keeps something from plan to plan, which a snapshot of an engine holds.

    Without these two methods, an engine whose policy has other attributes than a new copy of it gives no snapshot. A
    policy whose attributes last for one search only returns nothing, ``{}``.
    """

    def memory(self) -> Mapping[str, Any]:
        """Return what is kept, by name: NumPy arrays without objects, and values of JSON."""

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go on from what `memory` of a policy with the same options has returned.

        Parameters
        ----------
        memory
            Arrays as they were; values as JSON returns them.
        """


def remembers(policy: PlacementPolicy) -> TypeGuard[RememberingPolicy]:
    """Return whether a policy has the methods for snapshots."""
    return hasattr(policy, "memory") and hasattr(policy, "recall")


def prepares(policy: PlacementPolicy) -> TypeGuard[PreparedPolicy]:
    """Return whether a policy has a method for the start of a search."""
    return hasattr(policy, "begin")  # all three test for one method: an instance check of a protocol takes 30 us


def orders(policy: PlacementPolicy) -> TypeGuard[OrderingPolicy]:
    """Return whether a policy chooses the replicas to leave a node above its limit."""
    return hasattr(policy, "leaving")


def repacks(policy: PlacementPolicy) -> TypeGuard[RepackingPolicy]:
    """Return whether a policy moves other replicas before it places one."""
    return hasattr(policy, "evict")


def choose(policy: PlacementPolicy, configuration: Configuration, row: int, nodes: Int) -> int | None:
    """Return the node of `nodes`, (n,), that a policy chooses for `row`, or None; raise an error for another node."""
    chosen = policy.choose(configuration, row, nodes.copy())
    if chosen is None or _is_one_of(chosen, nodes):
        return None if chosen is None else index(chosen)
    allowed = f"None or one of the nodes {nodes.tolist()}"
    raise InvalidValueError(f"policy {policy.name}", f"choose for row {row}", chosen, allowed)


def leaving_order(policy: PlacementPolicy, configuration: Configuration, node: int, rows: Int) -> list[int]:
    """Return the order in which `rows`, (m,), on a node leave it: the policy's, else the smallest first."""
    if not orders(policy):
        return smallest_first(configuration, node, rows)
    item, field, allowed = f"policy {policy.name}", f"leaving of node {node}", f"some of the rows {rows.tolist()}"
    order = check_collection(item, field, policy.leaving(configuration, node, rows.copy()), allowed)
    for row in order:
        if not _is_one_of(row, rows):
            raise InvalidValueError(item, field, row, allowed)
    return [index(row) for row in order]


def moves_for(policy: RepackingPolicy, configuration: Configuration, row: int) -> tuple[Proposal, ...]:
    """Return the moves that a policy makes before it places the replica `row`.

    Raise an error unless each moves placed replicas other than `row` to a node, one or two in an exchange.
    """
    from plb.extensions.configuration import Proposal  # it imports the settings, which have the names of policies

    item, field = f"policy {policy.name}", f"evict for row {row}"
    requested = check_items(item, field, policy.evict(configuration, row), Proposal)
    standing = configuration.rows[configuration.solution.node[configuration.rows] != NOWHERE]
    nodes = np.arange(configuration.nodes)
    for move in requested:
        partner_is_on_target = move.partner == NOWHERE or (
            _is_one_of(move.partner, standing) and configuration.node_of(move.partner) == move.target
        )
        moves_others = row not in (move.row, move.partner)
        is_to_node = _is_one_of(move.row, standing) and _is_one_of(move.target, nodes)
        if not (moves_others and is_to_node and partner_is_on_target):
            allowed = "moves of other placed replicas, each to a node, or exchanges of two of them"
            raise InvalidValueError(item, field, move, allowed)
    return requested


def smallest_first(configuration: Configuration, node: int, rows: Int) -> list[int]:
    """Return `rows`, (m,), on a node by aggregate usage, the smallest first ([1] section 8.1); ties: the lower row.

    Usage is the sum of shares of the capacity of the node, which the paper leaves open; a metric without one counts 0.
    """
    problem = configuration.problem
    usage = (problem.load[rows] * problem.inverse_capacity[node]).sum(axis=1)
    order: list[int] = rows[usage.argsort(kind="stable")].tolist()
    return order


def _is_one_of(value: object, allowed: Int) -> bool:
    """Return whether a value is a whole number in `allowed`, (n,) ascending."""
    try:
        number = index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    position = int(allowed.searchsorted(number))
    return not isinstance(value, bool) and position < len(allowed) and bool(allowed[position] == number)
