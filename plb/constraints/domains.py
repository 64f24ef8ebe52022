"""Fault and upgrade domains: an even spread of the replicas of a partition (docs/constraints/fault_domain.md).

r replicas of a partition under a parent with k usable domains are even if each has floor(r/k) or one more. The two
rules differ in their domains alone. `plb.state.spread` counts replicas in domains, and
`plb.planning.live.domain_limits` has the largest numbers by service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.constraints.description import ExcludedNodes, NamedSolution, RuleDescription
from plb.model.expressions import UnmetClause
from plb.model.move import Phase, Reason
from plb.model.outcome import RuledOut
from plb.model.rules import NO_REFUSAL, Breach, Rule, RuleMask
from plb.phrasing import counted, listed, rule_in_words
from plb.state.arrays import Problem, Solution
from plb.state.spread import ANY, EVEN, siblings_in_domain, some_domain_below, spreads_badly

FAULT_DOMAIN, UPGRADE_DOMAIN = int(Rule.FAULT_DOMAIN), int(Rule.UPGRADE_DOMAIN)
SPREADING = 1 << FAULT_DOMAIN | 1 << UPGRADE_DOMAIN
"""`RuleMask` of the two rules."""


@kernel(inline=True)
def refusal(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> int:
    """Return the enforced rule that replica `row` on `target` would violate at the first level, or NO_REFUSAL."""
    for level in range(problem.domain.shape[1]):
        if enforced >> problem.domain_rule[level] & 1 and _breaks_spread(problem, solution, level, row, target):
            return int(problem.domain_rule[level])
    return NO_REFUSAL


@kernel
def broken_rules(problem: Problem, solution: Solution, enforced: RuleMask, row: int) -> RuleMask:
    """Return the rules on domains, of the `enforced` ones, that a placed replica `row` breaks."""
    broken = 0
    for level in range(problem.domain.shape[1]):
        rule = problem.domain_rule[level]
        if enforced >> rule & 1 and breaks_level(problem, solution, level, row):
            broken |= 1 << rule
    return broken


@kernel
def count_by_partition(problem: Problem, solution: Solution, enforced: RuleMask, row: int) -> int:
    """Return how many `enforced` rules on domains `row` breaks and no lower row of its partition does."""
    broken = broken_rules(problem, solution, enforced, row)
    sibling = problem.sibling[row]
    while sibling != row:
        if sibling < row and broken:
            broken &= ~broken_rules(problem, solution, broken, sibling)
        sibling = problem.sibling[sibling]
    return int((broken >> FAULT_DOMAIN & 1) + (broken >> UPGRADE_DOMAIN & 1))


@kernel
def count_breaches(problem: Problem, solution: Solution, enforced: RuleMask, row: int) -> int:
    """Return the number of levels of enforced rules at which replica `row` breaks the spread."""
    broken = 0
    for level in range(problem.domain.shape[1]):
        if enforced >> problem.domain_rule[level] & 1:
            broken += breaks_level(problem, solution, level, row)
    return broken


@kernel(inline=True)
def _breaks_spread(problem: Problem, solution: Solution, level: int, row: int, target: int) -> bool:
    """Return whether `row` on `target` would violate its service's rule at this level: even spread, or a maximum."""
    most = problem.most_in_domain[problem.service[row], level]
    if most == ANY:
        return False
    domain = problem.domain[:, level]
    if most == EVEN:
        return spreads_badly(
            domain,
            problem.parent[:, level],
            problem.siblings[problem.feasibility_class[row], :, level],
            solution.node,
            problem.sibling,
            problem.unspread,
            problem.unspread_rows > 0,
            row,
            target,
        )
    source = solution.node[row]
    if source != NOWHERE and domain[source] == domain[target]:
        return False
    return bool(siblings_in_domain(domain, solution.node, problem.sibling, problem.unspread, row, target) + 1 > most)


