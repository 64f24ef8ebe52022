"""The arrays of kernels: what a search reads, and what it changes.

Shapes: N nodes, M replica rows, R metrics, K repetitions, D levels of domains (the fault-domain tree from the top down,
then the upgrade domains), X feasibility classes (what a service requires of nodes), S services, L local domains of load
balancing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from plb.array_types import NOWHERE, Bool, Float, Float32, Int, Int8, Int32, UInt8
from plb.compiler import Record, by_pointer, kernel

TENTHS = 10
"""Movements are counted in tenths, so that a swap at cost 0.1 stays a whole number."""
NO_BUDGET = 2**31
"""A budget without limit."""


def most_or_any(most: int | None) -> int:
    """Return the limit `most` from the settings as a number: `NO_BUDGET` for None, no limit."""
    return NO_BUDGET if most is None else most


class Weights(NamedTuple):
    """How the terms are combined into one energy (`plb.energy.score`): weights of terms, and units."""

    expected_failovers: float
    expected_overload: float
    imbalance: float
    fragmentation: float
    product_form: bool
    """Whether the energy is a product, as in Service Fabric; else it is a sum."""
    product_offset: float
    """What the second factor of the product is without any term."""
    least_deviation: float
    """Keeps the first factor of the product above 0."""
    tenths_of_move: float
    """Tenths of a move that count 1; infinite where moves contribute nothing."""
    repetitions: float
    """Violations of a node that certainly fails: repetitions, windows, or the unit of the estimators; at least 1."""
    columns: float
    """K, the repetitions or slots over which the overload is summed; at least 1."""
    local_domains: float
    """Share of the local domains in the imbalance."""
    plain_deviation: bool
    """Whether the imbalance is the deviation of loads in quanta over all nodes, without any special metric."""


class Totals(Record):
    """Numbers of a whole solution."""

    movement: int
    """Tenths."""
    moves: int
    """Tenths of a move, whatever it costs."""
    builds: int
    """Tenths of new and moved replicas, without swaps of roles; 0 if `Problem.throttled` is off."""
    swaps: int
    """Tenths of swaps of roles; 0 if `Problem.throttled` is off."""
    imbalance: float
    fragmentation: float
    expected_failovers: int
    """Repetitions or windows in violation, or units of the estimators, over all counted nodes."""
    expected_overload: int
    """Overload over all counted nodes, in units over all repetitions."""
    displaced: int
    """Number of rows that have left their origin."""
    local_scores: int
    """Sum of the scores of the local domains."""


@by_pointer
class Problem(NamedTuple):
    """The data that a search only reads."""

    # nodes
    limit: Int
    """(N, R) quanta; the engine fills a node up to this, inclusive."""
    move_limit: Int
    """(N, R) quanta; the same for replicas that move: what `buffered_limits` leaves, or the load before."""
    repair_limit: Int
    """(N, R) quanta; a repair relieves a node above this: `plb.state.topology.buffered_limits`."""
    threshold: Int32
    """(N, R) quanta; an aggregate of this or more is a violation."""
    inverse_capacity: Float
    """(N, R) 1/quanta; 0 where the capacity is unlimited or 0."""
    leaving_load: Int
    """(N, R) quanta of replicas that are on their way out."""
    tight: bool
    """Whether a placement checks more than `limit`: with a buffer, loads that have departed, or applications."""
    keeps_departed: bool
    """Whether `Solution.departed` is kept."""
    counts_departed: bool
    """Whether `transient` is true for any metric."""
    transient: Bool
    """(R,) whether loads of the metric that leave a node in this plan still count when its capacity is checked."""
    throttles: bool
    """Whether replicas in build are limited, and `Solution.arrivals` kept."""
    in_build: Int
    """(N,) replicas in build before the search."""
    most_in_build: Int
    """(N,) most replicas in build, with arrivals by the plan."""
    counted: Bool
    """(N,) whether the node is up and not being deactivated, and so part of the statistics."""
    watched: Bool
    """(N,) whether it matters that the node is overloaded: counted nodes, and those from which repairs may move."""
    drained: Bool
    """(N,) whether the node has to be emptied."""
    counted_for: Bool
    """(N, R) whether the node is counted and not blocked for every service that has the metric."""
    nodes_of_metric: Int
    """(R,) number of nodes that are counted for each metric."""
    receives: Bool
    """(3, N) whether the node may receive an existing replica, a new one, a new one of a service on every node."""
    targets: Int
    """Indices of the nodes that may receive replicas of some kind, ascending."""
    held_out: Int
    """Indices of the nodes whose load the fragmentation term penalises."""
    domain: Int32
    """(N, D) domain of each node at each level; unique over the level."""
    parent: Int32
    """(N, D) domain one level up; 0 at a top level."""
    siblings: Int32
    """(X, N, D) usable domains under the same parent, by feasibility class; 0 in a domain without a usable node."""
    most_in_domain: Int
    """(S, D) most replicas of a partition in one domain of each level; 0: as even as possible, -1: any number."""
    domain_rule: Int
    """(D,) constraint that each level belongs to."""
    upgraded: Bool
    """(N,) whether the upgrade domain of the node is completed in a running upgrade: a preferred location."""
    feasibility_classes: Bool
    """(X, N) whether the node is not blocked and its properties satisfy the expression."""
    chains: bool
    """Whether a replica may take the node that a sibling leaves in the same plan."""
    # applications; empty without any that has limits
    grouped: bool
    """Whether any application has limits, so that the sums of applications are kept."""
    reserves: bool
    """Whether any application has a reservation."""
    most_nodes: Int
    """(A,) most nodes that the replicas of the application use."""
    application_limit: Int
    """(A, R) quanta of all replicas of the application."""
    application_node_limit: Int
    """(A, R) quanta of the replicas of the application on a node."""
    reservation: Int
    """(A, R) quanta that every node with a replica of the application keeps free for it, its load there included."""
    application_upgraded: Bool
    """(A, N) whether the upgrade domain of the node is completed in a running upgrade of the application."""
    completed_domains: Int
    """(A+1,) number of upgrade domains completed by the upgrade of the application; the last one: of the cluster."""
    application_leaving: Int
    """(A, N, R) quanta of replicas of the application that are on their way out."""
    # replicas
    load: Int
    """(M+1, R) quanta; the last row, which NOWHERE selects, is zero."""
    sibling: Int
    """(M,) next row of the same partition; a ring."""
    role: Int
    """(M,) value of `Role`."""
    leaving: Bool
    """(M,) whether the row is only the departing end of a move."""
    service: Int32
    """(M,) index of the row's service."""
    feasibility_class: Int32
    """(M,) feasibility class of the row."""
    kind: Int8
    """(M,) first index of `receives`."""
    prefers_siblings: Bool
    """(M,) whether the row prefers nodes where its partition has a replica or a standby, and upgraded ones."""
    preferring: bool
    """Whether `prefers_siblings` is true for any row; it spares a step the check of each row."""
    application: Int32
    """(M,) application of the row, among applications with limits, or NOWHERE."""
    unspread: Bool
    """(M,) whether the row does not count in fault and upgrade domains: leaving or standby."""
    unspread_rows: int
    """Number of rows with `unspread`."""
    standbys: int
    """Number of rows that are a standby."""
    standby: Bool
    """(M,) whether a new replica of the partition may take the row's place."""
    related: bool
    """Whether any row has a parent."""
    affinity: Int
    """(M,) `FREE`, `AFFINITY_CHILD` or `STRANDED` of `plb.constraints.affinity`."""
    parent_row: Int
    """(M,) a row of the parent's partition, or NOWHERE."""
    first_child: Int
    """(M,) a row of the first child of the row's partition, or NOWHERE."""
    next_child: Int
    """(M,) for a child, a row of the parent's next child, or NOWHERE."""
    aligned: Bool
    """(M,) whether primaries of child and parent must be on the same node."""
    loose: Bool
    """(M,) whether the child has more replicas than its parent."""
    parents_move: float
    """Share of the repairs, the last ones, in which a parent may move to a node of its children."""
    movable: Bool
    """(M,) whether a plan may move the row."""
    repairable: Bool
    """(M,) whether a repair may move the row."""
    move_cost: Int
    """(M,) tenths that a move of the row costs."""
    unit_cost: Int
    """(M,) TENTHS everywhere: what a move counts in the budgets."""
    origin: Int
    """(M,) node before the search, or NOWHERE."""
    peak: Int32
    """(M+1, R, K) quanta: largest demand of each sampled trace, or the estimators' columns; the last row is zero."""
    peak_ceiling: Int
    """(M+1, R) quanta: the largest peak over the repetitions; the last row is zero."""
    estimator_rows: Float
    """(J, 5) estimators of violations from sums of columns (`plb.risk.estimator_columns`); J = 0: violations are a
    share of repetitions."""
    variance_unit: Float
    """(R,) squared quanta of a variance of 1 in a column."""
    windows: Int
    """(2,) length of the windows of neighbouring columns in which violations are counted, and the column where the ring
    of columns begins (`plb.risk.historical_simulation`); with length 1, violations are counted by column."""
    lists_rows: bool
    """Whether the rows on each node are listed (`plb.energy.node_sums`): for the timeline and for larger moves."""
    # exact test of the repetitions; empty if `timeline` is off
    timeline: bool
    """Whether a repetition is in violation only if a threshold is reached at a departure."""
    trace: Int32
    """(M, K) the trace of each repetition: index of a past tenant in `lifetime` and `curves`."""
    age: Float
    """(M,) seconds; 0 for a new replica."""
    anchored: Bool
    """(M,) whether the row grows from what it has shown, and not as its traces were recorded."""
    horizon: float
    """Seconds from now within which demand counts; infinite: all of the future."""
    lifetime: Float32
    """(T,) seconds that each past tenant lived."""
    curves: Float32
    """(T, R, 4) level, initial, growth and maximum of the past tenants, user units and seconds."""
    grows: Bool
    """(R,) whether the metric has a trend."""
    unit: Float
    """(R,) size of a quantum in user units."""
    # balancing
    biased: bool
    """Whether random moves only propose what may even out one of the metrics below."""
    uneven: Bool
    """(1 + L, R) metrics that call for balancing: over all services, then in each local domain."""
    # energy
    metric_weight: Float
    """(R,) weight of the metric in the imbalance."""
    by_percentage: Bool
    """(R,) whether load/capacity is balanced, not load."""
    capacity: Int
    """(N, R) quanta; above 0 where a metric is balanced by percentage."""
    coarseness: Int
    """(R,) binary digits by which loads are cut in Σx and Σx², so that these stay in 64 bits."""
    defragmented: Bool
    """(R,) whether the search packs the metric on few nodes."""
    reserving: Bool
    """(R,) whether the search keeps nodes empty; see `plb.energy.imbalance`."""
    empty_weight: Float
    """(R,) weight of the empty nodes in the score of a metric with `reserving`."""
    other_weight: Float
    """(R,) weight of the deviation over the nodes that are not empty in the score of a metric with `reserving`."""
    target_empty: Int
    """(R,) number of nodes to be empty."""
    empty_limit: Int
    """(N, R) quanta up to which a node counts as empty; below 0: never."""
    empty_across_domains: Bool
    """(R,) whether the empty nodes spread over fault and upgrade domains."""
    empty_overlap: bool
    """Whether the empty nodes are the same for all metrics."""
    deviation_factor: Float
    """(3,) Fn, Ff and Fu of defragmented metrics: weights of nodes, fault domains and upgrade domains."""
    group: Int
    """(2, N) index of the leaf fault domain and the upgrade domain of each node, among domains with a counted node."""
    groups: Int
    """(2,) number of leaf fault domains and of upgrade domains with a counted node."""
    local_of: Int
    """(S,) local load-balancing domain of each service, or NOWHERE."""
    local_weight: Float
    """(L, R) weight of each metric in the score of the domain."""
    local_counted: Bool
    """(L, N) whether the node counts in the domain."""
    local_nodes: Int
    """(L,) number of nodes that count in the domain."""
    weights: Weights
    # budgets
    bounded: bool
    """Whether any of the budgets below is limited."""
    swap_cost: int
    """Cost of a swap of roles in tenths of a move."""
    add_cost: int
    """Tenths that placing a new replica costs."""
    max_moves: int
    """Most moves of a plan, not counting new replicas; a swap of roles is one."""
    max_node_moves: Int
    """(N,) most replicas that leave or reach the node by a move."""
    max_service_moves: Int
    """(S,) largest number of replicas of a service that move."""
    throttled: bool
    """Whether the builds or the swaps of the whole cluster are limited, and both counted."""
    max_builds: int
    """Most new and moved replicas of a plan, beside replicas in build."""
    max_swaps: int
    """Most swaps of roles of a plan, beside those under way."""


