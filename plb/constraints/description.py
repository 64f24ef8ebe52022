"""What a rule consists of besides its kernels; each file of a rule has one description, and `rules` lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from plb.array_types import Int
from plb.constraints.named_solution import NamedSolution
from plb.model.expressions import UnmetClause
from plb.model.move import Phase, Reason
from plb.model.rules import Rule
from plb.model.unplaced import Refused, RuledOut
from plb.model.violations import Breach, Violation
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.topology import Topology


@attrs.frozen(eq=False)
class ExcludedNodes:
    """The nodes for which one rule is the first that excludes them for a row, which is not placed in the solution.

    Parameters
    ----------
    nodes
        Their indices.
    """

    named: NamedSolution
    row: int
    rule: Rule
    nodes: Int


@attrs.frozen(eq=False)
class RuleDescription:
    """A rule as diagnosis, violations, reasons of moves and settings see it.

    Parameters
    ----------
    rule
        Its number.
    ruled_out
        Returns the data of the nodes that it excludes; None: `words` say why without numbers.
    priority
        Returns its priority: 0 hard, 1 soft, 2 optimisation, -1 off. None: the rule is always hard.
    concerns
        Whether it concerns a row, so that it counts as given up where it is relaxed.
    fields
        Returns the fields of `Problem` that only this rule reads and that follow from nodes and settings.
    breaches
        Returns the verdicts on all rows that break it; none for a rule that only refuses.
    node_violations
        Returns the verdicts on nodes, whatever its priority.
    reason
        Returns why a move of a row that breaks it is made; None for a rule that no repair enforces.
    reasons_to_follow
        Returns why those of some rows move, though they break nothing, that this rule makes follow others that move.
        It gets the solution with names before the moves, that after them, the phase and the rows, (m,).
    unmet
        Returns the parts of its condition that a node does not satisfy.
    """

    rule: Rule
    ruled_out: Callable[[ExcludedNodes], RuledOut] | None = None
    words: str = ""
    priority: Callable[[PlbConfig], int] | None = None
    concerns: Callable[[Problem, int], bool] = lambda _problem, _row: True
    fields: Callable[[ClusterState, Topology], Mapping[str, Any]] = lambda _state, _topology: {}
    breaches: Callable[[NamedSolution], Iterable[Breach]] = lambda _named: ()
    node_violations: Callable[[NamedSolution], Iterable[Violation]] = lambda _named: ()
    reason: Callable[[NamedSolution, Phase, int], Reason] | None = None
    reasons_to_follow: Callable[[NamedSolution, Solution, Phase, Int], Mapping[int, Reason]] = lambda *_moved: {}
    unmet: Callable[[NamedSolution, int, int], tuple[UnmetClause, ...]] = lambda _named, _row, _node: ()

    def diagnosis(self, excluded: ExcludedNodes) -> RuledOut:
        """Return the data of the nodes that it excludes."""
        if self.ruled_out is None:
            return Refused(self.rule.name.lower(), len(excluded.nodes), self.words)
        return self.ruled_out(excluded)
