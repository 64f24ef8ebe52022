"""Fault and upgrade domains: an even spread of the replicas of a partition (docs/constraints/fault_domain.md).

The two rules differ in their domains alone. `plb.constraints.spread` counts replicas in domains, and
`plb.planning.live.domain_limits` has the largest numbers by service.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.constraints.description import ExcludedNodes, NamedSolution, RuleDescription
from plb.constraints.spread import misses_of_spread, siblings_in_domain, some_domain_below, spreads_badly, under_parent
from plb.model.expressions import UnmetClause
from plb.model.move import Phase, Reason
from plb.model.outcome import RuledOut
from plb.model.rules import NO_REFUSAL, Breach, Rule
from plb.phrasing import counted, listed, rule_in_words
from plb.state.arrays import Problem, Solution, siblings_of

FAULT_DOMAIN, UPGRADE_DOMAIN = int(Rule.FAULT_DOMAIN), int(Rule.UPGRADE_DOMAIN)
SPREADING = 1 << FAULT_DOMAIN | 1 << UPGRADE_DOMAIN
"""Bits of the two rules."""
EVEN, ANY = 0, -1
"""Values of `Problem.most_in_domain` for an even spread and for no rule."""


@kernel(inline=True)
def refusal(problem: Problem, solution: Solution, enforced: int, row: int, target: int) -> int:
    """Return the enforced rule that `row` on `target` would violate at the first level, or NO_REFUSAL."""
    for level in range(problem.domain.shape[1]):
        if enforced >> problem.domain_rule[level] & 1 and _breaks_spread(problem, solution, level, row, target):
            return int(problem.domain_rule[level])
    return NO_REFUSAL


@kernel
def broken_rules(problem: Problem, solution: Solution, enforced: int, row: int) -> int:
    """Return the enforced ones of the two rules that a placed `row` breaks, as a bit mask."""
    broken = 0
    for level in range(problem.domain.shape[1]):
        rule = problem.domain_rule[level]
        if enforced >> rule & 1 and stands_wrongly(problem, solution, level, row):
            broken |= 1 << rule
    return broken


@kernel
def count_by_partition(problem: Problem, solution: Solution, enforced: int, row: int) -> int:
    """Return the number of enforced ones of the two rules that `row` is the first of its partition to break."""
    broken = broken_rules(problem, solution, enforced, row)
    sibling = problem.sibling[row]
    while sibling != row:
        if sibling < row and broken:
            broken &= ~broken_rules(problem, solution, broken, sibling)
        sibling = problem.sibling[sibling]
    return int((broken >> FAULT_DOMAIN & 1) + (broken >> UPGRADE_DOMAIN & 1))


@kernel
def count_breaches(problem: Problem, solution: Solution, enforced: int, row: int) -> int:
    """Return the number of levels of enforced rules at which the domain of `row` has more than its share."""
    broken = 0
    for level in range(problem.domain.shape[1]):
        if enforced >> problem.domain_rule[level] & 1:
            broken += stands_wrongly(problem, solution, level, row)
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


@kernel(inline=True)
def excess_in_domain(problem: Problem, solution: Solution, level: int, row: int) -> int:
    """Return the number of excess replicas of its partition in the domain of `row` at this level."""
    most = problem.most_in_domain[problem.service[row], level]
    at = solution.node[row]
    if most == ANY or at == NOWHERE or problem.unspread[row]:
        return 0
    if most == EVEN:
        return misses_of_spread(
            problem.domain[:, level],
            problem.parent[:, level],
            problem.siblings[problem.feasibility_class[row], :, level],
            solution.node,
            problem.sibling,
            problem.unspread,
            row,
        )
    if not counts_for_limit(problem, solution, level, row):
        return 0
    inside = 1
    sibling = problem.sibling[row]
    while sibling != row:
        if counts_for_limit(problem, solution, level, sibling):
            inside += problem.domain[solution.node[sibling], level] == problem.domain[at, level]
        sibling = problem.sibling[sibling]
    return int(max(0, inside - most))


@kernel
def counts_for_limit(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Return whether a largest number of replicas in a domain counts `row`.

    It counts replicas on nodes that are out of service, unless these are not allowed for the service.
    """
    at = solution.node[row]
    if at == NOWHERE or problem.unspread[row]:
        return False
    feasibility_class = problem.feasibility_class[row]
    return bool(
        problem.siblings[feasibility_class, at, level] > 0 or problem.feasibility_classes[feasibility_class, at]
    )


