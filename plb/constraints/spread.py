"""The spread of the replicas of a partition over the domains of a level: the counts, and what is even.

With r replicas under a parent with k usable domains, every domain has between floor(r/k) and ceil(r/k) of them, at
every level of the tree. Replicas that are leaving, or in a domain without a usable node, do not count.
"""

from __future__ import annotations

from plb.array_types import NOWHERE, Bool, Int, Int32
from plb.compiler import kernel


@kernel(inline=True)
def siblings_in_domain(domain: Int32, node: Int, sibling: Int, unspread: Bool, row: int, target: int) -> int:
    """Return the number of siblings of `row` in the domain of `target`."""
    count = 0
    replica = sibling[row]
    while replica != row:
        at = node[replica]
        count += at != NOWHERE and not unspread[replica] and domain[at] == domain[target]
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
    """Return whether `row` on `target` would violate the even spread at this level.

    An empty domain always accepts a replica. A domain at the ceiling accepts none, nor does a domain at the floor while
    another is below it. No domain may fall below the floor. So a violated spread can improve but never get worse.

    `domain`, `parent`, `siblings`: (N,) a level of `Problem.domain`, `Problem.parent` and `Problem.siblings`.
    `node`, `sibling`, `unspread`: (M,) see `plb.state.arrays`; `any_unspread`: whether there is any such row.
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
        at = node[replica]
        if at != NOWHERE and not (any_unspread and unspread[replica]) and siblings[at] > 0:
            if parent[at] == parent[target]:
                under_target += 1
                in_target += domain[at] == domain[target]
            if source != NOWHERE and parent[at] == parent[source]:
                under_source += 1
                in_source += domain[at] == domain[source]
        replica = sibling[replica]
    if source != NOWHERE and siblings[source] > 0:
        stays_inside = parent[source] == parent[target]
        left = under_source + 1 if stays_inside else under_source
        if (in_source + 1) * siblings[source] <= left:  # below the floor
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
    """Return whether, without `row`, some usable domain count that of `target` holds fewer than `floor` replicas."""
    occupied = 0
    replica = sibling[row]
    while replica != row:
        at = node[replica]
        if at != NOWHERE and not unspread[replica] and siblings[at] > 0 and parent[at] == parent[target]:
            inside = 0
            first = True
            again = sibling[row]
            while again != row:
                where = node[again]
                if where != NOWHERE and not unspread[again] and domain[where] == domain[at]:
                    first = first and (inside > 0 or again == replica)
                    inside += 1
                again = sibling[again]
            if inside < floor:
                return True
            occupied += first
        replica = sibling[replica]
    return occupied < int(siblings[target])


@kernel
def misses_of_spread(
    domain: Int32, parent: Int32, siblings: Int32, node: Int, sibling: Int, unspread: Bool, row: int
) -> int:
    """Return the replicas in the domain of `row` above the ceiling at this level; arguments of `spreads_badly`."""
    at = node[row]
    if at == NOWHERE or unspread[row] or siblings[at] == 0:
        return 0
    replicas, inside = under_parent(domain, parent, siblings, node, sibling, unspread, row, at)
    ceiling = (replicas + siblings[at] - 1) // siblings[at]
    return int(max(0, inside - ceiling))


@kernel
def under_parent(
    domain: Int32, parent: Int32, siblings: Int32, node: Int, sibling: Int, unspread: Bool, row: int, at: int
) -> tuple[int, int]:
    """Return the counted replicas of the partition, with `row` on `at`, under the parent and in the domain of `at`."""
    replicas = 1
    inside = 1
    replica = sibling[row]
    while replica != row:
        where = node[replica]
        if where != NOWHERE and not unspread[replica] and siblings[where] > 0 and parent[where] == parent[at]:
            replicas += 1
            inside += domain[where] == domain[at]
        replica = sibling[replica]
    return replicas, inside
