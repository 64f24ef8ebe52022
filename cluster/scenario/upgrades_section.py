"""Section ``[upgrades]`` of a scenario: rolling upgrades."""

from __future__ import annotations

import attrs

from cluster.scenario.sections import Section, count, number, span


@attrs.frozen(kw_only=True)
class Upgrades(Section):
    """Rolling upgrades, which upgrade one domain after the other.

    Parameters
    ----------
    starts_hours
        Begin of each upgrade, since the start of the run; an upgrade waits for the end of the previous one.
    minutes_per_node
        Time for which a node is down for its upgrade.
    nodes_at_once
        Maximum number of nodes of a domain that are drained or down at a time.
    drain
        Whether nodes are drained before they go down: primaries hand over their role, and replicas of tenants with one
        or two move away. The primaries return afterwards.
    safety_check_minutes
        Maximum time for which a node waits until all its tenants keep a quorum without it, before a roll-back.
    health_check_minutes
        Time between the end of a domain and the health check that allows the next one.
    failure_probability
        Probability that a domain is unhealthy after its upgrade; the upgrade is then rolled back domain by domain, the
        last one first.
    """

    starts_hours: tuple[float, ...] = span(())
    minutes_per_node: float = span(10.0, low_open=True)
    nodes_at_once: int = count(2, low=1)
    drain: bool = True
    safety_check_minutes: float = span(60.0)
    health_check_minutes: float = span(5.0)
    failure_probability: float = number(0.0, high=1.0)

    @property
    def is_any(self) -> bool:
        """Whether there is any upgrade."""
        return bool(self.starts_hours)
