"""The algorithms of [3] by the names that the paper gives them (section 5.1, "Algorithm naming").

- ``FF``, ``BF-Avg``, ``WF-Avg``: applications in their given order; the second part is the order of nodes.
- ``FFD-Avg``, ``BFD-Avg``, ``WFD-Avg``: applications from large to small, nodes by the same measure.
- ``NCD-DotProduct``: node after node.
- ``SpreadWF-Avg-BinSearch``, ``SpreadWFD-Avg-Decr2``: replicas spread over a number of nodes that is found by
  bisection, or by steps of 2 % of the lower bound.
- ``Match-DotProduct-BinSearch``: the pair of application and node with the highest score, over a number of nodes.
- ``Medea-TagPopularity``, ``Medea-NodeCandidates``, ``LRASched-Fitness``: what [3] compares with.
- ``ILP``, ``ILP-Gap0.2``: the integer program of section 3.2, to the optimum or to within 0.2 % of it.

Measures are ``Avg``, ``Max``, ``AvgExp``, ``Surrogate``, ``ExtendedSum``; ``Degree`` orders applications (not nodes) by
the number of applications that share a limit with them, and ``Avg-Hybrid0.9`` by the hybrid of equation 3 with
``DotProduct``, ``L2Norm``, ``Fitness``, ``TightFill``.
"""

from __future__ import annotations

import re
from enum import Enum

import attrs

from plb.errors import UnknownNameError
from plb.provisioning.measures import Measure
from plb.provisioning.node_centric import Score


class Way(Enum):
    """How places are found."""

    FIRST_FIT = "FF"
    BEST_FIT = "BF"
    WORST_FIT = "WF"
    NODE_CENTRIC = "NCD"
    SPREAD = "SpreadWF"
    MATCH = "Match"
    NODE_CANDIDATES = "Medea-NodeCandidates"
    INTEGER_PROGRAM = "ILP"


@attrs.frozen
class Algorithm:
    """An algorithm of [3] by the parts of its name.

    Parameters
    ----------
    name
        Its name.
    way
        How places are found.
    measure
        Of nodes and, where `decreasing`, of applications.
    score
        Of pairs of application and node, where there is one.
    decreasing
        Whether applications are ordered from large to small.
    demand_share
        α of equation 3 for the order of applications: 1 is demand alone, 0 degree alone.
    decrement_percent
        Steps by which the number of nodes decreases, in percent of the lower bound; None: by bisection, if the number
        of nodes is searched.
    gap_percent
        Accepted percentage of nodes above the bound of an integer program.
    """

    name: str
    way: Way
    measure: Measure = Measure.AVERAGE
    score: Score = Score.DOT_PRODUCT
    decreasing: bool = False
    demand_share: float = 1.0
    decrement_percent: float | None = None
    gap_percent: float = 0.0


BASELINES = {
    "Medea-TagPopularity": Algorithm("Medea-TagPopularity", Way.FIRST_FIT, decreasing=True, demand_share=0.0),
    "Medea-NodeCandidates": Algorithm("Medea-NodeCandidates", Way.NODE_CANDIDATES, decreasing=True, demand_share=0.0),
    "LRASched-Fitness": Algorithm("LRASched-Fitness", Way.NODE_CENTRIC, score=Score.FITNESS),
}
_MEASURE = rf"(?P<measure>{'|'.join(Measure)})"
_SIZE = rf"{_MEASURE}(-Hybrid(?P<share>0(\.\d+)?|1(\.0+)?))?"
_SEARCH = r"(BinSearch|Decr(?P<decrement>\d+(\.\d+)?))"
_SCORE = rf"(?P<score>{'|'.join(Score)})"
_FORMS = tuple(
    re.compile(form)
    for form in (
        r"(?P<way>FF)",
        r"(?P<way>FF)(?P<decreasing>D)-(?P<degree>Degree)",
        rf"(?P<way>FF|BF|WF)(?P<decreasing>D)-{_SIZE}",
        rf"(?P<way>BF|WF)-{_MEASURE}",
        rf"(?P<way>NCD)-{_SCORE}",
        rf"(?P<way>SpreadWF)(?P<decreasing>D)-{_SIZE}-{_SEARCH}",
        rf"(?P<way>SpreadWF)-{_MEASURE}-{_SEARCH}",
        rf"(?P<way>Match)-{_SCORE}-{_SEARCH}",
        r"(?P<way>ILP)(-Gap(?P<gap>\d{1,2}(\.\d+)?))?",
    )
)


def algorithm_names() -> tuple[str, ...]:
    """Return the names of the algorithms, with 2 for the percentage of steps, without hybrid sizes and gaps."""
    fits = [f"{way}-{measure}" for way in ("FFD", "BF", "BFD", "WF", "WFD") for measure in Measure]
    nodes = [f"NCD-{score}" for score in Score]
    searches = [
        f"{first}-{search}"
        for first in [f"SpreadWF{d}-{measure}" for d in ("", "D") for measure in Measure]
        + [f"Match-{score}" for score in Score]
        for search in ("BinSearch", "Decr2")
    ]
    return ("FF", "FFD-Degree", *fits, *nodes, *searches, *BASELINES, "ILP")


def parse_algorithm(name: str) -> Algorithm:
    """Return the algorithm of a name.

    Raises
    ------
    UnknownNameError
        The name is unknown.
    """
    if name in BASELINES:
        return BASELINES[name]
    for form in _FORMS:
        match = form.fullmatch(name)
        if match:
            return _algorithm(name, match.groupdict())
    raise UnknownNameError("algorithm", name, algorithm_names())


def _algorithm(name: str, parts: dict[str, str | None]) -> Algorithm:
    share, decrement = parts.get("share"), parts.get("decrement")
    return Algorithm(
        name,
        Way(parts["way"]),
        Measure(parts.get("measure") or Measure.AVERAGE),
        Score(parts.get("score") or Score.DOT_PRODUCT),
        decreasing=parts.get("decreasing") is not None,
        demand_share=0.0 if parts.get("degree") else 1.0 if share is None else float(share),
        decrement_percent=None if decrement is None else float(decrement),
        gap_percent=float(parts.get("gap") or 0.0),
    )