@by_pointer
class Solution(NamedTuple):
    """The data that a search changes: the node of each replica, and every sum that follows from it."""

    node: Int
    """(M,) node of each row, or NOWHERE."""
    node_load: Int
    """(N, R) quanta of the placed replicas."""
    total: Int
    """(R,) Σx over counted nodes, x as in `plb.energy.imbalance.counted_as`: load in quanta, by default."""
    squares: Int
    """(R,) Σx² over counted nodes."""
    aggregate: Int32
    """(N, R, K) quanta: node load in each repetition, every replica at its peak."""
    ceiling: Int
    """(N, R) quanta: Σ of peak_ceiling, a bound on every repetition."""
    violating: Int
    """(N,) repetitions or windows with a violation of the node; with estimators, units of `Weights.repetitions`."""
    overload: Int
    """(N,) overload of the node (`plb.energy.expected_overload`), in units over all repetitions; 0 without a weight."""
    totals: Totals
    """What follows from the sums, over all nodes and rows."""
    displaced: Int
    """(M,) rows that have left their origin; the first `totals.displaced` are valid."""
    displaced_at: Int
    """(M,) position in `displaced`, or -1."""
    node_moves: Int
    """(N,) displaced rows that left or reached each node."""
    service_moves: Int
    """(S,) displaced rows of each service."""
    departed: Int
    """(N, R) quanta that leave each node in this plan; empty if `Problem.keeps_departed` is off."""
    arrivals: Int
    """(N,) replicas that are built on each node by this plan; empty if `Problem.throttles` is off."""
    application_load: Int
    """(A, N, R) quanta of the application's placed replicas on each node."""
    application_total: Int
    """(A, R) quanta of the application's placed replicas."""
    application_replicas: Int
    """(A, N) number of the application's placed replicas on each node."""
    application_nodes: Int
    """(A,) number of nodes with placed replicas of the application."""
    reserved: Int
    """(N, R) quanta that each node keeps free for its applications; empty if `Problem.grouped` is off."""
    local_load: Int
    """(L, N, R) quanta of each local domain's service on its counted nodes."""
    local_total: Int
    """(L, R) Σx over the counted nodes, x as in `plb.energy.imbalance.counted_as` of `local_load`."""
    local_squares: Int
    """(L, R) Σx² over the counted nodes."""
    local_score: Int
    """(L,) score of each local domain in units of 2^-40."""
    group_load: Int
    """(2, G, R) quanta on each leaf fault domain and upgrade domain; empty if no metric is defragmented."""
    first_on: Int
    """(N,) the first row on each node, or NOWHERE; empty if `Problem.lists_rows` is off."""
    next_on: Int
    """(M,) the next higher row on the same node, or NOWHERE; empty if `Problem.lists_rows` is off."""
    hit: UInt8
    """(K,) scratch: whether the last count found each repetition in violation."""
    tested_rows: Int
    """(M,) scratch: the rows on a node that is tested at departures; empty without `Problem.timeline`."""
    departure: Float
    """(M,) scratch: when each row in `tested_rows` departs, seconds from now; empty without `Problem.timeline`."""
    picked: Int
    """(N,) scratch: whether a node was chosen to be empty; empty if no metric reserves nodes."""
    uses: Int
    """(2, G) scratch: number of nodes chosen to be empty in each leaf fault domain and upgrade domain."""
    journal: Int
    """(J+1, 3) the last J times that a replica joined or left a node: row, node, 1 or -1. Number k is in 1 + k mod J.

    The entry [0, 0] is how many there were. Empty where no extension follows them.
    """

    def copy(self) -> Solution:
        """Return a copy that shares nothing with this one."""
        copies: list[Any] = [array.copy() for array in self]
        return type(self)(*copies)


