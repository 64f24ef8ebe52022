"""What a move leaves behind."""

from __future__ import annotations

import attrs

from cluster.simulation.causes import BALANCING, FAULT, PLACEMENT, UPGRADE, VIOLATION
from plb.model.move import Move, Phase

CAUSES = {"capacity": VIOLATION, "eviction": PLACEMENT, "new replica": PLACEMENT, "upgraded": UPGRADE}
"""What moves are made for, by the rule behind them; other rules stand for themselves."""


@attrs.define(eq=False)
class MoveRecord:
    """A move of a replica that stood somewhere, while it is under way and after.

    Parameters
    ----------
    started, ended
        Seconds since the start; `ended` is None while it lasts.
    move
        The engine's move.
    copied_gb
        Data to copy, GB.
    outcome
        ``"completed"``, ``"departed"`` (the tenant left first), ``"failed"`` (a node was lost) or ``"under way"``.
    """

    started: int
    move: Move
    copied_gb: float
    ended: int | None = None
    outcome: str = "under way"

    @property
    def cause(self) -> str:
        """What it was made for: one of `cluster.simulation.causes`, or the rule behind it."""
        reason = self.move.reason
        return BALANCING if reason.phase is Phase.BALANCING else CAUSES.get(reason.rule, reason.rule)

    @property
    def why(self) -> str:
        """Why it was made, in words."""
        reason = self.move.reason
        return f"node {reason.node} went down" if reason.rule == FAULT else str(reason)

    @property
    def is_failover(self) -> bool:
        """Whether it is a failover: every move that is not made for balance."""
        return self.move.reason.phase is not Phase.BALANCING
