"""The figures of docs/rebalancing.md are those of its data files."""

from __future__ import annotations

import json
import re

import pytest

from tests.sources import ROOT

PAGE = (ROOT / "docs" / "rebalancing.md").read_text()
FIGURES = {
    name: json.loads((ROOT / "docs" / "data" / f"rebalancing-{name}.json").read_text())
    for name in ("bitbrains", "bitbrains-memory", "fast-storage", "planetlab", "regions", "capacity")
}
*STUDIES, REGIONS, CAPACITY = FIGURES.values()
STUDY = FIGURES["bitbrains"]
ARMS = (
    "failovers alone",
    "historical simulation",
    "rc-like",
    "n-sigma",
    "balance of the week's mean",
    "Service Fabric's, once a day",
    "Service Fabric's balancing",
    "next day known",
)
"""The rows of the table of ratios, without the first."""
SHOWN = (ARMS[0], ARMS[1], ARMS[6], ARMS[7])
"""The columns of the table of violations."""
PERIODS = {"912": "August", "1632": "September"}


def test_the_table_has_the_means_of_the_study() -> None:
    rows = []
    for setting in STUDY["settings"]:
        hour, utilisation = re.findall(r"[\d.]+", setting["workload"])
        cells = [f"{setting['violations'][arm]:.1f}" for arm in SHOWN]
        rows.append("| " + " | ".join([f"{PERIODS[hour]}, {utilisation}", *cells]) + " |")
    assert "\n".join(rows) in PAGE
    assert f"| {' | '.join(SHOWN)} |\n" in PAGE


def test_the_saved_nodes_are_those_of_the_search() -> None:
    apart = CAPACITY["differences"]["rebalanced"]
    assert f"needs {-apart['mean']:.2f} ± {apart['high'] - apart['mean']:.2f} fewer nodes" in PAGE
    original, rebalanced = (CAPACITY["policies"][policy]["answer"] for policy in ("original", "rebalanced"))
    assert f"Failovers alone need {original:g} nodes, with a plan a day {rebalanced:g} suffice." in PAGE


@pytest.mark.parametrize("arm", ARMS[1:])
def test_the_ratios_are_those_of_the_studies(arm: str) -> None:
    cells = [in_words(study["ratios"].get(f"{arm} / {ARMS[0]}")) for study in STUDIES]
    assert f"| {' | '.join([arm, *cells])} |\n" in PAGE


def test_the_comparison_with_service_fabric_is_that_of_the_studies() -> None:
    ratio = f"{ARMS[1]} / {ARMS[6]}"
    cells = [in_words(study["ratios"][ratio]) for study in STUDIES]
    assert f"| {' | '.join([ratio, *cells])} |\n" in PAGE
    assert [study["ratios"][ratio]["settings"] for study in STUDIES] == [5, 4, 1, 1]
    assert "CPU short: 5 settings | Bitbrains, CPU and memory short: 4 settings" in PAGE


@pytest.mark.parametrize("arm", [ARMS[0], ARMS[1], ARMS[6]])
def test_the_moves_are_those_of_the_studies(arm: str) -> None:
    cells = [f"{study['means'][arm]['moves']:,.1f}" for study in STUDIES]
    assert f"| {' | '.join([f'moves, {arm}', *cells])} |\n" in PAGE


def test_the_violations_in_regions_are_those_of_the_study() -> None:
    arms = ("default energy", "default energy, rebalancing")
    pairs = [" and ".join(f"{setting['violations'][arm]:.1f}" for arm in arms) for setting in REGIONS["settings"]]
    assert f"{', '.join(pairs)} violations" in " ".join(PAGE.split())


def in_words(figures: dict[str, float] | None) -> str:
    return "" if figures is None else f"{figures['mean']:.2f} [{figures['low']:.2f}, {figures['high']:.2f}]"
