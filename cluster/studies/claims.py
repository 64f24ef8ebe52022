"""Figures of a paper with ours, and mean violations by setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from cluster.studies.design import StudySetting
from cluster.studies.figures import Floats, Ratio


@attrs.frozen
class Claim:
    """One figure of a paper.

    Parameters
    ----------
    label
        Name of the figure.
    paper
        The figure in the paper; "" if it has none.
    ours
        Our figure.
    """

    label: str
    paper: str
    ours: Ratio | str


@attrs.frozen(eq=False)
class ClaimTable:
    """Mean violations by setting.

    Parameters
    ----------
    settings
        The rows.
    columns
        Means by heading, (S,) each.
    remarks
        Remarks on the cells of some columns, by heading.
    above, below
        Columns whose ratio is a further column.
    """

    settings: Sequence[StudySetting]
    columns: Mapping[str, Floats]
    remarks: Mapping[str, Sequence[str]]
    above: str
    below: str