SCRATCH = ("hit", "tested_rows", "departure", "picked", "uses", "journal")
"""Fields of `Solution` that mean nothing between two calls of a kernel."""


UNKNOWN = -1


def moves_of(solution: Solution) -> int:
    """Return how many times replicas joined or left nodes, or UNKNOWN without a journal."""
    return int(solution.journal[0, 0]) if len(solution.journal) else UNKNOWN


def siblings_of(problem: Problem, row: int) -> Iterator[int]:
    """Yield the rows of all replicas of the partition of `row`, first `row` itself."""
    sibling = row
    while True:
        yield sibling
        sibling = int(problem.sibling[sibling])
        if sibling == row:
            return


@kernel
def are_siblings(problem: Problem, row: int, partner: int) -> bool:
    """Return whether the rows `row` and `partner` belong to one partition."""
    sibling = problem.sibling[row]
    while sibling != row:
        if sibling == partner:
            return True
        sibling = problem.sibling[sibling]
    return False


class Proposal(NamedTuple):
    """A move of one replica, or an exchange of two."""

    row: int
    """Row of the replica."""
    target: int
    """Index of the node it goes to, or NOWHERE to remove it."""
    partner: int = NOWHERE
    """Row of the replica on `target` that changes nodes with it, or NOWHERE. Rows of one partition swap roles."""
    source: int = NOWHERE
    """Index of the node it leaves, or NOWHERE if it has none. A configuration fills it in when it hands a proposal on,
    so that those who make one need not."""

    @property
    def inverse(self) -> Proposal:
        """The proposal that undoes this one after it is made."""
        return Proposal(self.row, self.source, self.partner, self.target)


@kernel
def proposed(solution: Solution, row: int, target: int, partner: int) -> Proposal:
    """Return the proposal to move `row` from its node to `target`, and `partner`, if not NOWHERE, the other way."""
    return Proposal(row, target, partner, solution.node[row])


@kernel
def inverse_of(proposal: Proposal) -> Proposal:
    """Return the proposal that undoes `proposal` after it is made."""
    return Proposal(proposal.row, proposal.source, proposal.partner, proposal.target)