@kernel
def counts_for_spread(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Return whether replica `row` counts for the spread at a level.

    It counts in a domain with a usable node. For a largest number of replicas (`most_in_domain` above 0), it counts
    also on a node that is out of service, unless the node is not allowed for the service.
    """
    node = solution.node[row]
    if node == NOWHERE or problem.unspread[row]:
        return False
    feasibility_class = problem.feasibility_class[row]
    if problem.siblings[feasibility_class, node, level] > 0:
        return True
    is_allowed = problem.feasibility_classes[feasibility_class, node]
    return bool(is_allowed and problem.most_in_domain[problem.service[row], level] != EVEN)


@kernel
def count_replicas(problem: Problem, solution: Solution, level: int, row: int, node: int) -> tuple[int, int]:
    """Return how many replicas of `row`'s partition count under the parent of `node`'s domain at `level`, and in it."""
    parent, domain = problem.parent[node, level], problem.domain[node, level]
    under_parent = 0
    inside = 0
    member = row
    while True:
        if counts_for_spread(problem, solution, level, member):
            member_node = solution.node[member]
            under_parent += problem.parent[member_node, level] == parent
            inside += problem.domain[member_node, level] == domain
        member = problem.sibling[member]
        if member == row:
            return under_parent, inside


@kernel
def bounds_of_domain(problem: Problem, level: int, row: int, node: int, replicas: int) -> tuple[int, int]:
    """Return the least and most replicas of the partition of `row` in the domain of `node` at `level`.

    `replicas`: how many count under the parent of the domain.
    """
    most = problem.most_in_domain[problem.service[row], level]
    if most != EVEN:
        return 0, int(most)
    domains = problem.siblings[problem.feasibility_class[row], node, level]
    return int(replicas // domains), int((replicas + domains - 1) // domains)


@kernel(inline=True)
def excess_in_domain(problem: Problem, solution: Solution, level: int, row: int) -> int:
    """Return the number of excess replicas of its partition in the domain of `row` at this level; 0 if not placed."""
    if problem.most_in_domain[problem.service[row], level] == ANY or not counts_for_spread(
        problem, solution, level, row
    ):
        return 0
    node = solution.node[row]
    replicas, inside = count_replicas(problem, solution, level, row, node)
    _, most = bounds_of_domain(problem, level, row, node, replicas)
    return int(max(0, inside - most))


@kernel
def breaks_level(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Return whether the domain of `row` at `level` has too many replicas of its partition.

    It has more than the most, or more than the least of an even spread while another domain has fewer.
    """
    is_limited = problem.most_in_domain[problem.service[row], level] != ANY
    if not is_limited or problem.sibling[row] == row or not counts_for_spread(problem, solution, level, row):
        return False
    node = solution.node[row]
    replicas, inside = count_replicas(problem, solution, level, row, node)
    least, most = bounds_of_domain(problem, level, row, node, replicas)
    if inside > most or not inside > least > 0:
        return bool(inside > most)
    return some_domain_below(
        problem.domain[:, level],
        problem.parent[:, level],
        problem.siblings[problem.feasibility_class[row], :, level],
        solution.node,
        problem.sibling,
        problem.unspread,
        row,
        node,
        least,
    )


@kernel
def exceeds_share(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Return whether a placed `row` can be dropped without leaving its domain at `level` below its share.

    The share is floor((r-1)/k), for the r - 1 other replicas in an even spread over k domains. Where the spread need
    not be even, the replica can always be dropped.
    """
    is_even = problem.most_in_domain[problem.service[row], level] == EVEN
    if not is_even or not counts_for_spread(problem, solution, level, row):
        return True
    node = solution.node[row]
    replicas, inside = count_replicas(problem, solution, level, row, node)
    floor, _ = bounds_of_domain(problem, level, row, node, replicas - 1)
    return bool(inside > floor)


@kernel
def others_leave_first(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Return whether replica `row` may stay because enough siblings leave its domain at a level first.

    These are in unusable domains below it, and at least as many as its excess of replicas. False if `row` is in an
    unusable domain itself, without such a sibling, and unless the spread is even.
    """
    node = solution.node[row]
    is_even = problem.most_in_domain[problem.service[row], level] == EVEN
    if not is_even or node == NOWHERE or _is_in_unusable(problem, level, row, node):
        return False
    in_unusable = 0
    sibling = problem.sibling[row]
    while sibling != row:
        sibling_node = solution.node[sibling]
        if (
            sibling_node != NOWHERE
            and not problem.unspread[sibling]
            and problem.domain[sibling_node, level] == problem.domain[node, level]
        ):
            in_unusable += _is_in_unusable(problem, level, sibling, sibling_node)
        sibling = problem.sibling[sibling]
    return bool(in_unusable > 0 and in_unusable >= excess_in_domain(problem, solution, level, row))


@kernel
def _is_in_unusable(problem: Problem, level: int, row: int, node: int) -> bool:
    """Return whether a domain of `node` at a lower level of the same rule has no usable node for replica `row`."""
    for lower in range(level + 1, problem.domain.shape[1]):
        same_rule = problem.domain_rule[lower] == problem.domain_rule[level]
        if same_rule and problem.siblings[problem.feasibility_class[row], node, lower] == 0:
            return True
    return False


@attrs.frozen
class FullDomain:
    """A domain that may have no more replicas of a partition."""

    domain: str
    replicas: int
    """Number of replicas of the partition in it."""
    most: int
    """Largest number allowed in it, with the present replicas in the other domains of its level."""

    def __str__(self) -> str:
        return f"{self.domain} holds {self.replicas} and may hold {self.most}"


@attrs.frozen
class Crowded(RuledOut):
    """Nodes in fault or upgrade domains that are full."""

    rule: str
    """``"fault_domain"`` or ``"upgrade_domain"``."""
    nodes: int
    """Number of these nodes."""
    domains: tuple[FullDomain, ...]
    """The full domains of these nodes."""

    def __str__(self) -> str:
        return listed([str(domain) for domain in self.domains])

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield in words what must change before `node` can take the replica; this rule does not need `unmet`."""
        for domain in self.domains:
            yield f"a replica of the partition must leave {domain.domain} ({domain})"


@attrs.frozen
class UnevenSpread(Breach):
    """A domain with too many or too few replicas of a partition (docs/constraints/fault_domain.md)."""

    rule: str
    """``"fault_domain"`` or ``"upgrade_domain"``."""
    partition: str
    domain: str
    """Its name, such as ``"fd:/dc1/rack0"`` or ``"ud0"``."""
    level: int
    """Its depth in the tree, 1 at the top."""
    replicas: int
    """Number of replicas of the partition in the domain."""
    least: int
    """Smallest number that is allowed."""
    most: int
    """Largest number that is allowed."""
    priority: int = 0
    """Priority of the rule: 0 hard, 1 soft, 2 optimisation."""

    @property
    def numbers(self) -> Mapping[str, float]:
        """The numbers by name."""
        return {"replicas": self.replicas, "least": self.least, "most": self.most}

    def __str__(self) -> str:
        holds = counted(self.replicas, "replica") if self.replicas else "no replica"
        allowed = f"at most {self.most} allowed" if self.replicas > self.most else f"at least {self.least} required"
        return f"{rule_in_words(self.rule)} {self.domain} holds {holds} of {self.partition}; {allowed}"


def _levels_of(problem: Problem, rule: Rule) -> list[int]:
    """Return the levels of a rule, from the top down."""
    return [level for level, level_rule in enumerate(problem.domain_rule.tolist()) if level_rule == rule]


def _ruled_out(excluded: ExcludedNodes) -> Crowded:
    """Return the full domains of the excluded nodes."""
    domains = {full.domain: full for full in _full_domains(excluded)}
    return Crowded(excluded.rule.name.lower(), len(excluded.nodes), tuple(domains.values()))


def _ruled_out_alone(excluded: ExcludedNodes) -> list[Crowded]:
    """Return for each excluded node, in their order, the full domain that excludes it."""
    domains, rule = _full_domains(excluded), excluded.rule.name.lower()
    crowded = {full.domain: Crowded(rule, 1, (full,)) for full in {id(full): full for full in domains}.values()}
    return [crowded[full.domain] for full in domains]


def _full_domains(excluded: ExcludedNodes) -> list[FullDomain]:
    """Return for each excluded node, in their order, the first domain, from the top down, that takes no replica."""
    named, nodes = excluded.named, excluded.nodes
    levels = np.full(len(nodes), NOWHERE)
    _find_levels(named.problem, named.solution, int(excluded.rule), excluded.row, nodes, levels)
    domains: dict[tuple[int, int], FullDomain] = {}
    keys = [*zip(levels.tolist(), named.problem.domain[nodes, levels].tolist(), strict=True)]
    for node, key in zip(nodes.tolist(), keys, strict=True):
        if key not in domains:
            domains[key] = _full_domain(named, excluded.row, node, key[0])
    return [domains[key] for key in keys]


@kernel
def _find_levels(problem: Problem, solution: Solution, rule: int, row: int, nodes: Int, levels: Int) -> None:
    """Write to `levels`, (n,), the first level of a rule that `row` would violate on each of `nodes`, (n,), if any."""
    for index in range(nodes.shape[0]):
        for level in range(problem.domain.shape[1]):
            is_of_rule = problem.domain_rule[level] == rule
            if is_of_rule and _breaks_spread(problem, solution, level, row, nodes[index]):
                levels[index] = level
                break


def _full_domain(named: NamedSolution, row: int, node: int, level: int) -> FullDomain:
    """Return the domain of `node` at a level that may not take `row` beside the replicas of its partition in it."""
    problem, name = named.problem, _domain_name(named, level, node)
    replicas, inside = count_replicas(problem, named.solution, level, row, node)
    least, most = bounds_of_domain(problem, level, row, node, replicas + 1)
    is_even = problem.most_in_domain[problem.service[row], level] == EVEN
    # at its least it may be full as well, while another domain has fewer
    return FullDomain(name, inside, least if is_even and inside < most else most)


def _breaches(named: NamedSolution, rule: Rule) -> Iterator[UnevenSpread]:
    """Yield the verdicts on all domains with too many or too few replicas of a partition."""
    problem, solution = named.problem, named.solution
    breaks = np.empty(len(solution.node), np.bool_)
    for level in _levels_of(problem, rule):
        _mark_uneven(problem, solution, level, breaks)
        parents = problem.parent[:, level]
        groups: dict[tuple[str, int], int] = {}
        for row in np.flatnonzero(breaks).tolist():
            groups.setdefault((named.state.row_partition[row], int(parents[solution.node[row]])), row)
        for row in groups.values():
            yield from _uneven(named, rule, level, row)


@kernel
def _mark_uneven(problem: Problem, solution: Solution, level: int, breaks: Bool) -> None:
    """Set `breaks`, (M,), to whether each row breaks the spread at a level."""
    for row in range(breaks.shape[0]):
        breaks[row] = breaks_level(problem, solution, level, row)


def _uneven(named: NamedSolution, rule: Rule, level: int, row: int) -> list[UnevenSpread]:
    """Return the verdicts on domains, at a level under the parent of `row`'s, that break a rule for its partition."""
    problem, node = named.problem, int(named.solution.node[row])
    replicas, _ = count_replicas(problem, named.solution, level, row, node)
    least, most = bounds_of_domain(problem, level, row, node, replicas)
    nodes = _domains_beside(named, level, row)
    counts = np.empty(len(nodes), np.int64)
    _count_in_domains(problem, named.solution, level, row, nodes, counts)
    return [
        UnevenSpread(
            rule=rule.name.lower(),
            partition=named.state.row_partition[row],
            domain=_domain_name(named, level, first_node),
            level=level + 1 - _levels_of(problem, rule)[0],
            replicas=count,
            least=least,
            most=most,
            priority=named.priorities[rule],
        )
        for first_node, count in zip(nodes.tolist(), counts.tolist(), strict=True)
        if not least <= count <= most
    ]


@kernel
def _count_in_domains(problem: Problem, solution: Solution, level: int, row: int, nodes: Int, replicas: Int) -> None:
    """Write to `replicas`, (n,), how many replicas of `row`'s partition count in each node's domain at `level`.

    `nodes`: (n,) their indices.
    """
    for index in range(nodes.shape[0]):
        _, replicas[index] = count_replicas(problem, solution, level, row, nodes[index])


def _domains_beside(named: NamedSolution, level: int, row: int) -> Int:
    """Return the first node of each domain of a level under the parent of replica `row`'s.

    For an even spread, only of domains that are usable for `row`.
    """
    problem, parent = named.problem, int(named.problem.parent[int(named.solution.node[row]), level])
    is_even = problem.most_in_domain[problem.service[row], level] == EVEN
    feasibility_class = int(problem.feasibility_class[row]) if is_even else None
    key = ("domains", level, feasibility_class, parent)
    if key not in named.kept:
        is_inside = problem.parent[:, level] == parent
        if feasibility_class is not None:
            is_inside &= problem.siblings[feasibility_class, :, level] > 0
        inside = np.flatnonzero(is_inside)
        named.kept[key] = inside[np.unique(problem.domain[inside, level], return_index=True)[1]]
    nodes: Int = named.kept[key]
    return nodes


def _domain_name(named: NamedSolution, level: int, node: int) -> str:
    """Return the name of the domain of a node at a level, such as ``"fd:/dc1/rack0"`` or ``"ud0"``."""
    if named.problem.domain_rule[level] == UPGRADE_DOMAIN:
        return named.state.nodes[node].upgrade_domain_name
    return "fd:/" + "/".join(named.state.nodes[node].fault_domain_path[: level + 1])


def _reason(named: NamedSolution, phase: Phase, row: int, rule: Rule) -> Reason:
    """Return the reason to move `row`: its domain at the first level of the rule at which it breaks the spread."""
    problem, solution = named.problem, named.solution
    level = next(level for level in _levels_of(problem, rule) if breaks_level(problem, solution, level, row))
    name = _domain_name(named, level, int(solution.node[row]))
    uneven = _uneven(named, rule, level, row)
    return named.reason(phase, row, next((verdict for verdict in uneven if verdict.domain == name), uneven[0]))


def _concerns(problem: Problem, row: int, rule: Rule) -> bool:
    """Return whether a rule limits the domains of replica `row` at any of its levels."""
    levels = problem.domain_rule == int(rule)
    return bool((problem.most_in_domain[problem.service[row], levels] != ANY).any())


FAULT_DOMAIN_DESCRIPTION = RuleDescription(
    Rule.FAULT_DOMAIN,
    _ruled_out,
    ruled_out_alone=_ruled_out_alone,
    priority=lambda config: config.fault_domain_constraint_priority,
    concerns=partial(_concerns, rule=Rule.FAULT_DOMAIN),
    fields=lambda _state, topology: {
        "domain": topology.domain,
        "parent": topology.parent,
        "siblings": topology.siblings,
        "domain_rule": topology.domain_rule,
    },
    breaches=partial(_breaches, rule=Rule.FAULT_DOMAIN),
    reason=partial(_reason, rule=Rule.FAULT_DOMAIN),
)
UPGRADE_DOMAIN_DESCRIPTION = RuleDescription(
    Rule.UPGRADE_DOMAIN,
    _ruled_out,
    ruled_out_alone=_ruled_out_alone,
    priority=lambda config: config.upgrade_domain_constraint_priority,
    concerns=partial(_concerns, rule=Rule.UPGRADE_DOMAIN),
    breaches=partial(_breaches, rule=Rule.UPGRADE_DOMAIN),
    reason=partial(_reason, rule=Rule.UPGRADE_DOMAIN),
)
