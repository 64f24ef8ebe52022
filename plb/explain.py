"""Why a replica moves, stays or could not be placed: one rendering of a plan's data in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plb.plan import Plan


def explain_in_plan(plan: Plan, partition: str) -> str:
    """Return in a sentence or two what `plan` does about `partition`, and why."""
    sentences = [f"{move}: {move.reason}." for move in plan.moves if move.partition == partition]
    sentences += [f"{refusal}." for refusal in plan.unplaced if refusal.partition == partition]
    if sentences:
        return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)
    why = f"the search ended because {plan.end_reason}" if plan.phases else "no phase was due"
    return f"The plan leaves {partition} where it is: {why}."
