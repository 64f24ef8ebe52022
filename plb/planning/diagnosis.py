"""Why a replica found no place: every node at the first rule it fails, with the numbers that it compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.constraints.affinity import FREE
from plb.constraints.domains import ANY, EVEN
from plb.evaluation.proposals import find_refusals
from plb.model import DeactivationIntent, Node, Role
from plb.model.rules import NO_REFUSAL, Rule
from plb.model.unplaced import (
    Crowded,
    Full,
    FullDomain,
    Infeasible,
    NotPreferred,
    OutOfService,
    Refused,
    RuledOut,
    Shortage,
    Taken,
    Together,
    Unplaced,
    WithoutParent,
)
from plb.planning.audit import Audit
from plb.search.extensions import Extensions
from plb.state.arrays import Problem, siblings_of


def unplaced_row(
    audit: Audit,
    row: int,
    masks: Sequence[int],
    together: Together | None = None,
    extensions: Extensions | None = None,
) -> Unplaced:
    """Return why `row`, which has no place in the solution, found none.

    Parameters
    ----------
    masks
        Rules that placement enforced, from all to those of the last attempt.
    together
        Result of an all-or-nothing placement.
    extensions
        With the extension constraints, which are checked last.
    """
    state, problem, solution = audit.state, audit.problem, audit.solution
    nodes = len(state.nodes)
    refused, level = np.full(nodes, NO_REFUSAL), np.full(nodes, NOWHERE)
    find_refusals(problem, solution, masks[-1], row, refused, level)
    diagnosis = [
        diagnose_rule(audit, row, Rule(int(rule)), np.flatnonzero(refused == rule), level)
        for rule in np.unique(refused[refused != NO_REFUSAL])
    ]
    if extensions is not None:
        left = np.flatnonzero(refused == NO_REFUSAL)
        by_extensions = Counter(extensions.refused_nodes(problem, solution, row, left).values())
        diagnosis += [Refused(name, count) for name, count in by_extensions.items()]
    return Unplaced(
        partition=state.row_partition[row],
        role=Role(int(problem.role[row])),
        nodes=nodes,
        diagnosis=tuple(diagnosis),
        given_up=tuple(rule.name.lower() for rule in Rule if _is_given_up(problem, rule, row, masks)),
        together=together,
    )


def diagnose_rule(audit: Audit, row: int, rule: Rule, nodes: Int, level: Int) -> RuledOut:
    """Return the nodes that a rule excludes for `row`, which is not placed in the solution.

    Parameters
    ----------
    nodes
        Indices of the nodes that it rules out.
    level
        (N,) as in `find_refusals`.
    """
    return _DESCRIBERS.get(rule, _refused)(_Ruled(audit, row, rule, nodes, level))


def _is_given_up(problem: Problem, rule: Rule, row: int, masks: Sequence[int]) -> bool:
    """Return whether placement stopped enforcing a rule that concerns `row`."""
    if not (masks[0] & ~masks[-1]) >> rule & 1:
        return False
    if rule in (Rule.FAULT_DOMAIN, Rule.UPGRADE_DOMAIN):
        levels = problem.domain_rule == rule
        return bool((problem.most_in_domain[problem.service[row], levels] != ANY).any())
    if rule is Rule.AFFINITY:
        return bool(problem.affinity[row] != FREE)
    if rule is Rule.THROTTLING:
        return problem.throttles
    return bool(problem.prefers_siblings[row]) if rule is Rule.PREFERRED_LOCATION else True


@attrs.frozen(eq=False)
class _Ruled:
    """The nodes for which one rule is the first that excludes them for a row.

    Parameters
    ----------
    level
        (N,) as in `find_refusals`.
    """

    audit: Audit
    row: int
    rule: Rule
    nodes: Int
    level: Int

    @property
    def problem(self) -> Problem:
        return self.audit.problem

    def names(self) -> tuple[str, ...]:
        return tuple(self.audit.state.nodes[node].name for node in self.nodes.tolist())


def _out_of_service(ruled: _Ruled) -> OutOfService:
    states = Counter(_state_of(ruled.audit.state.nodes[node]) for node in ruled.nodes.tolist())
    return OutOfService(len(ruled.nodes), dict(states))


def _state_of(node: Node) -> str:
    if not node.up:
        return "down"
    if node.deactivation_intent is DeactivationIntent.NONE:
        return "up"
    return f"deactivated ({node.deactivation_intent.value}, {node.deactivation_status.value})"


def _taken(ruled: _Ruled) -> Taken:
    return Taken(len(ruled.nodes), ruled.names())


def _infeasible(ruled: _Ruled) -> Infeasible:
    state = ruled.audit.state
    feasibility_class = state.feasibility_classes[
        state.service_feasibility_class[int(ruled.problem.service[ruled.row])]
    ]
    blocked = sum(name in feasibility_class.blocked for name in ruled.names())
    return Infeasible(len(ruled.nodes), blocked, len(ruled.nodes) - blocked, feasibility_class.expression.text)


def _not_preferred(ruled: _Ruled) -> NotPreferred:
    problem, audit = ruled.problem, ruled.audit
    standbys = [one for one in siblings_of(problem, ruled.row) if problem.standby[one]]
    places = [int(audit.solution.node[one]) for one in standbys]
    state = audit.state
    upgraded = tuple(sorted({state.nodes[node].upgrade_domain_name for node in np.flatnonzero(problem.upgraded)}))
    return NotPreferred(len(ruled.nodes), tuple(state.nodes[node].name for node in places), upgraded)


def _crowded(ruled: _Ruled) -> Crowded:
    domains: dict[str, FullDomain] = {}
    for node in ruled.nodes.tolist():
        name = ruled.audit.domain_name(int(ruled.level[node]), node)
        if name not in domains:
            domains[name] = _full_domain(ruled, name, node)
    return Crowded(ruled.rule.name.lower(), len(ruled.nodes), tuple(domains.values()))


def _full_domain(ruled: _Ruled, name: str, node: int) -> FullDomain:
    """Return the number of replicas in the domain of `node`, and its largest number with one replica more."""
    problem, level = ruled.problem, int(ruled.level[node])
    by_domain = ruled.audit.replicas_by_domain(level, ruled.row)
    here = by_domain[int(problem.domain[node, level])]
    allowed = int(problem.most_in_domain[problem.service[ruled.row], level])
    if allowed != EVEN:
        return FullDomain(name, here, allowed)
    beside = np.unique(problem.domain[problem.parent[:, level] == problem.parent[node, level], level])
    replicas = 1 + sum(by_domain[int(domain)] for domain in beside)
    floor, rest = divmod(replicas, int(problem.siblings[problem.feasibility_class[ruled.row], node, level]))
    ceiling = floor + (rest > 0)
    return FullDomain(name, here, ceiling if here >= ceiling else floor)


def _full(ruled: _Ruled) -> Full:
    """Return the metrics with too little free capacity; the load of a standby on a node counts there already."""
    problem, solution, state = ruled.problem, ruled.audit.solution, ruled.audit.state
    nodes, needed = ruled.nodes, problem.load[ruled.row]
    rows = siblings_of(problem, ruled.row)
    standbys = {int(solution.node[one]): one for one in rows if problem.standby[one]}
    standby = [standbys.get(node, NOWHERE) for node in nodes.tolist()]
    free = problem.limit[nodes] - solution.node_load[nodes] - problem.leaving_load[nodes] + problem.load[standby]
    if problem.counts_departed:
        free -= solution.departed[nodes]
    short = (free < needed) & (needed > problem.load[standby])
    found = []
    for metric in np.flatnonzero(short.any(axis=0)).tolist():
        name = state.config.metrics[metric].name
        of_metric = np.flatnonzero(short[:, metric])
        best = int(of_metric[np.argmax(free[of_metric, metric])])
        found.append(
            Shortage(
                metric=name,
                nodes=len(of_metric),
                needed=state.quanta.to_user(name, int(needed[metric])),
                free=state.quanta.to_user(name, max(0, int(free[best, metric]))),
                emptiest=state.nodes[int(nodes[best])].name,
                missing=state.quanta.to_user(name, int(needed[metric] - free[best, metric])),
            )
        )
    return Full(len(nodes), tuple(found))


def _without_parent(ruled: _Ruled) -> WithoutParent:
    return WithoutParent(len(ruled.nodes), *ruled.audit.parent_of(ruled.row))


def _refused(ruled: _Ruled) -> Refused:
    return Refused(ruled.rule.name.lower(), len(ruled.nodes))


_DESCRIBERS: Mapping[Rule, Callable[[_Ruled], RuledOut]] = {
    Rule.NODE: _out_of_service,
    Rule.EXCLUSION: _taken,
    Rule.PLACEMENT: _infeasible,
    Rule.PREFERRED_LOCATION: _not_preferred,
    Rule.FAULT_DOMAIN: _crowded,
    Rule.UPGRADE_DOMAIN: _crowded,
    Rule.CAPACITY: _full,
    Rule.AFFINITY: _without_parent,
}
"""Functions that return the data of the nodes that a rule excludes; `_refused` for other rules."""
