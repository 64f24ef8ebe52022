"""What a paper reports beside what a study found, and the table of a study's settings."""

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
        What it is about.
    paper
        What the paper reports; empty where it does not.
    ours
        What was found.
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
        A row each.
    columns
        Means by heading, (S,) each.
    remarks
        A word on each cell of some columns.
    above, below
        Columns whose ratio is shown, too.
    """

    settings: Sequence[StudySetting]
    columns: Mapping[str, Floats]
    remarks: Mapping[str, Sequence[str]]
    above: str
    below: str
