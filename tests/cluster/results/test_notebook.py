"""Simulating from Python, and the verdict on what came out."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import ResultsExistError
from cluster.results.comparison import ResultsComparison, Row, verdict
from cluster.results.intervals import Interval
from cluster.results.notebook import simulate
from cluster.results.summary_tables import Estimate
from tests.cluster.small_runs import SMALL
from tests.command_line import plb


def test_simulating_from_python_gives_the_results_of_the_command(tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    results = simulate(tmp_path / "small.toml", tmp_path / "python", seed=5)
    plb("simulate", tmp_path / "small.toml", "--out", tmp_path / "command", "--seed", "5")
    files = sorted(path.relative_to(tmp_path / "command") for path in (tmp_path / "command").rglob("*.parquet"))
    assert files
    assert all((tmp_path / "python" / f).read_bytes() == (tmp_path / "command" / f).read_bytes() for f in files)
    assert results.summary["seed"] == 5
    with pytest.raises(ResultsExistError):
        simulate(tmp_path / "small.toml", tmp_path / "python")


def comparison_of(*samples: list[float]) -> ResultsComparison:
    """Return the comparison of policies p0, p1, ... with these avoidable violations in each repeat."""

    def row(index: int, values: list[float]) -> Row:
        interval = Interval.of(values)
        figures = {"violations_avoidable": Estimate(**attrs.asdict(interval), ratio=None)}
        differences = Interval.of([value - first for value, first in zip(values, samples[0], strict=True)])
        paired = {"violations_avoidable": differences} if index else {}
        return Row("out", f"p{index}", len(values), figures, len(values) if index else 0, paired, "")

    return ResultsComparison((), tuple(row(index, values) for index, values in enumerate(samples)), {}, {})


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        ([[0.0], [0.0]], "No policy had avoidable violations."),
        ([[4.0]], "p0 had 4 avoidable violations a run. No other policy ran."),
        ([[4.0], [5.0]], "No policy had fewer avoidable violations than p0, with 4 a run."),
        (
            [[4.0], [5.0], [1.0]],
            "p2 had 75 % fewer avoidable violations than p0: 1 against 4 a run. That is one run, which says little; "
            "--repeats 10 tells how sure it is.",
        ),
        (
            [[8.0, 9.0, 8.5], [4.0, 5.0, 4.4]],
            "p1 had 47 % fewer avoidable violations than p0: 4.5 ± 1.3 against 8.5 ± 1.2 a run. In 3 repeats with "
            "equal tenants the difference is -4.0 ± 0.1; this 95 % interval excludes 0.",
        ),
        (
            [[8.0, 2.0], [1.0, 5.0]],
            "p1 had 40 % fewer avoidable violations than p0: 3 ± 25 against 5 ± 38 a run. In 2 repeats with equal "
            "tenants the difference is -2 ± 64; this 95 % interval includes 0, so the policies may be equal.",
        ),
    ],
)
def test_the_verdict_says_which_policy_is_better_and_how_sure_that_is(samples, text):
    assert verdict(comparison_of(*samples)) == text


@given(st.lists(st.lists(st.integers(0, 9).map(float), min_size=2, max_size=2), min_size=2, max_size=4))
def test_a_verdict_names_the_policy_with_the_least_mean(samples):
    means = [sum(values) for values in samples]
    text = verdict(comparison_of(*samples))
    if max(means) == 0:
        assert text == "No policy had avoidable violations."
    elif min(means) == means[0]:
        assert text.startswith("No policy had fewer")
    else:
        assert text.startswith(f"p{means.index(min(means))} had ")
