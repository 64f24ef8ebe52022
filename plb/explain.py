"""Why a replica moves, stays or could not be placed: one rendering of a plan's data in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from plb.errors import UnknownNameError
from plb.outcome import DomainOutcome, Held
from plb.words import counted, listed, rule_in_words

if TYPE_CHECKING:
    from plb.plan import Plan


def explain_in_plan(plan: Plan, partition: str) -> str:
    """Return in a sentence or two what `plan` does about `partition`, and why; or why it does nothing.

    Raises
    ------
    UnknownNameError
        If the plan knows no such partition.
    """
    sentences = [f"{move}: {move.reason}." for move in plan.moves if move.partition == partition]
    sentences += [f"{refusal}." for refusal in plan.unplaced if refusal.partition == partition]
    if not sentences:
        sentences = _why_it_stays(_outcome_for(plan, partition), partition)
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)


def _outcome_for(plan: Plan, partition: str) -> DomainOutcome:
    """Return what was done for the service domain of a partition."""
    for outcome in plan.outcomes:
        if partition in outcome.partitions:
            return outcome
    known = [name for outcome in plan.outcomes for name in outcome.partitions]
    raise UnknownNameError("partition", partition, known, context="plan")


def _why_it_stays(outcome: DomainOutcome, partition: str) -> list[str]:
    """Return the sentences about a partition that the plan leaves as it is."""
    idle = "; ".join(f"{phase.value} did not run, as {why.value}" for phase, why in outcome.idle.items())
    did = f" ({outcome.action} for service domain {outcome.domain})" if outcome.action else ""
    first = f"the plan leaves {partition} where it is{did}"
    sentences = [f"{first}: {idle}." if not outcome.phases else f"{first}: {_what_ran(outcome)}."]
    if outcome.phases and idle:
        sentences.append(f"{idle}.")
    if partition in outcome.held:
        sentences.append(_what_is_held(outcome.held[partition]))
    return sentences


def _what_ran(outcome: DomainOutcome) -> str:
    """Say which phases ran, why the last ended, and what refused how many proposals."""
    phases = " and ".join(phase.value for phase in outcome.phases)
    text = f"{phases} ran and ended as {outcome.end_reason}"
    proposals = outcome.proposals
    if not proposals.drawn:
        return text
    refused = {rule_in_words(name): count for name, count in proposals.refused_by_rule.items()}
    rejected = {rule_in_words(name): count for name, count in proposals.rejected_by_term.items()}
    text += f", having accepted {proposals.accepted} of {counted(proposals.drawn, 'proposal')}"
    if refused:
        text += f"; refused by rule: {_counts(refused)}"
    if rejected:
        text += f"; rejected as they worsen a term: {_counts(rejected)}"
    if outcome.bound_by:
        text += f"; bound by the budget of {' and '.join(map(rule_in_words, outcome.bound_by))}"
    return text


def _counts(counts: Mapping[str, int]) -> str:
    """Return counts with their names, the largest first."""
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return listed([f"{name} {count}" for name, count in ordered])


def _what_is_held(held: Mapping[Held, int]) -> str:
    """Say how many replicas may not move, and why."""
    parts = ", ".join(f"{count} {why.value}" for why, count in held.items())
    total = sum(held.values())
    return f"{counted(total, 'replica')} of it may not move: {parts}."
