"""The spread of the replicas of a partition over the domains of a level: the counts, and what is even.

With r replicas under a parent with k usable domains, every domain has between floor(r/k) and ceil(r/k) of them, at
every level of the tree. Replicas that are leaving, or in a domain without a usable node, do not count.
"""

from __future__ import annotations

from plb.array_types import NOWHERE, Bool, Int, Int32
from plb.compiler import kernel

EVEN, ANY = 0, -1
"""Values of `Problem.most_in_domain` for an even spread and for no rule."""


@kernel(inline=True)
def siblings_in_domain(domain: Int32, node: Int, sibling: Int, unspread: Bool, row: int, target: int) -> int:
    """Return the number of siblings of replica `row` in the domain of node `target`, without `unspread` ones.

    `domain`: (N,) a level of `Problem.domain`; `node`, `sibling`, `unspread`: (M,) of `Solution` and `Problem`.
    """
    count = 0
    replica = sibling[row]
    while replica != row:
        replica_node = node[replica]
        count += replica_node != NOWHERE and not unspread[replica] and domain[replica_node] == domain[target]
        replica = sibling[replica]
    return int(count)


@kernel(inline=True)
def spreads_badly(
    domain: Int32,
    parent: Int32,
    siblings: Int32,
    node: Int,
    sibling: Int,
    unspread: Bool,
    any_unspread: bool,
    row: int,
    target: int,
) -> bool:
    """Return whether replica `row` on `target` would violate the even spread at this level.

    An empty domain always accepts a replica. A domain at the ceiling accepts none, nor does a domain at the floor while
    another is below it. No domain may fall below the floor. So a violated spread can improve but never get worse.

    `domain`, `parent`, `siblings`: (N,) this level of `Problem.domain`, `Problem.parent` and `Problem.siblings`.
    `node`, `sibling`, `unspread`: (M,) of `Solution` and `Problem`; `any_unspread`: whether `unspread` is ever true.
    """
    source = node[row]
    if sibling[row] == row or (source != NOWHERE and domain[source] == domain[target]):
        return False
    under_target = 0  # siblings under the parent of the target, and in its domain
    in_target = 0
    under_source = 0
    in_source = 0
    replica = sibling[row]
    while replica != row:
        replica_node = node[replica]
        if replica_node != NOWHERE and not (any_unspread and unspread[replica]) and siblings[replica_node] > 0:
            if parent[replica_node] == parent[target]:
                under_target += 1
                in_target += domain[replica_node] == domain[target]
            if source != NOWHERE and parent[replica_node] == parent[source]:
                under_source += 1
                in_source += domain[replica_node] == domain[source]
        replica = sibling[replica]
    if source != NOWHERE and siblings[source] > 0:
        stays_inside = parent[source] == parent[target]
        replicas_after = under_source + 1 if stays_inside else under_source
        if (in_source + 1) * siblings[source] <= replicas_after:  # below the floor
            return True
    if in_target == 0:
        return False
    replicas = under_target + 1
    domains = siblings[target]
    if in_target * domains >= replicas:  # at the ceiling
        return True
    if replicas < domains or replicas >= (in_target + 1) * domains:  # the floor is 0, or not reached yet
        return False
    floor = replicas // domains
    return some_domain_below(domain, parent, siblings, node, sibling, unspread, row, target, floor)


@kernel
def some_domain_below(
    domain: Int32,
    parent: Int32,
    siblings: Int32,
    node: Int,
    sibling: Int,
    unspread: Bool,
    row: int,
    target: int,
    floor: int,
) -> bool:
    """Return whether a usable domain beside node `target`'s has fewer than `floor` replicas, `row` not counted.

    Beside it are the domains under the same parent. `domain`, `parent`, `siblings`: (N,) a level of these arrays of
    `Problem`; `node`, `sibling`, `unspread`: (M,) of `Solution` and `Problem`.
    """
    occupied = 0
    replica = sibling[row]
    while replica != row:
        replica_node = node[replica]
        counts = replica_node != NOWHERE and not unspread[replica] and siblings[replica_node] > 0
        if counts and parent[replica_node] == parent[target]:
            inside = 0
            is_first = True
            neighbour = sibling[row]
            while neighbour != row:
                neighbour_node = node[neighbour]
                if (
                    neighbour_node != NOWHERE
                    and not unspread[neighbour]
                    and domain[neighbour_node] == domain[replica_node]
                ):
                    is_first = is_first and (inside > 0 or neighbour == replica)
                    inside += 1
                neighbour = sibling[neighbour]
            if inside < floor:
                return True
            # a domain counts once, at the first replica in it
            occupied += is_first
        replica = sibling[replica]
    # a domain without any replica is below, as `floor` is at least 1
    return occupied < int(siblings[target])
