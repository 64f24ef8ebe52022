"""Results of two clusters, one with many events and one without, and the report of the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.report.writing import report_page
from cluster.results.reading import read_results
from tests.cluster.report.pages import Page
from tests.cluster.small_runs import results_of
from tests.cluster.tiny import small_region


@pytest.fixture(scope="session")
def eventful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of a small dense cluster with a node fault and an upgrade, two policies and two repeats."""
    sections = small_region(repeats=2, policies=["modified", "original"])
    sections["cluster"]["nodes"] = 5
    sections["workload"]["density"] = 2.6
    sections["faults"] = {"crashes": [{"node": "n3", "at_hours": 1.0, "hours": 1.0}]}
    sections["upgrades"] = {"starts_hours": [3.0]}
    return results_of(tmp_path_factory.mktemp("eventful") / "out", sections)[0]


@pytest.fixture(scope="session")
def text(eventful: Path) -> str:
    """Return the report of the eventful results."""
    return report_page(read_results(eventful))


@pytest.fixture(scope="session")
def page(text: str) -> Page:
    """Return the parsed report of the eventful results."""
    return Page(text)


@pytest.fixture(scope="session")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of one policy in an empty cluster without events."""
    sections = small_region(policies=["original"], days=0.05)
    sections["workload"]["density"] = 0.2
    return results_of(tmp_path_factory.mktemp("calm") / "out", sections)[0]
