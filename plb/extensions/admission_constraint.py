"""The admission test of a new replica on a node, as a constraint.

GPA ([2] section 4, algorithm 1) and the users of peak predictors ([5] section 2) apply it to every machine before they
place a task. Here it is a constraint, so that every phase and every policy observes it, with any estimator::

    register_constraint(Admission(0.05))
    PlbConfig(..., extension_constraints=["admission"], estimator="gaussian")
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import attrs

from plb.array_types import NOWHERE
from plb.validation import check_name, check_number

if TYPE_CHECKING:
    from plb.extensions.configuration import Configuration, Proposal


@attrs.frozen
class Admission:
    """Refuses a new replica on nodes where the probability of a violation would then reach a limit.

    Placed replicas and moves are not tested: the rules and the energy of the engine decide on them.

    Parameters
    ----------
    probability
        The limit, in (0, 1]: ρ of [2], θ of [1] section 8.3 (there 0.01). A peak predictor returns 0 or 1.
    name
        Name of the constraint.
    """

    probability: float = 0.01
    name: str = "admission"

    def __attrs_post_init__(self) -> None:
        item = f"constraint {check_name('constraint', self.name)}"
        limit = check_number(item, "probability", self.probability, high=1.0, low_open=True)
        object.__setattr__(self, "probability", limit)

    def refuses(self, configuration: Configuration, proposal: Proposal) -> bool:
        """Return whether a new replica would make a violation too likely on its node."""
        new = [move for move in configuration.relocations(proposal) if self._is_new(configuration, move.row)]
        taken = [move.target for move in new if move.target != NOWHERE]
        if not taken:
            return False
        back = configuration.apply(proposal)
        likely = bool((configuration.violation_probabilities[taken] >= self.probability).any())
        configuration.apply(back)
        return likely

    def broken(self, configuration: Configuration) -> Collection[int]:
        """Return the new replicas on nodes where a violation is too likely: they are not placed there."""
        probability = configuration.violation_probabilities
        return [
            int(row)
            for row in configuration.rows
            if self._is_new(configuration, row)
            and configuration.node_of(row) != NOWHERE
            and probability[configuration.node_of(row)] >= self.probability
        ]

    def _is_new(self, configuration: Configuration, row: int) -> bool:
        return bool(configuration.problem.origin[row] == NOWHERE)
