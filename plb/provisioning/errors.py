"""What provisioning raises beside the family in `plb.errors`."""

from __future__ import annotations

from plb.errors import PlbError


class NoPlanError(PlbError):
    """An algorithm finds no place for all replicas on the nodes that there are.

    Parameters
    ----------
    instance, algorithm
        Their names.
    nodes
        How many nodes there are.
    """

    def __init__(self, instance: str, algorithm: str, nodes: int) -> None:
        super().__init__(instance, algorithm, nodes)
        self._message = (
            f"instance {instance}: {algorithm} finds no place for all replicas on the {nodes:,} nodes there are"
        )


class NoCapacityError(PlbError):
    """A replica finds no place on the nodes that there are, with the others as they stand.

    Parameters
    ----------
    instance, application
        Their names.
    """

    def __init__(self, instance: str, application: str) -> None:
        super().__init__(instance, application)
        self._message = (
            f"instance {instance}: application {application} finds no place on the nodes that there are, with the "
            "others as they stand"
        )
