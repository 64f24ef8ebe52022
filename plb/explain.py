"""Why a replica moves, stays or could not be placed: one rendering of a plan's data in words."""

from __future__ import annotations

from collections.abc import Mapping

from plb.errors import UnknownNameError
from plb.outcome import DomainOutcome, Held, Idle
from plb.plan import Phase, Plan
from plb.words import counted, listed, rule_in_words


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
    did = f" ({outcome.action} for service domain {outcome.domain})" if outcome.action else ""
    why = [_what_ran(outcome)] if outcome.phases else []
    asked = {phase: why for phase, why in outcome.idle.items() if why is not Idle.NOT_ASKED}
    for reason in dict.fromkeys(asked.values()):
        phases = _joined([phase.value for phase in Phase if asked.get(phase) is reason])
        why.append(f"{phases} did not run, as {reason.value}")
    sentences = [f"the plan leaves {partition} where it is{did}: {'; '.join(why)}."]
    if partition in outcome.held:
        sentences.append(_what_is_held(outcome.held[partition]))
    return sentences


def _what_ran(outcome: DomainOutcome) -> str:
    """Say which phases ran, why the last ended, and what refused how many proposals."""
    text = f"{_joined([phase.value for phase in outcome.phases])} ran and "
    text += "found nothing to change" if outcome.end_reason == "nothing to do" else f"ended as {outcome.end_reason}"
    proposals = outcome.proposals
    if proposals.drawn:
        text += f", having accepted {proposals.accepted} of {counted(proposals.drawn, 'proposal')}"
    if proposals.refused_by_rule:
        text += f", refused by rule: {_counts(proposals.refused_by_rule)}"
    if proposals.rejected_by_term:
        text += f", rejected as a term grew: {_counts(proposals.rejected_by_term)}"
    if outcome.bound_by:
        text += f", bound by the budget of {_joined([rule_in_words(rule) for rule in outcome.bound_by])}"
    return text


def _joined(words: list[str]) -> str:
    """Return words as one enumeration."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _counts(counts: Mapping[str, int]) -> str:
    """Return counts with their names, the largest first."""
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return listed([f"{count} by {rule_in_words(name)}" for name, count in ordered])


def _what_is_held(held: Mapping[Held, int]) -> str:
    """Say how many replicas may not move, and why."""
    parts = ", ".join(f"{count} {why.value}" for why, count in held.items())
    total = sum(held.values())
    return f"{counted(total, 'replica')} of it may not move: {parts}."
