"""`plb predict`: predictions and figures from a file of samples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.command_line import plb

SPECS = ("n-sigma:n=1,warmup=2,history=4", "borg-default:phi=0.5", "oracle:horizon=2")


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Return a file with two machines; one of them has a task of constant usage."""
    rows = [("m1", "t", 300 * step, 0.5, 1.0) for step in range(6)]
    rows += [("m2", task, 300 * step, (step + 1) / 8, 1.0) for task in "ab" for step in range(6)]
    path = tmp_path / "samples.csv"
    pl.DataFrame(rows, schema=["machine", "task", "time_s", "usage", "limit"], orient="row").write_csv(path)
    return path


def test_predictions_are_written_with_their_predictor(samples: Path, tmp_path: Path):
    options = [part for text in SPECS for part in ("--predictor", text)]
    for name in ("out.csv", "out.parquet"):
        run = plb("predict", samples, *options, "--out", tmp_path / name)
        assert run.exit_code == 0, run.output
    found = pl.read_parquet(tmp_path / "out.parquet")
    assert found.equals(pl.read_csv(tmp_path / "out.csv"))
    assert found.columns == ["machine", "time_s", "predictor", "predicted_peak", "limit", "usage"]
    assert set(found["predictor"]) == set(SPECS)
    first = found.filter(pl.col("machine") == "m1", pl.col("predictor") == SPECS[0])
    np.testing.assert_allclose(first["predicted_peak"], [1.0, 0.5, 0.5, 0.5, 0.5, 0.5])
    oracle = found.filter(pl.col("machine") == "m2", pl.col("predictor") == SPECS[2])
    np.testing.assert_allclose(oracle["predicted_peak"], [0.75, 1.0, 1.25, 1.5])


def test_predictors_may_share_an_option(samples: Path, tmp_path: Path):
    repeated = plb("predict", samples, "--predictor", SPECS[0], "--predictor", SPECS[1], "--out", tmp_path / "a.csv")
    listed = plb("predict", samples, "--predictor", SPECS[0], SPECS[1], "--out", tmp_path / "b.csv")
    assert repeated.exit_code == listed.exit_code == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_figures_compare_predictors_with_the_oracle(samples: Path, tmp_path: Path):
    """Half of the limits equals the usage of the first machine and is below the future usage of the other."""
    figures = tmp_path / "figures.json"
    run = plb("predict", samples, *SPECS, "--out", tmp_path / "o.parquet", "--json", figures)
    assert run.exit_code == 0, run.output
    assert "violation rate" in run.stdout
    found = json.loads(figures.read_text())
    assert (found["samples"], found["machines"], found["rows"]) == (18, 2, 32)
    half = found["predictors"][SPECS[1]]
    assert half["savings"] == pytest.approx(0.5)
    assert half["oracles"][SPECS[2]] == {
        "steps": 8,
        "savings": pytest.approx(0.5),
        "violation_rate": pytest.approx((0.0 + 2 / 4) / 2),
        "violation_severity": pytest.approx((0.25 / 1.25 + 0.5 / 1.5) / 4 / 2),
    }
    assert found["predictors"][SPECS[2]]["oracles"] == {}


def test_the_default_predictor_is_the_best_of_the_paper(samples: Path, tmp_path: Path):
    for threads, name in (("1", "a.csv"), ("3", "b.csv")):
        assert plb("predict", samples, "--out", tmp_path / name, "--threads", threads).exit_code == 0
    assert set(pl.read_csv(tmp_path / "a.csv")["predictor"]) == {"max(n-sigma;rc-like)"}
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (("oracle", "--step", 60), "300 s apart, and the oracle counts steps of 60 s"),
        (("oracle",), None),
        (("rc-like", "--step", 60), None),
        (("historical-simulation",), None),
        (
            ("max(rc-like;historical-simulation:day=24)", "oracle"),
            "300 s apart, and day=24 of historical-simulation then lasts 0.0833 days",
        ),
    ],
)
def test_steps_and_days_of_another_length_are_reported(samples: Path, tmp_path: Path, arguments, note: str | None):
    """Only oracles count steps of time; a day of historical simulation is a number of samples."""
    run = plb("predict", samples, *arguments, "--out", tmp_path / "o.csv")
    assert run.exit_code == 0, run.output
    assert note in run.stderr if note else "apart" not in run.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sigma"], "did you mean 'n-sigma'"),
        (["rc-like", "rc-like"], "given twice"),
        (["n-sigma:history=1"], "a whole number >= 2"),
        (["rc-like", "--step", "0"], "step = 0.0"),
        (["rc-like", "--out", "predictions.txt"], "a file .csv or .parquet"),
        (["rc-like", "--out", "{samples}"], "is read"),
        (["rc-like", "--json", "{out}"], "is given twice"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    samples: Path, tmp_path: Path, arguments: list[str], words: str
):
    before = samples.read_bytes()
    arguments = [argument.format(samples=samples, out=tmp_path / "out.csv") for argument in arguments]
    out = () if "--out" in arguments else ("--out", tmp_path / "out.csv")
    run = plb("predict", samples, *arguments, *out)
    assert run.exit_code == 2
    assert words in run.stderr
    assert samples.read_bytes() == before
    assert not (tmp_path / "out.csv").exists()
