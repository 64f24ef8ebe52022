"""Outcomes pair by pair, and the kinds of violations in the figures of a study."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.studies.annealing import ARMS, AnnealingStudy
from cluster.studies.base import base_of_regions
from cluster.studies.design import Design, StudySetting
from cluster.studies.runner import Finished
from cluster.studies.violations import KINDS, REPORTED, Pairs, Violations


@given(st.lists(st.integers(-3, 3), max_size=12))
def test_the_probability_is_that_of_the_coin(differences: list[int]) -> None:
    """All outcomes of as many tosses that are at most as probable count."""
    pairs = Pairs.of(differences)
    fewer, more = sum(one < 0 for one in differences), sum(one > 0 for one in differences)
    assert (pairs.fewer, pairs.equal, pairs.more) == (fewer, len(differences) - fewer - more, more)
    tosses = fewer + more
    as_uneven = sum(comb(tosses, heads) for heads in range(tosses + 1) if comb(tosses, heads) <= comb(tosses, fewer))
    assert pairs.probability == pytest.approx(as_uneven / 2**tosses)


@given(st.integers(0, 2**32 - 1))
def test_a_pair_is_a_repeat_of_a_workload_over_all_densities(seed: int) -> None:
    counts = np.random.default_rng(seed).integers(0, 4, (2, 4, 5)).astype(float)
    settings = tuple(StudySetting(name, 80.0, density) for density in (1.0, 2.0) for name in ("a", "b"))
    pairs = Violations(settings, {"x": counts[0], "y": counts[1]}).pairs("x", "y")
    sums = counts[:, :2] + counts[:, 2:]  # by arm, workload and repeat
    assert (pairs.fewer, pairs.more) == ((sums[0] < sums[1]).sum(), (sums[0] > sums[1]).sum())
    assert pairs.fewer + pairs.equal + pairs.more == 10


def test_kinds_of_violations_stand_apart_in_the_figures() -> None:
    settings = [StudySetting("region1", 80.0, density) for density in (1.0, 2.0)]
    study = AnnealingStudy(Design(base_of_regions(["region1"]), settings, ARMS, days=1.0, repeats=2, seed=0))
    totals = {"failovers": 1, "moves": 1, "downtime_seconds": 1.0, "tenants": 10, "placement_failures": 0}
    runs = []
    for task in study.tasks():
        avoidable = 4.0 if task.arguments["arm"] == "original" else 2.0
        kinds = dict(zip(KINDS, (avoidable, 6.0, task.arguments["density"]), strict=True))
        violations = avoidable + 6.0
        reported = 5.0 * violations if "oracle" in task.arguments["arm"] else violations
        runs.append({**task.arguments, **totals, **kinds, "violations": violations, REPORTED: reported})
    figures = study.result(Finished(runs)).figures
    assert figures["ratios"]["original / modified"]["mean"] == 10.0 / 8.0
    assert figures["ratios_avoidable"]["original / modified"]["mean"] == 2.0
    assert figures["ratios"]["original with oracle / modified"]["mean"] == 1.0
    assert figures["ratios"]["original+oracle / modified, by reported loads"]["mean"] == 5.0
    for setting in figures["settings"]:
        assert setting["violations_avoidable"]["original"] == 4.0
        assert set(setting["violations_unavoidable"].values()) == {6.0}
        assert set(setting["shortages_unresolved"].values()) == {setting["density"]}
