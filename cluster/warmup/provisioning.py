"""Tasks of `plb warmup` that plan how many nodes applications need, on an instance of two applications."""

from __future__ import annotations

import numpy as np

from plb.provisioning import AUTO, Affinity, Instance, NodeType, provision, replan

PAPER_ALGORITHMS = (
    "WFD-Avg",
    "NCD-DotProduct",
    "SpreadWFD-Avg-BinSearch",
    "Match-DotProduct-BinSearch",
    "Medea-NodeCandidates",
)
RELEASED_ALGORITHMS = ("WFD-Avg", "NCD-DotProduct", "SpreadWFD-Avg-BinSearch")


def provision_as_in_the_paper() -> None:
    """Plan by algorithms of each kind."""
    for name in PAPER_ALGORITHMS:
        provision(_tiny_instance(), name)


def provision_as_released() -> None:
    """Plan by the algorithms that have other rules in the authors' programs."""
    for name in RELEASED_ALGORITHMS:
        provision(_tiny_instance(), name, rules="released")


def provision_by_search() -> None:
    """Plan by the search that improves what the algorithms find."""
    provision(_tiny_instance(), AUTO)


def provision_anew() -> None:
    """Plan from where replicas stand."""
    replan(provision(_tiny_instance(), "FF"), most_moves=None)


def _tiny_instance() -> Instance:
    """Return an instance that needs one node more than its lower bound, so that searches begin."""
    ones = np.ones(2, np.int32)
    return Instance(
        name="tiny",
        resources=("cpu",),
        applications=("a", "b"),
        replicas=ones,
        demand=ones[:, None, None],
        affinity=Affinity.from_columns([0], [1], [0], 2),
        nodes=(NodeType("node", 2 * ones[:1]),),
        units=(1.0,),
    )
