"""Preferred locations: nodes with a replica of the partition, or upgraded (docs/constraints/preferred_location.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.constraints.application_sums import has_standby, standby_on
from plb.constraints.description import ExcludedNodes, RuleDescription
from plb.model.expressions import UnmetClause
from plb.model.outcome import RuledOut
from plb.model.role import PRIMARY
from plb.model.rules import Rule, RuleMask
from plb.phrasing import listed
from plb.state.arrays import Problem, Solution, siblings_of

RULE = int(Rule.PREFERRED_LOCATION)


@kernel(inline=True)
def refuses(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> bool:
    """Return whether replica `row` prefers other nodes: `target` has no standby of its partition and is not upgraded.

    If the partition has a standby, upgraded nodes are not preferred.
    """
    if not (problem.preferring and enforced >> RULE & 1 and problem.prefers_siblings[row]):
        return False
    if is_upgraded(problem, row, target) and not has_standby(problem, row):
        return False
    return standby_on(problem, solution, row, target) == NOWHERE


@kernel(shared=True)
def is_upgraded(problem: Problem, row: int, target: int) -> bool:
    """Return whether `target` is upgraded in the running upgrade that replica `row` follows.

    Of an upgrade of the cluster and one of its application it follows the one that has yet to reach the primary of the
    partition; if both have, or neither, the one that has completed more domains.
    """
    application = problem.application[row]
    if application == NOWHERE or not problem.grouped or problem.completed_domains[application] == 0:
        return bool(problem.upgraded[target])
    of_application, of_cluster = problem.completed_domains[application], problem.completed_domains[-1]
    follows_cluster = of_cluster > of_application
    sibling = row
    while of_cluster > 0:
        node = problem.origin[sibling]
        if problem.role[sibling] == PRIMARY and node != NOWHERE:
            if problem.upgraded[node] != problem.application_upgraded[application, node]:
                follows_cluster = not problem.upgraded[node]
            break
        sibling = problem.sibling[sibling]
        if sibling == row:
            break
    if follows_cluster:
        return bool(problem.upgraded[target])
    return bool(problem.application_upgraded[application, target])


@attrs.frozen
class NotPreferred(RuledOut):
    """Nodes without a standby of the partition that are not upgraded, while it prefers other nodes."""

    rule: ClassVar[str] = "preferred_location"

    nodes: int
    """Number of these nodes."""
    preferred: tuple[str, ...]
    """Names of the nodes with a standby."""
    upgraded: tuple[str, ...] = ()
    """Names of the upgraded domains."""

    def __str__(self) -> str:
        standbys = f"its partition has standbys on {listed(self.preferred)}" if self.preferred else ""
        upgraded = f"upgraded so far are {listed(self.upgraded)}" if self.upgraded else ""
        return ", ".join(filter(None, (standbys, upgraded))) or "none is in an upgraded domain"

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield in words what must change before `node` can take the replica; this rule does not need `unmet`."""
        yield f"{node} must be a preferred location ({self})"


def _ruled_out(excluded: ExcludedNodes) -> NotPreferred:
    """Return how many nodes the rule excludes, the nodes with a standby of the partition, and the upgraded domains."""
    problem, named = excluded.named.problem, excluded.named
    standbys = [sibling for sibling in siblings_of(problem, excluded.row) if problem.standby[sibling]]
    nodes = [node for node in range(len(problem.upgraded)) if is_upgraded.py_func(problem, excluded.row, node)]
    upgraded = tuple(sorted({named.state.nodes[node].upgrade_domain_name for node in nodes}))
    return NotPreferred(len(excluded.nodes), tuple(map(named.node_of, standbys)), upgraded)


DESCRIPTION = RuleDescription(
    Rule.PREFERRED_LOCATION,
    _ruled_out,
    priority=lambda config: config.preferred_location_constraint_priority,
    concerns=lambda problem, row: bool(problem.prefers_siblings[row]),
    fields=lambda _state, topology: {"upgraded": topology.upgraded},
)
