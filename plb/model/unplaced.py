"""A replica that found no place: which rule ruled out which nodes, in the order of looking, with numbers to act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs

from plb.model.role import Role
from plb.model.violations import parent_in_words
from plb.phrasing import amount, listed, rule_in_words


@attrs.frozen
class OutOfService:
    """Nodes that take no such replica, as they are down or deactivated.

    Parameters
    ----------
    nodes
        How many nodes this rule is the first to rule out; so in every class of this module.
    states
        How many of them are in each state, such as ``"down"`` or ``"deactivated (restart, safety_check_complete)"``.
    """

    rule: ClassVar[str] = "node"

    nodes: int
    states: Mapping[str, int]

    def __str__(self) -> str:
        return ", ".join(f"{count} {state}" for state, count in self.states.items())


@attrs.frozen
class Taken:
    """Nodes that have another replica of the partition, or had or get one in the same plan."""

    rule: ClassVar[str] = "exclusion"

    nodes: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"another replica of the partition is on {listed(self.names)}"


@attrs.frozen
class Infeasible:
    """Nodes on which the service may not stand.

    Parameters
    ----------
    blocked, unfit
        How many of them are in the service's block list, and how many others fail its placement constraint.
    constraint
        The placement constraint.
    """

    rule: ClassVar[str] = "placement"

    nodes: int
    blocked: int
    unfit: int
    constraint: str

    def __str__(self) -> str:
        blocked = f"{self.blocked} blocked for the service" if self.blocked else ""
        unfit = f"{self.unfit} not satisfying {self.constraint!r}" if self.unfit else ""
        return ", ".join(filter(None, (blocked, unfit)))


@attrs.frozen
class NotPreferred:
    """Nodes that have no standby of the partition and are not upgraded, while it prefers those that have or are.

    Parameters
    ----------
    preferred
        Names of the nodes with a standby.
    upgraded
        Names of the upgrade domains that are done.
    """

    rule: ClassVar[str] = "preferred_location"

    nodes: int
    preferred: tuple[str, ...]
    upgraded: tuple[str, ...] = ()

    def __str__(self) -> str:
        standbys = f"its partition has standbys on {listed(self.preferred)}" if self.preferred else ""
        upgraded = f"upgraded so far are {listed(self.upgraded)}" if self.upgraded else ""
        return ", ".join(filter(None, (standbys, upgraded))) or "none is in an upgraded domain"


@attrs.frozen
class FullDomain:
    """A domain that may hold no more replicas of a partition.

    Parameters
    ----------
    replicas, most
        How many it holds, and how many it may hold as the others of its level are now.
    """

    domain: str
    replicas: int
    most: int

    def __str__(self) -> str:
        return f"{self.domain} holds {self.replicas} and may hold {self.most}"


@attrs.frozen
class Crowded:
    """Nodes in fault or upgrade domains that are full.

    Parameters
    ----------
    rule
        ``"fault_domain"`` or ``"upgrade_domain"``.
    domains
        The full domains.
    """

    rule: str
    nodes: int
    domains: tuple[FullDomain, ...]

    def __str__(self) -> str:
        return listed([str(domain) for domain in self.domains])


@attrs.frozen
class Shortage:
    """A metric of which nodes have too little room left.

    Parameters
    ----------
    nodes
        How many of the nodes that capacity rules out are short of it; a node may be short of several metrics.
    needed, free
        What the replica needs, and the most that one of these nodes has left; user units.
    emptiest
        Name of that node.
    missing
        How much more room that node would need, in user units; more than `needed` where it is too full already.
    """

    metric: str
    nodes: int
    needed: float
    free: float
    emptiest: str
    missing: float

    def __str__(self) -> str:
        return f"{amount(self.needed)} {self.metric} needed, at most {amount(self.free)} free, on {self.emptiest}"


@attrs.frozen
class Full:
    """Nodes without room."""

    rule: ClassVar[str] = "capacity"

    nodes: int
    shortages: tuple[Shortage, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.shortages))


@attrs.frozen
class WithoutParent:
    """Nodes on which a child would be apart from its parent; see `plb.model.violations.Apart`."""

    rule: ClassVar[str] = "affinity"

    nodes: int
    parent: str
    parent_partitions: int
    together_on: tuple[str, ...]

    def __str__(self) -> str:
        return parent_in_words(self.parent, self.parent_partitions, self.together_on)


@attrs.frozen
class Refused:
    """Nodes that a rule without numbers of its own rules out.

    Parameters
    ----------
    rule
        ``"range"``, or ``"throttling"``.
    """

    rule: str
    nodes: int

    def __str__(self) -> str:
        return _WORDS.get(self.rule, rule_in_words(self.rule))


_WORDS = {
    "range": "its peaks and those there add up to too many quanta; give a coarser Metric(quantum=...)",
    "throttling": "as many replicas are in build there as may be",
}


@attrs.frozen
class Declined:
    """Nodes that no rule rules out, and that the placement policy does not want.

    Parameters
    ----------
    rule
        Name of the policy.
    """

    rule: str
    nodes: int

    def __str__(self) -> str:
        return "the policy would rather not place it there"


RuledOut = OutOfService | Taken | Infeasible | NotPreferred | Crowded | Full | WithoutParent | Refused | Declined
"""What one rule ruled out; as text, the numbers behind it."""


@attrs.frozen
class Together:
    """A partition that is placed wholly or not at all.

    Parameters
    ----------
    requested, found
        How many replicas were to be placed, and how many of them find a node when they are placed in turn.
    """

    requested: int
    found: int

    def __str__(self) -> str:
        text = "its partition is placed wholly or not at all"
        if self.found == self.requested:
            return text
        if self.requested == 1:
            return f"{text}, and no node was found"
        return f"{text}, and {f'only {self.found}' if self.found else 'none'} of {self.requested} replicas found a node"


@attrs.frozen
class Unplaced:
    """A replica that found no place.

    Parameters
    ----------
    nodes
        Nodes in all.
    diagnosis
        What each rule ruled out, in the order of looking: every node counts once, at the first rule it fails. Rules
        that placement gave up are not asked.
    given_up
        Soft rules that placement gave up, in vain.
    together
        Where the partition is placed wholly or not at all: how near it came. A replica that found a node by itself
        waits for the others; the nodes of one that found none are judged with the others in place.
    """

    partition: str
    role: Role
    nodes: int
    diagnosis: Sequence[RuledOut] = ()
    given_up: tuple[str, ...] = ()
    together: Together | None = None

    @property
    def ruled_out(self) -> dict[str, int]:
        """How many nodes each rule ruled out, in the order of looking."""
        return {one.rule: one.nodes for one in self.diagnosis}

    @property
    def fitting(self) -> int:
        """How many nodes no rule rules out."""
        return self.nodes - sum(one.nodes for one in self.diagnosis)

    def __str__(self) -> str:
        text = f"{self.role.name.lower()} of {self.partition} fits on {self.fitting or 'none'} of {self.nodes} nodes"
        if self.diagnosis:
            text += f": ruled out {diagnosis_in_words(self.diagnosis)}"
        if self.given_up:
            text += f"; even without the {_rules(self.given_up)}"
        return text if self.together is None else f"{text}; {self.together}"


def diagnosis_in_words(diagnosis: Sequence[RuledOut]) -> str:
    """Return how many nodes each rule ruled out, with the numbers behind it."""
    return ", ".join(f"{one.nodes} by {rule_in_words(one.rule)} ({one})" for one in diagnosis)


def _rules(names: Sequence[str]) -> str:
    words = " and ".join(map(rule_in_words, names))
    return f"{words} {'rule' if len(names) == 1 else 'rules'}"
