"""Section ``[faults]`` of a scenario: crashes of nodes, outages of fault domains, and flapping nodes.

Entries of `crashes`, `outages` and `flapping` are tables, such as
``crashes = [{ node = "n03", at_hours = 5.0, hours = 1.0 }]``.
"""

from __future__ import annotations

from typing import Literal

import attrs

from cluster.scenario.sections import Section, number, span
from plb import InvalidValueError

ONE_SECOND = 1 / 60
"""In minutes: the resolution of simulated time."""
ONE_MINUTE = 1 / 1440
"""In days."""


@attrs.frozen(kw_only=True)
class Crash(Section):
    """A node that goes down at a given time.

    Parameters
    ----------
    node
        Its name.
    at_hours, hours
        Begin, since the start of the run, and duration.
    """

    node: str
    at_hours: float = span(attrs.NOTHING)
    hours: float = span(attrs.NOTHING, low_open=True)


@attrs.frozen(kw_only=True)
class Outage(Section):
    """An outage of all nodes of a fault domain.

    Parameters
    ----------
    fault_domain
        Path of the domain, such as ``"fd:/fd0"``, or of a domain above.
    at_hours, hours
        Begin, since the start of the run, and duration.
    """

    fault_domain: str
    at_hours: float = span(attrs.NOTHING)
    hours: float = span(attrs.NOTHING, low_open=True)


@attrs.frozen(kw_only=True)
class Flapping(Section):
    """A node that repeatedly goes down and comes back.

    Parameters
    ----------
    node
        Its name.
    from_hours, until_hours
        Period, since the start of the run, in which the node goes down.
    up_minutes, down_minutes
        Duration of each time up and down, at least a second; the node goes down first.
    """

    node: str
    from_hours: float = span(attrs.NOTHING)
    until_hours: float = span(attrs.NOTHING)
    up_minutes: float = span(attrs.NOTHING, low=ONE_SECOND)
    down_minutes: float = span(attrs.NOTHING, low=ONE_SECOND)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.until_hours <= self.from_hours:
            allowed = f"more than from_hours, {self.from_hours:g}"
            raise InvalidValueError("flapping", "until_hours", self.until_hours, allowed)


@attrs.frozen(kw_only=True)
class Faults(Section):
    """Faults of nodes, the same for every policy.

    Parameters
    ----------
    days_between_crashes
        Mean of the exponential time that a node is up between two crashes, at least a minute; None: no random crashes.
    repair_hours
        Mean duration of a random crash.
    repair_distribution
        ``"exponential"``, ``"lognormal"`` (with `repair_sigma`) or ``"constant"``.
    repair_sigma
        Standard deviation of the logarithm of a lognormal repair time, at most 10.
    crashes, outages, flapping
        Faults at given times.
    rebuild_after_minutes
        Time to wait for a replica on a node that is down before it is built elsewhere (Service Fabric's
        ReplicaRestartWaitDuration: 30).
    remote_storage
        Whether a tenant with a single replica has its data on remote storage, so that it restarts on another node. If
        not, it waits until its node is back.
    """

    days_between_crashes: float | None = number(None, low=ONE_MINUTE)
    repair_hours: float = span(2.0, low_open=True)
    repair_distribution: Literal["exponential", "lognormal", "constant"] = "exponential"
    repair_sigma: float = number(1.0, high=10.0)
    crashes: tuple[Crash, ...] = ()
    outages: tuple[Outage, ...] = ()
    flapping: tuple[Flapping, ...] = ()
    rebuild_after_minutes: float = span(30.0)
    remote_storage: bool = True

    @property
    def is_any(self) -> bool:
        """Whether any fault can occur."""
        return self.days_between_crashes is not None or bool(self.crashes or self.outages or self.flapping)
