"""The pages with tables of measured figures, and the functions that make these tables from the files in docs/data.

A page has a table between ``<!-- table: NAME -->`` and ``<!-- table: end -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from docs.tables import (
    compression,
    estimators,
    gaussian,
    other_systems,
    peaks,
    provisioning,
    pythons,
    quickstart,
    rebalancing,
    scorecard,
    studies,
)
from docs.tables.markdown import ROOT

PAGES: Mapping[Path, Mapping[str, Callable[[], str]]] = {
    ROOT / "README.md": quickstart.TABLES | {"scorecard": scorecard.counts},
    ROOT / "docs" / "energy.md": studies.OF_ENERGY,
    ROOT / "docs" / "estimator-results.md": estimators.TABLES,
    ROOT / "docs" / "gaussian.md": gaussian.TABLES,
    ROOT / "docs" / "install.md": pythons.TABLES,
    ROOT / "docs" / "other-systems.md": other_systems.TABLES,
    ROOT / "docs" / "prediction.md": peaks.TABLES,
    ROOT / "docs" / "provisioning.md": provisioning.TABLES,
    ROOT / "docs" / "rebalancing.md": rebalancing.TABLES,
    ROOT / "docs" / "scorecard.md": {"claims": scorecard.scorecard},
    ROOT / "docs" / "studies.md": compression.TABLES | studies.TABLES,
}
"""By page, the functions that return each of its tables, by name."""
PLACE = re.compile(r"<!-- table: (?!end)(.+?) -->\n.*?<!-- table: end -->", re.DOTALL)


def page_with_tables(page: Path) -> str:
    """Return the text of a page with all its tables made anew; raise `KeyError` for a name without a function."""

    def renewed(place: re.Match[str]) -> str:
        name = place[1]
        return f"<!-- table: {name} -->\n\n{PAGES[page][name]()}\n\n<!-- table: end -->"

    return PLACE.sub(renewed, page.read_text(encoding="utf-8"))
