"""What a constraint of a user's own is."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from plb.extensions.configuration import Configuration, Proposal


@runtime_checkable
class Constraint(Protocol):
    """Says which proposals a search must not make, and which replicas stand where they should not.

    The two verbs have to agree: a proposal that is not refused breaks no replica that was not broken before. Then a
    search never makes things worse, and a repair that moves what is broken mends them.
    """

    @property
    def name(self) -> str:
        """The name under which settings choose the constraint and plans count its refusals."""
        ...

    def refuses(self, configuration: Configuration, proposal: Proposal) -> bool:
        """Tell whether a proposal must not be made.

        A replica may come from NOWHERE, where it is placed, or go there, where it is dropped. A swap of roles is an
        exchange; a secondary that becomes a primary without one is asked about as a primary placed on its node.
        """
        ...

    def broken(self, configuration: Configuration) -> Collection[int]:
        """Return the rows of the replicas that break the constraint where they stand."""
        ...
