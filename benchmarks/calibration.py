"""Whether an estimator is calibrated: its scores on every workload within an hour and a day, and the targets it meets.

    python benchmarks/calibration.py                                            # the four regions, a quarter of an hour
    python benchmarks/calibration.py --scenario examples/bitbrains.toml --traces ../shared/data/bitbrains_rnd
    python benchmarks/calibration.py --estimator monte-carlo --quick
    python benchmarks/calibration.py --estimator monte-carlo --recalibrated             # by the other repeats

The study is `plb study calibration`, whose further options are passed on, and whose finished runs are resumed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LARGEST_ERROR = 0.02
"""Largest expected calibration error that is allowed."""
HORIZONS = ("1 hour", "24 hours")
OUTCOME = "held"
"""Whether violations follow is counted with the placement held."""
ROOT = Path(__file__).parent.parent
HEADINGS = ("workload", "horizon", "base rate", "error", "at most 0.02", "skill", "interval above 0")


def scores_of_study(out: Path, options: list[str]) -> list[dict[str, Any]]:
    """Run the study, or resume it, and return its scores."""
    figures = out / "calibration.json"
    out.mkdir(parents=True, exist_ok=True)
    command = [str(Path(sys.executable).with_name("plb")), "study", "calibration", "--out", str(out), "--quiet"]
    subprocess.run([*command, "--json", str(figures), *options], check=True, cwd=ROOT)
    found: list[dict[str, Any]] = json.loads(figures.read_text())["scores"]
    return found


def row_of(score: dict[str, Any], kind: str) -> tuple[str, ...]:
    """Return the cells of an estimator on a workload within a horizon; `kind`: "scores" or "recalibrated"."""
    scores = score[kind]
    error, skill = scores["calibration_error"], scores["skill"]
    is_skilled = skill["low"] is not None and skill["low"] > 0.0
    return (
        score["workload"],
        score["horizon"],
        f"{scores['base_rate']['value']:.3f}",
        f"{error['value']:.3f}",
        "met" if error["value"] <= LARGEST_ERROR else "missed",
        "-" if skill["value"] is None else f"{skill['value']:.3f}",
        "met" if is_skilled else "missed",
    )


def main() -> None:
    """Print a table of the scores and of what they meet."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--estimator", default="historical-simulation", help="label of the estimator in the study")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "calibration", help="directory of the study")
    parser.add_argument("--recalibrated", action="store_true", help="judge the recalibrated probabilities")
    chosen, options = parser.parse_known_args()
    kind = "recalibrated" if chosen.recalibrated else "scores"
    found = [
        score
        for score in scores_of_study(chosen.out, options)
        if score["label"] == chosen.estimator and score["outcome"] == OUTCOME and score["horizon"] in HORIZONS
    ]
    if not found:
        sys.exit(f"the study has no estimator {chosen.estimator}")
    if any(score[kind] is None for score in found):
        sys.exit("a recalibration needs the outcomes of other repeats: give --repeats 2 or more")
    shown = [row_of(score, kind) for score in found]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *shown, strict=True)]
    for row in (HEADINGS, *shown):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
