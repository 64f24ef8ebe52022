"""What failovers and interruptions are made for, as the tables of a run call it."""

from __future__ import annotations

VIOLATION, BALANCING, PLACEMENT = "violation", "balancing", "placement"
FAULT, UPGRADE, QUORUM_LOSS = "node fault", "upgrade", "quorum loss"
CAUSES_OF_MOVES = (VIOLATION, BALANCING, PLACEMENT, FAULT, UPGRADE)
"""Beside these, a rule of the engine stands for itself, such as a domain that holds too many replicas."""
REPAIRING_NOTHING = ("energy", "surplus")
"""Reasons of the engine that stand for themselves, too: less energy, and replicas beyond the wanted number."""


def cause_text(cause: str) -> str:
    """Return a cause as readers of plots and reports see it: rules are called so."""
    return cause if cause in {*CAUSES_OF_MOVES, QUORUM_LOSS, *REPAIRING_NOTHING} else f"rule {cause}"
