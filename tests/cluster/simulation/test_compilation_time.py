"""Measured times exclude the compilation of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from cluster.bench.kernels import fastest
from cluster.runs.experiment import prepare
from cluster.scenario.scenario_file import scenario_from
from cluster.simulation.simulation import Simulation
from cluster.studies.provisioning import study
from cluster.studies.provisioning.design import PublishedFigure, arms
from cluster.warmup import tiny_instance
from plb import PlacementAndLoadBalancing
from plb.compiler.clock import COMPILATION
from tests.cluster.tiny import small_region

HOURS = 3600.0
"""More seconds than any test takes. A duration without them is negative here."""


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator with which a function seems to compile for hours at each call."""
    monkeypatch.setattr(COMPILATION, "_state", COMPILATION._state)  # restored by monkeypatch

    def changed(function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            COMPILATION._state = attrs.evolve(COMPILATION._state, seconds=COMPILATION.seconds + HOURS)
            return function(*args, **kwargs)

        return called

    return changed


def test_a_run_excludes_the_compilation_of_its_kernels(compiling, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PlacementAndLoadBalancing, "place", compiling(PlacementAndLoadBalancing.place))
    experiment = prepare(scenario_from(small_region()))
    run = Simulation(experiment.scenario, experiment.source, experiment.sequences[0], "original", 0).run()
    assert run.timings["placement"] < 0
    assert run.timings["total"] < 0
    assert min(one.seconds for one in run.slowest) < 0


def test_a_bench_excludes_it(compiling):
    assert fastest(compiling(lambda: None)) < 0


def test_a_study_of_provisioning_excludes_it(compiling, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(study, "provision", compiling(study.provision))
    _, seconds = study._planned(tiny_instance(), arms(next(iter(PublishedFigure)))[0], 1.0)
    assert seconds < 0
