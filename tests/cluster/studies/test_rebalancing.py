"""The study of rebalancing: periods of recorded arrivals, and arms that differ as their names say."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import numpy as np
import pytest

from cluster.studies.base import base_of_scenario
from cluster.studies.design import StudySetting
from cluster.studies.rebalancing import (
    ALONE,
    DAILY,
    ESTIMATORS,
    KNOWN,
    PERIOD_HOURS,
    THRESHOLDS,
    THRESHOLDS_DAILY,
    THRESHOLDS_OF_MEANS,
    UTILISATIONS,
    RebalancingStudy,
    arms_of,
    arms_of_regions,
    in_periods,
)
from cluster.studies.violations import Ratio, Violations
from plb import PlbError
from tests.command_line import plb
from workloads.regions import REGIONS, generate, with_random_starts
from workloads.trace_files import write_traces

SCENARIO = """
name = "small"
[cluster]
nodes = 4
capacities = { cpu = 12, memory = 61.2, disk = 5000 }
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
utilisation = 0.3
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
    options = ("--quick", "--days", "1.1", "--repeats", "1", "--jobs", "1", "--quiet")
    result = plb(
        "study", "rebalancing", "--scenario", scenario, "--out", tmp_path / "out", "--json", tmp_path / "f", *options
    )
    assert result.exit_code == 0, result.output
    figures = json.loads((tmp_path / "f").read_text())
    means = figures["means"]
    assert [*means] == [ALONE, THRESHOLDS, THRESHOLDS_DAILY, THRESHOLDS_OF_MEANS, *ESTIMATORS, KNOWN]
    assert [setting["workload"] for setting in figures["settings"]] == ["small, hour 24, utilisation 0.3"]
    assert means[ALONE]["moves"] == means[ALONE]["failovers"]
    assert means[THRESHOLDS]["moves"] > means[THRESHOLDS_DAILY]["moves"] > means[THRESHOLDS_DAILY]["failovers"]
    assert set(figures["ratios"]) >= {f"{name} / {ALONE}" for name in ESTIMATORS}


def test_periods_follow_each_other_with_several_utilisations(scenario: Path) -> None:
    base = in_periods(base_of_scenario(scenario), 2, UTILISATIONS)
    fields = [*base.variants.values()]
    assert [of["from_hours"] for of in fields] == [24.0] * 3 + [24.0 + PERIOD_HOURS] * 3
    assert [of["utilisation"] for of in fields] == [0.2, 0.25, 0.3] * 2


def test_ratios_are_of_settings_where_failovers_alone_have_some_violations() -> None:
    """Two settings, with 1 and 20 violations of failovers alone a run; only the second counts."""
    settings = tuple(StudySetting(name, 26.0, 0.0) for name in ("calm", "busy"))
    counts = {arm.name: np.array([[1.0, 1.0], [10.0, 10.0]]) for arm in arms_of(["cpu"])}
    counts[ALONE] = np.array([[1.0, 1.0], [10.0, 30.0]])
    ratio = RebalancingStudy.claims(None, Violations(settings, counts))[3].ours
    assert isinstance(ratio, Ratio)
    assert (ratio.settings, ratio.mean) == (1, 0.5)


def test_periods_need_tenants_that_differ_between_repeats(scenario: Path) -> None:
    base = base_of_scenario(scenario)
    same = attrs.evolve(base, tables={**base.tables, "workload": {"kind": "traces", "arrivals": "recorded"}})
    with pytest.raises(PlbError, match="each_repeat"):
        in_periods(same, 2, UTILISATIONS)


def test_what_the_study_sets_is_refused(scenario: Path) -> None:
    base = base_of_scenario(scenario)
    workload = {**base.tables["workload"], "simulated_share": 2.0}
    with pytest.raises(PlbError, match="use utilisation"):
        in_periods(attrs.evolve(base, tables={**base.tables, "workload": workload}), 2, UTILISATIONS)


def test_regions_compare_the_default_energy_with_and_without_rebalancing() -> None:
    *_, default, rebalanced = arms_of_regions(["cpu"])
    assert default.policy == rebalanced.policy == "expected_overload"
    assert (dict(default.engine), rebalanced.engine["violation_cost"]) == ({}, 1.0)


def test_estimators_plan_once_a_day_and_no_threshold_starts_them() -> None:
    alone, thresholds, _, _, *estimating = arms_of(["cpu"])
    assert not alone.engine
    assert "violation_cost" not in thresholds.engine
    for arm in estimating:
        assert arm.engine["min_load_balancing_interval"] == DAILY
        assert arm.engine["metrics"] == {"cpu": {"balancing_threshold": 0.0}}
