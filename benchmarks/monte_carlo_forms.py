"""The calibration of the forms of the Monte Carlo estimator: horizon, start at the present load, maxima, draws.

    python benchmarks/monte_carlo_forms.py --region region1 --region region3 --repeats 2

The study is `plb study calibration` with these forms as its estimators and with tenants that it does not report. Its
further options are passed on, and finished runs are resumed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

from cluster.studies import calibration
from plb_command import main as plb

SEED = 100
"""Other than that of the studies."""
FROM_PRESENT = {"replay": "from_present"}
FORMS: Mapping[str, Mapping[str, str]] = {
    "monte-carlo": {"estimator": "monte-carlo"},
    "horizon=24": {"estimator": "monte-carlo:horizon=24"},
    "from_present": {"estimator": "monte-carlo", **FROM_PRESENT},
    "horizon=24, from_present": {"estimator": "monte-carlo:horizon=24", **FROM_PRESENT},
    "horizon=24, from_present, maximum_from=0.5": {
        "estimator": "monte-carlo:horizon=24,maximum_from=0.5",
        **FROM_PRESENT,
    },
}
HEADINGS = ("workload", "form", "base rate", "Brier score", "skill", "error")
OUT = Path(__file__).parent.parent / "results" / "monte-carlo-forms"


def main() -> None:
    """Run the study, or resume it, and print the scores a day ahead, with the placement held."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT, help="directory of the study")
    chosen, options = parser.parse_known_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    figures = chosen.out / "calibration.json"
    command = ["plb", "study", "calibration", "--seed", str(SEED), "--out", str(chosen.out), "--json", str(figures)]
    with patch.object(calibration, "ESTIMATORS", FORMS), patch.object(sys, "argv", [*command, "--quiet", *options]):
        try:
            plb()
        except SystemExit as end:
            if end.code:
                raise
    rows = [HEADINGS]
    for score in json.loads(figures.read_text())["scores"]:
        if (score["outcome"], score["horizon"]) == (calibration.HELD, [*calibration.HORIZONS][-1]):
            found = score["scores"]
            skill, error = (
                f"{one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"
                for one in (found["skill"], found["calibration_error"])
            )
            base, brier = f"{found['base_rate']['value']:.3f}", f"{found['brier']['value']:.4f}"
            rows.append((score["workload"], score["label"], base, brier, skill, error))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
