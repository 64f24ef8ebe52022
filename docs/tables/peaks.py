"""The tables and claims of docs/prediction.md, from the published studies of paper 5 and a benchmark."""

from __future__ import annotations

from docs.tables.claims import Claim, verdict_on_cases
from docs.tables.markdown import figures, run_of, table

STUDIES = {"peaks": "region1", "peaks-google2019_instances": "Google's sample"}
"""Names of the first cells, by the file of the study."""
WITH_PAST = "historical-peaks"
PREDICTORS = {
    "borg-default": "`borg-default`",
    "rc-like": "`rc-like`",
    "n-sigma": "`n-sigma`",
    "max": "`max(n-sigma;rc-like)`",
    "historical-simulation": "`historical-simulation`",
}
RATES, SAVINGS = "10a", "10c"
"""The panels of figure 10."""


def median(study: str, panel: str, predictor: str) -> float:
    """Return the median over machines of a panel."""
    return float(figures(study)["figures"][panel][predictor]["median"])


def results() -> str:
    """Return the medians of figure 10, and with a week of past."""
    past = figures(WITH_PAST)["cells"].values()
    head = [*STUDIES.values(), *(f"{name}, later" for name in STUDIES.values())]
    rows = []
    for predictor, label in PREDICTORS.items():
        pairs = [[median(study, panel, predictor) for panel in (RATES, SAVINGS)] for study in STUDIES]
        pairs += [[cell[predictor][name] for name in ("violation_rate", "savings")] for cell in past]
        rows.append([label, *(f"{rate:.1%}, {saved:.1%}" for rate, saved in pairs)])
    return table(["", *head], rows)


def runs() -> str:
    """Return what the figures cost, and how they are repeated."""
    return "\n\n".join(map(run_of, (*STUDIES, WITH_PAST)))


def claims() -> list[Claim]:
    """Return the claims on violation rates in figure 10."""
    machines = " and ".join(str(figures(study)["settings"][0]["machines"]) for study in STUDIES)

    def claim(words: str, less: str, more: str, cause: str) -> Claim:
        pairs = {
            name: [median(study, RATES, predictor) for predictor in (less, more)] for study, name in STUDIES.items()
        }
        found = "; ".join(f"{name}: {low:.1%} against {high:.1%}" for name, (low, high) in pairs.items())
        verdict = verdict_on_cases([low < high for low, high in pairs.values()])
        return Claim("[5] figure 10", words, "", found, f"{machines} machines", verdict, cause)

    return [
        claim(
            "N-sigma violates less often than the sum of percentiles.",
            "n-sigma",
            "rc-like",
            "tenants of region1 rarely peak together",
        ),
        claim(
            "The maximum of both violates less often than `borg-default`.",
            "max",
            "borg-default",
            "tenants of region1 use far less than their limits; Google's sample has 44 instances",
        ),
    ]


TABLES = {"peaks of machines": results, "runs of peaks": runs}
