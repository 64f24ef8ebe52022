"""The tables of docs/rebalancing.md, from the studies of rebalancing and a search for capacity."""

from __future__ import annotations

import re

from docs.tables.markdown import figures, interval, table

ALONE, HISTORICAL, SERVICE_FABRIC, KNOWN = (
    "failovers alone",
    "historical simulation",
    "Service Fabric's balancing",
    "next day known",
)
PERIODS = {"912": "August", "1632": "September"}
"""Names of the periods by the hour in which the simulation begins."""
STUDIES = {
    "bitbrains": "Bitbrains, CPU short",
    "bitbrains-memory": "Bitbrains, CPU and memory short",
    "fast-storage": "fastStorage, three weeks",
    "planetlab": "PlanetLab, a day",
}
"""The columns of the table of ratios, by the file of the study."""
RATIOS = (
    HISTORICAL,
    "rc-like",
    "n-sigma",
    "balance of the week's mean",
    "Service Fabric's, once a day",
    SERVICE_FABRIC,
    KNOWN,
)
"""The arms of the table of ratios."""


def violations() -> str:
    """Return the mean violations of Bitbrains by setting and arm."""
    arms = (ALONE, HISTORICAL, SERVICE_FABRIC, KNOWN)
    rows = []
    for setting in figures("rebalancing-bitbrains")["settings"]:
        hour, utilisation = re.findall(r"[\d.]+", setting["workload"])
        rows.append([f"{PERIODS[hour]}, {utilisation}", *(f"{setting['violations'][arm]:.1f}" for arm in arms)])
    return table(["period, utilisation", *arms], rows)


def ratios() -> str:
    """Return violations by arm and study, divided by those of failovers alone, and the moves of a run."""
    studies = {name: figures(f"rebalancing-{name}") for name in STUDIES}
    against = f"{HISTORICAL} / {SERVICE_FABRIC}"
    settings = [study["ratios"][against]["settings"] for study in studies.values()]
    head = [
        f"{words}: {count} settings" if count > 1 else words
        for words, count in zip(STUDIES.values(), settings, strict=True)
    ]
    pairs = {arm: f"{arm} / {ALONE}" for arm in RATIOS} | {against: against}
    rows = [
        [label, *(interval(study["ratios"].get(pair)) for study in studies.values())] for label, pair in pairs.items()
    ]
    rows += [
        [f"moves, {arm}", *(f"{study['means'][arm]['moves']:,.1f}" for study in studies.values())]
        for arm in (ALONE, HISTORICAL, SERVICE_FABRIC)
    ]
    return table(["", *head], rows)


def regions() -> str:
    """Return the mean violations in the synthetic regions without and with rebalancing."""
    arms = ("default energy", "default energy, rebalancing")
    rows = [
        [setting["workload"], *(f"{setting['violations'][arm]:.1f}" for arm in arms)]
        for setting in figures("rebalancing-regions")["settings"]
    ]
    return table(["", *arms], rows)


def capacity() -> str:
    """Return the fewest nodes of each policy, and the difference repeat by repeat."""
    found = figures("rebalancing-capacity")
    apart = found["differences"]["rebalanced"]
    names = {"original": ALONE, "rebalanced": "a plan a day"}
    rows = [[words, f"{found['policies'][policy]['answer']:g}"] for policy, words in names.items()]
    saved = {"mean": -apart["mean"], "low": -apart["high"], "high": -apart["low"]}
    return table(["", "nodes"], [*rows, ["fewer, repeat by repeat", interval(saved)]])


TABLES = {
    "violations of rebalancing": violations,
    "ratios of rebalancing": ratios,
    "rebalancing in the regions": regions,
    "nodes with rebalancing": capacity,
}
