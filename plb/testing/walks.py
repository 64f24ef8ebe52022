"""Strategies for moves: walks from one configuration to the next."""

from __future__ import annotations

from hypothesis import strategies as st

from plb.array_types import NOWHERE
from plb.extensions.configuration import Configuration, Proposal


@st.composite
def walks(
    draw: st.DrawFn, configuration: Configuration, *, steps: int = 12, usable_only: bool = False
) -> list[Proposal]:
    """Proposals for a walk from `configuration`; they are drawn blindly, so that they may break every rule.

    Moves, swaps, exchanges, and rows taken off their node; rows that are leaving stay where they are.
    """
    problem = configuration.problem
    node = configuration.solution.node.copy()
    rows = [row for row in _used(configuration) if not problem.leaving[row]]
    places = [int(n) for n in problem.targets] if usable_only else list(range(len(problem.limit)))
    walk: list[Proposal] = []
    for _ in range(draw(st.integers(0, steps)) if rows and places else 0):
        row = draw(st.sampled_from(rows))
        partner = draw(st.sampled_from([NOWHERE, NOWHERE, *rows]))
        target = draw(st.sampled_from(places if usable_only else [*places, NOWHERE]))
        if partner != NOWHERE:
            target = int(node[partner])
            if NOWHERE in (node[row], target) or (usable_only and target not in places):
                continue
        if partner == row or target == node[row]:
            continue
        if partner != NOWHERE:
            node[partner] = node[row]
        node[row] = target
        walk.append(Proposal(row, target, partner))
    return walk


def _used(configuration: Configuration) -> list[int]:
    """Return the rows, ascending, that stand, wait or leave: all that a service has given load, a ring or a place."""
    problem = configuration.problem
    return [row for row in range(len(problem.origin)) if problem.movable[row] or problem.origin[row] != NOWHERE]
