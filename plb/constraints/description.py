"""What a rule consists of besides its kernels; each file of a rule has one description, and `rules` lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs

from plb.array_types import Int
from plb.model import Role
from plb.model.expressions import UnmetClause
from plb.model.move import Phase, Reason
from plb.model.outcome import Refused, RuledOut
from plb.model.rules import Breach, Rule, Violation
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState, FeasibilityClass
from plb.state.topology import Topology


class NamedSolution:
    """A solution, and the cluster that it belongs to; `priorities`: of each rule."""

    def __init__(
        self, state: ClusterState, problem: Problem, solution: Solution, priorities: Mapping[Rule, int]
    ) -> None:
        self.state, self.problem, self.solution, self.priorities = state, problem, solution, priorities
        self.kept: dict[tuple[Any, ...], Any] = {}
        """What a rule computes once for all partitions, under keys that begin with the rule."""

    def node_of(self, row: int) -> str:
        """Return the name of the node of a placed row."""
        return self.state.nodes[int(self.solution.node[row])].name

    def names(self, nodes: Int) -> tuple[str, ...]:
        """Return the names of nodes; `nodes`: (n,) indices."""
        return tuple(self.state.nodes[node].name for node in nodes.tolist())

    def role_of(self, row: int) -> Role:
        """Return the role of a row."""
        return Role(int(self.problem.role[row]))

    def feasibility_class_of(self, row: int) -> FeasibilityClass:
        """Return what the service of a row requires of nodes."""
        return self.state.feasibility_class_of(int(self.problem.service[row]))

    def reason(self, phase: Phase, row: int, breach: Breach) -> Reason:
        """Return the reason of a move of replica `row` in a phase that ends a breach."""
        return Reason(phase, breach.rule, self.node_of(row), numbers=breach.numbers, breach=breach)

    @cached_property
    def partitions_of_service(self) -> Counter[int]:
        """Number of partitions of each service, by its index."""
        return Counter(record.service for record in self.state.partitions.values())


@attrs.frozen(eq=False)
class ExcludedNodes:
    """The nodes for which one rule is the first that excludes them for a row, which is not placed in the solution."""

    named: NamedSolution
    row: int
    rule: Rule
    nodes: Int
    """Their indices."""


@attrs.frozen(eq=False)
class RuleDescription:
    """A rule as diagnosis, violations, reasons of moves and settings see it."""

    rule: Rule
    ruled_out: Callable[[ExcludedNodes], RuledOut] | None = None
    """Returns why it excludes nodes, with numbers; None: `words` say why."""
    words: str = ""
    """Why it excludes nodes, for a rule without `ruled_out`."""
    ruled_out_alone: Callable[[ExcludedNodes], Sequence[RuledOut]] | None = None
    """Returns the same for each of the nodes alone, faster than `ruled_out` for one after the other."""
    priority: Callable[[PlbConfig], int] | None = None
    """Returns its priority: 0 hard, 1 soft, 2 optimisation, -1 off. None: the rule is always hard."""
    concerns: Callable[[Problem, int], bool] = lambda _problem, _row: True
    """Whether it concerns a row, so that it counts as given up where it is relaxed."""
    fields: Callable[[ClusterState, Topology], Mapping[str, Any]] = lambda _state, _topology: {}
    """Returns the fields of `Problem` that only this rule reads and that follow from nodes and settings."""
    breaches: Callable[[NamedSolution], Iterable[Breach]] = lambda _named: ()
    """Returns the verdicts on all rows that break it; none for a rule that only refuses."""
    node_violations: Callable[[NamedSolution], Iterable[Violation]] = lambda _named: ()
    """Returns the verdicts on nodes, whatever its priority."""
    reason: Callable[[NamedSolution, Phase, int], Reason] | None = None
    """Returns why a move of a row that breaks it is made; None for a rule that no repair enforces."""
    reasons_to_follow: Callable[[NamedSolution, Solution, Phase, Int], Mapping[int, Reason]] = lambda *_moved: {}
    """Returns by row the reasons of moved rows that break nothing, but that this rule makes follow another replica. It
    gets the solution before the moves, the solution after them, the phase and the moved rows, (m,).
    """
    unmet: Callable[[NamedSolution, int, int], tuple[UnmetClause, ...]] | None = None
    """Returns the parts of its condition on a row that a node does not satisfy; None for a rule without clauses."""

    def diagnosis(self, excluded: ExcludedNodes) -> RuledOut:
        """Return why the rule excludes the nodes of `excluded`, all together, with the numbers that it compared."""
        if self.ruled_out is None:
            return Refused(self.rule.name.lower(), len(excluded.nodes), self.words)
        return self.ruled_out(excluded)

    def diagnoses(self, excluded: ExcludedNodes) -> Sequence[RuledOut]:
        """Return why the rule excludes each node of `excluded`, one entry a node, in their order."""
        if self.ruled_out_alone is not None:
            return self.ruled_out_alone(excluded)
        if self.ruled_out is None:
            return [Refused(self.rule.name.lower(), 1, self.words)] * len(excluded.nodes)
        return [self.ruled_out(attrs.evolve(excluded, nodes=node)) for node in excluded.nodes[:, None]]
