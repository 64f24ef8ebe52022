"""The figures of docs/rebalancing.md are those of its data files."""

from __future__ import annotations

import json
import re

import pytest

from tests.sources import ROOT

PAGE = (ROOT / "docs" / "rebalancing.md").read_text()
STUDY, MEMORY, CAPACITY = (
    json.loads((ROOT / "docs" / "data" / f"rebalancing-{name}.json").read_text())
    for name in ("bitbrains", "bitbrains-memory", "capacity")
)
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
"""The columns of the table."""
OTHER_TRACES = {"fast-storage": "fastStorage, three weeks", "planetlab": "PlanetLab, a day"}
FOUR_ARMS = (ARMS[0], ARMS[1], ARMS[6], ARMS[7])
PERIODS = {"912": "August", "1632": "September"}


def test_the_table_has_the_means_of_the_study() -> None:
    rows = []
    for setting in STUDY["settings"]:
        hour, utilisation = re.findall(r"[\d.]+", setting["workload"])
        cells = [f"{setting['violations'][arm]:.1f}" for arm in ARMS]
        rows.append("| " + " | ".join([f"{PERIODS[hour]}, {utilisation}", *cells]) + " |")
    moves = [f"{STUDY['means'][arm]['moves']:,.1f}" for arm in ARMS]
    rows.append("| " + " | ".join(["moves in three weeks, mean", *moves]) + " |")
    assert "\n".join(rows) in PAGE


@pytest.mark.parametrize(
    "ratio",
    [
        "historical simulation / failovers alone",
        "historical simulation / Service Fabric's balancing",
        "rc-like / failovers alone",
        "balance of the week's mean / failovers alone",
        "next day known / failovers alone",
    ],
)
def test_the_ratios_are_those_of_the_study(ratio: str) -> None:
    figures = STUDY["ratios"][ratio]
    assert in_words(figures) in PAGE
    assert figures["settings"] == 5


def test_the_saved_nodes_are_those_of_the_search() -> None:
    apart = CAPACITY["differences"]["rebalanced"]
    assert f"needs {-apart['mean']:.2f} ± {apart['high'] - apart['mean']:.2f} fewer nodes" in PAGE
    original, rebalanced = (CAPACITY["policies"][policy]["answer"] for policy in ("original", "rebalanced"))
    assert f"Failovers alone need {original:g} nodes, with a plan a day {rebalanced:g} suffice." in PAGE


def in_words(figures: dict[str, float]) -> str:
    return f"{figures['mean']:.2f} [{figures['low']:.2f}, {figures['high']:.2f}]"


def test_the_table_of_two_metrics_is_that_of_the_study() -> None:
    ratios = {arm: in_words(MEMORY["ratios"][f"{arm} / {ARMS[0]}"]) for arm in ARMS[1:]}
    rows = [f"| {arm} | {ratios.get(arm, '1')} | {MEMORY['means'][arm]['moves']:,.1f} |" for arm in ARMS]
    assert "\n".join(rows) in PAGE
    below = MEMORY["ratios"]["historical simulation / Service Fabric's balancing"]
    assert f"Historical simulation has {in_words(below)} of" in PAGE
    assert below["settings"] == 4


@pytest.mark.parametrize("name", OTHER_TRACES)
def test_the_rows_of_other_traces_are_those_of_their_studies(name: str) -> None:
    study = json.loads((ROOT / "docs" / "data" / f"rebalancing-{name}.json").read_text())
    violations = study["settings"][0]["violations"]
    rows = [
        [f"{OTHER_TRACES[name]}: violations", *(f"{violations[arm]:.1f}" for arm in FOUR_ARMS)],
        [
            "by those of failovers alone",
            "1",
            *(in_words(study["ratios"][f"{arm} / {ARMS[0]}"]) for arm in FOUR_ARMS[1:]),
        ],
        ["moves", *(f"{study['means'][arm]['moves']:,.1f}" for arm in FOUR_ARMS)],
    ]
    assert "\n".join("| " + " | ".join(row) + " |" for row in rows) in PAGE
