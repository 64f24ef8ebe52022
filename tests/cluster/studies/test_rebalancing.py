"""The study of rebalancing: periods of recorded arrivals, and arms that differ as their names say."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from cluster.studies.base import base_of_scenario
from cluster.studies.rebalancing import ALONE, DAILY, ESTIMATORS, PERIOD_HOURS, THRESHOLDS, arms_of, in_periods
from plb import PlbError
from tests.command_line import plb
from workloads.regions import REGIONS, generate, with_random_starts
from workloads.trace_files import write_traces

SCENARIO = """
name = "small"
[cluster]
nodes = 6
upgrade_domains = 3
fault_domains = 3
[workload]
kind = "traces"
path = "traces"
arrivals = "recorded"
from_hours = 24.0
past_days = 1.0
history_share = 0.0
each_repeat = "resample"
simulated_share = 0.5
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rebalancing")
    write_traces(with_random_starts(generate(REGIONS["region2"], 60, 4), 4.0, 4), folder / "traces")
    path = folder / "small.toml"
    path.write_text(SCENARIO)
    return path


def test_all_arms_have_the_same_tenants_and_only_some_move_them_before_a_shortage(
    scenario: Path, tmp_path: Path
) -> None:
    options = ("--quick", "--days", "1.1", "--repeats", "2", "--jobs", "1", "--quiet")
    result = plb(
        "study", "rebalancing", "--scenario", scenario, "--out", tmp_path / "out", "--json", tmp_path / "f", *options
    )
    assert result.exit_code == 0, result.output
    figures = json.loads((tmp_path / "f").read_text())
    means = figures["means"]
    assert [*means] == [ALONE, THRESHOLDS, *ESTIMATORS]
    assert len(figures["settings"]) == 2
    assert means[ALONE]["moves"] == means[ALONE]["failovers"]
    assert means[THRESHOLDS]["moves"] > means[THRESHOLDS]["failovers"]
    assert set(figures["ratios"]) >= {f"{name} / {ALONE}" for name in ESTIMATORS}


def test_periods_follow_each_other_with_two_shares_of_the_tenants(scenario: Path) -> None:
    base = in_periods(base_of_scenario(scenario), 2)
    fields = [*base.variants.values()]
    assert [of["from_hours"] for of in fields] == [24.0, 24.0, 24.0 + PERIOD_HOURS, 24.0 + PERIOD_HOURS]
    assert [of["simulated_share"] for of in fields] == [0.5, 0.625] * 2


def test_periods_need_tenants_that_differ_between_repeats(scenario: Path) -> None:
    base = base_of_scenario(scenario)
    same = attrs.evolve(base, tables={**base.tables, "workload": {"kind": "traces", "arrivals": "recorded"}})
    with pytest.raises(PlbError, match="each_repeat"):
        in_periods(same, 2)


def test_estimators_plan_once_a_day_and_no_threshold_starts_them() -> None:
    alone, thresholds, *estimating = arms_of(["cpu"])
    assert not alone.engine
    assert "violation_cost" not in thresholds.engine
    for arm in estimating:
        assert arm.engine["min_load_balancing_interval"] == DAILY
        assert arm.engine["metrics"] == {"cpu": {"balancing_threshold": 0.0}}
