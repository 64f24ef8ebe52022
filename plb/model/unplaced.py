"""Replicas that are not placed: the nodes that each rule excludes, in the order of the checks, with numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from plb.model.expressions import UnmetClause
from plb.model.outcome import Immovable
from plb.model.role import Role
from plb.model.rules import BUDGETS
from plb.phrasing import rule_in_words

_BUDGETS = frozenset(budget.name.lower() for budget in BUDGETS)


@attrs.frozen
class RuledOut:
    """The nodes that one rule excludes for a replica; as text, its numbers.

    The files of the rules in `plb.constraints` have the classes.
    """

    @property
    def rule(self) -> str:
        """Name of the rule, the extension constraint or the policy."""
        raise NotImplementedError

    @property
    def nodes(self) -> int:
        """Number of nodes for which this rule is the first that excludes them."""
        raise NotImplementedError

    @property
    def distance(self) -> float:
        """Distance of a single node from one that the rule allows: 1, or a share of that."""
        return 1.0

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:  # noqa: ARG002  # some rules need them
        """Yield the changes after which a single node could take the replica, in words.

        `node`: name of the node; `unmet`: the clauses of the placement constraint that it does not satisfy.
        """
        yield f"{rule_in_words(self.rule)} must allow it ({self})"


@attrs.frozen
class Refused(RuledOut):
    """Nodes that a rule or an extension constraint without further numbers excludes."""

    rule: str
    nodes: int
    words: str = ""
    """The text; empty: the name of the rule."""

    def __str__(self) -> str:
        return self.words or rule_in_words(self.rule)


@attrs.frozen
class Declined(RuledOut):
    """Nodes that no rule excludes, and that the placement policy does not choose."""

    rule: str
    """Name of the policy."""
    nodes: int

    def __str__(self) -> str:
        return "the policy does not choose it"


@attrs.frozen
class Together:
    """A partition whose placement is all-or-nothing."""

    requested: int
    found: int
    """Number of replicas to place, and how many of them find a node when placed in turn."""

    def __str__(self) -> str:
        text = "its placement is all-or-nothing"
        if self.found == self.requested:
            return text
        if self.requested == 1:
            return f"{text}, and no node was found"
        return f"{text}, and {f'only {self.found}' if self.found else 'none'} of {self.requested} replicas found a node"


@attrs.frozen
class Unplaced:
    """A replica that is not placed."""

    partition: str
    role: Role
    nodes: int
    """Number of nodes."""
    diagnosis: Sequence[RuledOut] = ()
    """Nodes by the rule that excludes them, in the order of the checks; each node counts at the first rule it fails.
    Rules that placement relaxed are not checked.
    """
    given_up: tuple[str, ...] = ()
    """Soft rules that placement relaxed without success."""
    together: Together | None = None
    """For an all-or-nothing placement: its result. A replica that found a node waits for the others; the nodes of one
    that found none are evaluated with the others in place.
    """

    @property
    def ruled_out(self) -> dict[str, int]:
        """Number of nodes that each rule excludes, in the order of the checks."""
        return {one.rule: one.nodes for one in self.diagnosis}

    @property
    def fitting(self) -> int:
        """Number of nodes that no rule excludes."""
        return self.nodes - sum(one.nodes for one in self.diagnosis)

    @property
    def why(self) -> str:
        """On how many nodes it fits, and which rules exclude the others, as the predicate of a sentence."""
        if not self.nodes:
            return "fits on no node: the cluster has none"
        text = f"fits on {self.fitting or 'none'} of {self.nodes} nodes"
        if self.diagnosis:
            text += f": ruled out {diagnosis_in_words(self.diagnosis)}"
        if self.given_up:
            text += f"; even without the {_rules(self.given_up)}"
        return text if self.together is None else f"{text}; {self.together}"

    def __str__(self) -> str:
        return f"{self.role.name.lower()} of {self.partition} {self.why}"


@attrs.frozen(kw_only=True)
class Undrained(Unplaced):
    """A replica that a repair leaves on a node that has to be emptied.

    Parameters
    ----------
    `diagnosis` is empty if the replica is immovable, or if some node is open to it, so that a later plan may move it. A
    budget of moves that holds the replica rules out all nodes. Of many replicas, only the first have numbers.
    """

    node: str
    """Name of the node."""
    immovable: Immovable | None = None
    """Why no plan may move the replica; None: plans may."""

    def __str__(self) -> str:
        who = f"{self.role.name.lower()} of {self.partition}"
        return f"{who} stays on node {self.node}, which is to be emptied: {self._why_it_stays}"

    @property
    def _why_it_stays(self) -> str:
        if self.immovable is not None:
            return f"it is {self.immovable.value}"
        if not self.diagnosis:
            return "a later plan may move it"
        return str(self.diagnosis[0]) if self.diagnosis[0].rule in _BUDGETS else f"it {self.why}"


def diagnosis_in_words(diagnosis: Sequence[RuledOut]) -> str:
    """Return the number of nodes that each rule excludes, with its numbers."""
    return ", ".join(f"{one.nodes} by {rule_in_words(one.rule)} ({one})" for one in diagnosis)


def _rules(names: Sequence[str]) -> str:
    words = " and ".join(map(rule_in_words, names))
    return f"{words} {'rule' if len(names) == 1 else 'rules'}"
