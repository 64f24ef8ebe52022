"""What a scenario says of rolling upgrades: section ``[upgrades]``."""

from __future__ import annotations

import attrs

from cluster.scenario.sections import Section, count, number, span


@attrs.frozen(kw_only=True)
class Upgrades(Section):
    """Rolling upgrades, which take the upgrade domains one after the other.

    Parameters
    ----------
    starts_hours
        When upgrades begin, since the start; one that comes while another goes on waits for its end.
    minutes_per_node
        How long a node is down for its upgrade.
    nodes_at_once
        Most nodes of a domain that are drained or down at a time.
    drain
        Whether nodes are drained before they go down: primaries hand over their role, replicas of tenants with one or
        two move away; the primaries come back after.
    safety_check_minutes
        How long a node waits until all its tenants keep a quorum without it; then the upgrade is rolled back.
    health_check_minutes
        Time between the end of a domain and the look at the cluster that decides whether the next one may begin.
    failure_probability
        Probability that a domain is found unhealthy after its upgrade; the upgrade is then rolled back, domain by
        domain, last one first.
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
