"""Replicas that are not placed: the nodes that each rule excludes, in the order of the checks, with numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs

from plb.model.role import Role
from plb.model.violations import parent_in_words
from plb.phrasing import amount, listed, rule_in_words


@attrs.frozen
class OutOfService:
    """Nodes that are down or deactivated.

    Parameters
    ----------
    nodes
        Number of nodes for which this rule is the first that excludes them; so in every class of this module.
    states
        Number of these nodes by state, such as ``"down"`` or ``"deactivated (restart, safety_check_complete)"``.
    """

    rule: ClassVar[str] = "node"

    nodes: int
    states: Mapping[str, int]

    def __str__(self) -> str:
        return ", ".join(f"{count} {state}" for state, count in self.states.items())


@attrs.frozen
class Taken:
    """Nodes with another replica of the partition, also one that the same plan moves."""

    rule: ClassVar[str] = "exclusion"

    nodes: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"another replica of the partition is on {listed(self.names)}"


@attrs.frozen
class Infeasible:
    """Nodes on which the service may not be placed.

    Parameters
    ----------
    blocked, unfit
        Number of nodes in the block list of the service, and of other nodes that do not satisfy its placement
        constraint.
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
    """Nodes without a standby of the partition that are not upgraded, while it prefers other nodes.

    Parameters
    ----------
    preferred
        Names of the nodes with a standby.
    upgraded
        Names of the upgraded domains.
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
    """A domain that may have no more replicas of a partition.

    Parameters
    ----------
    replicas, most
        Number of its replicas, and the largest number with the present replicas of the other domains of its level.
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
    """A metric with too little free capacity on nodes.

    Parameters
    ----------
    nodes
        Number of nodes with too little of it, among those that capacity excludes; a node may be short of several
        metrics.
    needed, free
        The load of the replica, and the largest free capacity of these nodes; user units.
    emptiest
        Name of that node.
    missing
        Missing free capacity of that node, in user units; more than `needed` if its load exceeds its limit.
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
    """Nodes without enough free capacity."""

    rule: ClassVar[str] = "capacity"

    nodes: int
    shortages: tuple[Shortage, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.shortages))


@attrs.frozen
class WithoutParent:
    """Nodes on which a child would be separate from its parent; see `plb.model.violations.Apart`."""

    rule: ClassVar[str] = "affinity"

    nodes: int
    parent: str
    parent_partitions: int
    together_on: tuple[str, ...]

    def __str__(self) -> str:
        return parent_in_words(self.parent, self.parent_partitions, self.together_on)


@attrs.frozen
class Refused:
    """Nodes that a rule without further numbers excludes.

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
    "range": "its peaks and those on the node exceed the range of quanta; give a coarser Metric(quantum=...)",
    "throttling": "the limit of replicas in build is reached",
}


@attrs.frozen
class Declined:
    """Nodes that no rule excludes, and that the placement policy does not choose.

    Parameters
    ----------
    rule
        Name of the policy.
    """

    rule: str
    nodes: int

    def __str__(self) -> str:
        return "the policy does not choose it"


RuledOut = OutOfService | Taken | Infeasible | NotPreferred | Crowded | Full | WithoutParent | Refused | Declined
"""The nodes that one rule excludes; as text, its numbers."""


@attrs.frozen
class Together:
    """A partition whose placement is all-or-nothing.

    Parameters
    ----------
    requested, found
        Number of replicas to place, and of those that find a node when they are placed in turn.
    """

    requested: int
    found: int

    def __str__(self) -> str:
        text = "its placement is all-or-nothing"
        if self.found == self.requested:
            return text
        if self.requested == 1:
            return f"{text}, and no node was found"
        return f"{text}, and {f'only {self.found}' if self.found else 'none'} of {self.requested} replicas found a node"


@attrs.frozen
class Unplaced:
    """A replica that is not placed.

    Parameters
    ----------
    nodes
        Number of nodes.
    diagnosis
        Nodes by the rule that excludes them, in the order of the checks; each node counts at the first rule it fails.
        Rules that placement relaxed are not checked.
    given_up
        Soft rules that placement relaxed without success.
    together
        For an all-or-nothing placement: its result. A replica that found a node waits for the others; the nodes of one
        that found none are evaluated with the others in place.
    """

    partition: str
    role: Role
    nodes: int
    diagnosis: Sequence[RuledOut] = ()
    given_up: tuple[str, ...] = ()
    together: Together | None = None

    @property
    def ruled_out(self) -> dict[str, int]:
        """Number of nodes that each rule excludes, in the order of the checks."""
        return {one.rule: one.nodes for one in self.diagnosis}

    @property
    def fitting(self) -> int:
        """Number of nodes that no rule excludes."""
        return self.nodes - sum(one.nodes for one in self.diagnosis)

    def __str__(self) -> str:
        text = f"{self.role.name.lower()} of {self.partition} fits on {self.fitting or 'none'} of {self.nodes} nodes"
        if self.diagnosis:
            text += f": ruled out {diagnosis_in_words(self.diagnosis)}"
        if self.given_up:
            text += f"; even without the {_rules(self.given_up)}"
        return text if self.together is None else f"{text}; {self.together}"


def diagnosis_in_words(diagnosis: Sequence[RuledOut]) -> str:
    """Return the number of nodes that each rule excludes, with its numbers."""
    return ", ".join(f"{one.nodes} by {rule_in_words(one.rule)} ({one})" for one in diagnosis)


def _rules(names: Sequence[str]) -> str:
    words = " and ".join(map(rule_in_words, names))
    return f"{words} {'rule' if len(names) == 1 else 'rules'}"
