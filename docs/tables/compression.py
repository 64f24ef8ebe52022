"""The table and the claim of figure 7 in docs/studies.md, from the published study of trace compression."""

from __future__ import annotations

from typing import Any

from docs.tables.claims import Claim, Verdict
from docs.tables.markdown import figures, run_of, table

STUDY = "compression"


def difference(effect: dict[str, Any]) -> float:
    """Return the probability by demand models minus the probability by full traces."""
    return float(effect["compressed"] - effect["full"])


def largest() -> list[dict[str, Any]]:
    """Return the effect with the largest absolute difference of each region."""
    effects = figures(STUDY)["settings"]
    regions = dict.fromkeys(effect["workload"] for effect in effects)
    return [
        max((effect for effect in effects if effect["workload"] == region), key=lambda effect: abs(difference(effect)))
        for region in regions
    ]


def differences() -> str:
    """Return the largest difference of each region, and how many numbers of tenants are neither safe nor hopeless."""
    rows = []
    for effect in largest():
        full = [of["full"] for of in figures(STUDY)["settings"] if of["workload"] == effect["workload"]]
        there = f"{effect['full']:.4f}, {effect['compressed']:.4f}"
        open_cases = f"{sum(0.01 < probability < 0.99 for probability in full)} of {len(full)}"
        rows.append([effect["workload"], f"{difference(effect):+.4f}", str(effect["tenants"]), there, open_cases])
    head = ("", "largest difference", "tenants", "probability by traces, by models", "probabilities in 0.01 to 0.99")
    return table(head, rows, numbers=4)


def samples() -> str:
    """Return the number of samples behind a probability in words."""
    return f"{figures(STUDY)['settings'][0]['samples']:,} samples"


def runs() -> str:
    """Return what the study cost, and how it is repeated."""
    return run_of(STUDY, samples())


def claims() -> list[Claim]:
    """Return the claim of figure 7."""
    most = max(largest(), key=lambda effect: abs(difference(effect)))
    return [
        Claim(
            "[1] figure 7",
            "Compressed traces give the probabilities of full traces.",
            "almost exact",
            f"largest difference {difference(most):+.4f} ({most['workload']}, {most['tenants']} tenants)",
            samples(),
            Verdict.PARTLY,
            "not on Bitbrains: a node adds up the models as if all machines were busy at once",
        )
    ]


TABLES = {"differences of figure 7": differences, "run of figure 7": runs}
