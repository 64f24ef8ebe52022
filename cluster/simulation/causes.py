"""Names of the causes of failovers and interruptions in the tables of a run."""

from __future__ import annotations

VIOLATION, BALANCING, PLACEMENT = "violation", "balancing", "placement"
FAULT, UPGRADE, QUORUM_LOSS = "node fault", "upgrade", "quorum loss"
CAUSES_OF_MOVES = (VIOLATION, BALANCING, PLACEMENT, FAULT, UPGRADE)
"""A move that repairs a rule of the engine has the name of that rule as its cause."""
REPAIRING_NOTHING = ("energy", "surplus")
"""Reasons of the engine that break no rule: lower energy, and replicas beyond the target number."""


def cause_text(cause: str) -> str:
    """Return a cause as plots and reports show it: names of rules get the prefix "rule"."""
    return cause if cause in {*CAUSES_OF_MOVES, QUORUM_LOSS, *REPAIRING_NOTHING} else f"rule {cause}"