@kernel
def stands_wrongly(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Return whether the domain of `row` has excess replicas of its partition, or more than its share (below)."""
    if problem.sibling[row] == row:
        return False
    return excess_in_domain(problem, solution, level, row) > 0 or starves_another(problem, solution, level, row)


@kernel
def starves_another(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Return whether the domain of `row` has more than floor(r/k) replicas of its partition while another has fewer."""
    at = solution.node[row]
    siblings = problem.siblings[problem.feasibility_class[row], :, level]
    even = problem.most_in_domain[problem.service[row], level] == EVEN
    if not even or at == NOWHERE or problem.unspread[row] or siblings[at] == 0:
        return False
    domain = problem.domain[:, level]
    parent = problem.parent[:, level]
    replicas, inside = under_parent(domain, parent, siblings, solution.node, problem.sibling, problem.unspread, row, at)
    floor = replicas // siblings[at]
    return inside > floor > 0 and some_domain_below(
        domain, parent, siblings, solution.node, problem.sibling, problem.unspread, row, at, floor
    )


@kernel
def exceeds_share(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Return whether an even spread keeps floor((r-1)/k) replicas in the domain of a placed `row` without it."""
    at = solution.node[row]
    siblings = problem.siblings[problem.feasibility_class[row], :, level]
    even = problem.most_in_domain[problem.service[row], level] == EVEN
    if not even or problem.unspread[row] or siblings[at] == 0:
        return True
    domain, parent = problem.domain[:, level], problem.parent[:, level]
    replicas, inside = under_parent(domain, parent, siblings, solution.node, problem.sibling, problem.unspread, row, at)
    return bool(inside > (replicas - 1) // siblings[at])


@kernel
def others_leave_first(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Return whether as many siblings as have to leave the domain of `row` are in unusable domains below it.

    Then `row`, if in a usable one, stays. At least one replica has to leave; the spread has to be even.
    """
    at = solution.node[row]
    even = problem.most_in_domain[problem.service[row], level] == EVEN
    if not even or at == NOWHERE or _is_in_unusable(problem, level, row, at):
        return False
    below = 0
    sibling = problem.sibling[row]
    while sibling != row:
        where = solution.node[sibling]
        if (
            where != NOWHERE
            and not problem.unspread[sibling]
            and problem.domain[where, level] == problem.domain[at, level]
        ):
            below += _is_in_unusable(problem, level, sibling, where)
        sibling = problem.sibling[sibling]
    return bool(below > 0 and below >= excess_in_domain(problem, solution, level, row))


@kernel
def _is_in_unusable(problem: Problem, level: int, row: int, at: int) -> bool:
    """Return whether a domain of `at` below a level, of the same rule, has no usable node for `row`."""
    for below in range(level + 1, problem.domain.shape[1]):
        same_rule = problem.domain_rule[below] == problem.domain_rule[level]
        if same_rule and problem.siblings[problem.feasibility_class[row], at, below] == 0:
            return True
    return False


@attrs.frozen
class FullDomain:
    """A domain that may have no more replicas of a partition."""

    domain: str
    replicas: int
    most: int
    """Number of its replicas, and the largest number with the present replicas of the other domains of its level."""

    def __str__(self) -> str:
        return f"{self.domain} holds {self.replicas} and may hold {self.most}"


@attrs.frozen
class Crowded(RuledOut):
    """Nodes in fault or upgrade domains that are full."""

    rule: str
    """``"fault_domain"`` or ``"upgrade_domain"``."""
    nodes: int
    domains: tuple[FullDomain, ...]
    """The full domains."""

    def __str__(self) -> str:
        return listed([str(domain) for domain in self.domains])

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield what must change on a node."""
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
    least: int
    most: int
    """Number of its replicas of the partition, and the allowed range, inclusive."""
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
    return [level for level, of in enumerate(problem.domain_rule.tolist()) if of == rule]


def _ruled_out(excluded: ExcludedNodes) -> Crowded:
    named, nodes = excluded.named, excluded.nodes
    levels = np.full(len(nodes), NOWHERE)
    _find_levels(named.problem, named.solution, int(excluded.rule), excluded.row, nodes, levels)
    domains: dict[str, FullDomain] = {}
    for node, level in zip(nodes.tolist(), levels.tolist(), strict=True):
        name = _domain_name(named, level, node)
        if name not in domains:
            domains[name] = _full_domain(named, excluded.row, name, node, level)
    return Crowded(excluded.rule.name.lower(), len(nodes), tuple(domains.values()))


@kernel
def _find_levels(problem: Problem, solution: Solution, rule: int, row: int, nodes: Int, levels: Int) -> None:
    """Write to `levels`, (n,), the first level of a rule that `row` would violate on each of `nodes`, (n,)."""
    for index in range(nodes.shape[0]):
        for level in range(problem.domain.shape[1]):
            of_rule = problem.domain_rule[level] == rule
            if of_rule and _breaks_spread(problem, solution, level, row, nodes[index]):
                levels[index] = level
                break


def _full_domain(named: NamedSolution, row: int, name: str, node: int, level: int) -> FullDomain:
    """Return the number of replicas in the domain of `node`, and its largest number with one replica more."""
    problem = named.problem
    by_domain = _replicas_by_domain(named, level, row)
    here = by_domain[int(problem.domain[node, level])]
    allowed = int(problem.most_in_domain[problem.service[row], level])
    if allowed != EVEN:
        return FullDomain(name, here, allowed)
    beside = np.unique(problem.domain[problem.parent[:, level] == problem.parent[node, level], level])
    replicas = 1 + sum(by_domain[int(domain)] for domain in beside)
    floor, rest = divmod(replicas, int(problem.siblings[problem.feasibility_class[row], node, level]))
    ceiling = floor + (rest > 0)
    return FullDomain(name, here, ceiling if here >= ceiling else floor)


def _breaches(named: NamedSolution, rule: Rule) -> Iterator[UnevenSpread]:
    for level in _levels_of(named.problem, rule):
        for row in _rows_of_uneven_groups(named, level):
            yield from _uneven(named, rule, level, row)


def _uneven(named: NamedSolution, rule: Rule, level: int, row: int) -> list[UnevenSpread]:
    """Return the domains, except the domain of `row`, with too many or too few replicas of its partition."""
    least, most, replicas = _share(named, level, row)
    return [
        UnevenSpread(
            rule=rule.name.lower(),
            partition=named.state.row_partition[row],
            domain=_domain_name(named, level, node),
            level=level + 1 - _levels_of(named.problem, rule)[0],
            replicas=count,
            least=least,
            most=most,
            priority=named.priorities[rule],
        )
        for node, count in replicas.items()
        if not least <= count <= most
    ]


def _domain_name(named: NamedSolution, level: int, node: int) -> str:
    """Return the name of the domain of a node at a level."""
    if named.problem.domain_rule[level] == UPGRADE_DOMAIN:
        return named.state.nodes[node].upgrade_domain_name
    return "fd:/" + "/".join(named.state.nodes[node].fault_domain_path[: level + 1])


def _share(named: NamedSolution, level: int, row: int) -> tuple[int, int, dict[int, int]]:
    """Return the allowed range of replicas in a domain, and the number in each that counts, given by a node of each."""
    problem = named.problem
    at = int(named.solution.node[row])
    by_domain = _replicas_by_domain(named, level, row)
    allowed = int(problem.most_in_domain[problem.service[row], level])
    feasibility_class = int(problem.feasibility_class[row]) if allowed == EVEN else None
    beside = _domains_beside(named, level, feasibility_class, int(problem.parent[at, level]))
    replicas = {node: by_domain[domain] for node, domain in beside}
    if allowed != EVEN:
        return 0, allowed, replicas
    floor, rest = divmod(sum(replicas.values()), len(replicas))
    return floor, floor + (rest > 0), replicas


def _domains_beside(
    named: NamedSolution, level: int, feasibility_class: int | None, parent: int
) -> list[tuple[int, int]]:
    """Return a node of each domain under a parent, and the domain, if usable for a feasibility class (None: any)."""
    key = ("domains", level, feasibility_class, parent)
    if key not in named.kept:
        problem = named.problem
        beside = problem.parent[:, level] == parent
        if feasibility_class is not None:
            beside &= problem.siblings[feasibility_class, :, level] > 0
        inside = np.flatnonzero(beside)
        domain, first = np.unique(problem.domain[inside, level], return_index=True)
        named.kept[key] = list(zip(inside[first].tolist(), domain.tolist(), strict=True))
    domains: list[tuple[int, int]] = named.kept[key]
    return domains


def _replicas_by_domain(named: NamedSolution, level: int, row: int) -> Counter[int]:
    """Return how many replicas of the partition of `row` count in each domain of a level."""
    problem, node = named.problem, named.solution.node
    siblings = problem.siblings[problem.feasibility_class[row], :, level]
    standing = [
        sibling for sibling in siblings_of(problem, row) if node[sibling] != NOWHERE and not problem.unspread[sibling]
    ]
    counts = siblings > 0
    if problem.most_in_domain[problem.service[row], level] != EVEN:
        counts |= problem.feasibility_classes[problem.feasibility_class[row]]
    return Counter(int(problem.domain[node[sibling], level]) for sibling in standing if counts[node[sibling]])


def _rows_of_uneven_groups(named: NamedSolution, level: int) -> list[int]:
    """Return a row of each partition and parent domain whose replicas are unevenly spread below it."""
    problem, node = named.problem, named.solution.node
    siblings = np.where(node == NOWHERE, 0, problem.siblings[problem.feasibility_class, node, level])
    allowed = problem.most_in_domain[problem.service, level]
    feasible = (node != NOWHERE) & problem.feasibility_classes[problem.feasibility_class, node]
    counts = (siblings > 0) | ((allowed != EVEN) & feasible)
    rows = np.flatnonzero(counts & ~problem.unspread & (allowed != ANY))
    partition, at = named.partition_of_row[rows], node[rows]
    first, _, count = _grouped(partition, problem.domain[at, level])
    head, of_parent, _ = _grouped(partition[first], problem.parent[at[first], level])
    groups = len(head)
    replicas, fullest, emptiest = np.zeros(groups, np.int64), np.zeros(groups, np.int64), np.full(groups, len(node))
    np.add.at(replicas, of_parent, count)
    np.maximum.at(fullest, of_parent, count)
    np.minimum.at(emptiest, of_parent, count)
    heads = rows[first[head]]
    domains, most = siblings[heads], allowed[heads]
    emptiest[np.bincount(of_parent, minlength=groups) < domains] = 0
    uneven = (fullest > -(-replicas // np.maximum(1, domains))) | (emptiest < replicas // np.maximum(1, domains))
    broken = np.where(most == EVEN, uneven, fullest > most)
    return [int(row) for row in heads[broken]]


def _grouped(first: Int, second: Int) -> tuple[Int, Int, Int]:
    """Return where each distinct pair occurs first, which pair each element is, and how often each occurs."""
    width = int(second.max(initial=0)) + 1
    _, where, inverse, count = np.unique(
        first * width + second, return_index=True, return_inverse=True, return_counts=True
    )
    return where, inverse, count


def _reason(named: NamedSolution, phase: Phase, row: int, rule: Rule) -> Reason:
    """Return the domain of `row` at the first level at which it has more than its share."""
    problem, solution = named.problem, named.solution
    level = next(each for each in _levels_of(problem, rule) if stands_wrongly(problem, solution, each, row))
    name = _domain_name(named, level, int(solution.node[row]))
    uneven = _uneven(named, rule, level, row)
    return named.reason(phase, row, next((each for each in uneven if each.domain == name), uneven[0]))


def _concerns(problem: Problem, row: int, rule: Rule) -> bool:
    levels = problem.domain_rule == int(rule)
    return bool((problem.most_in_domain[problem.service[row], levels] != ANY).any())


FAULT_DOMAIN_DESCRIPTION = RuleDescription(
    Rule.FAULT_DOMAIN,
    _ruled_out,
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
    priority=lambda config: config.upgrade_domain_constraint_priority,
    concerns=partial(_concerns, rule=Rule.UPGRADE_DOMAIN),
    breaches=partial(_breaches, rule=Rule.UPGRADE_DOMAIN),
    reason=partial(_reason, rule=Rule.UPGRADE_DOMAIN),
)
