"""Hypothesis strategies for instances of provisioning, and the shared data."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from plb.provisioning import Affinity, Instance
from workloads.column_checks import TraceError, TraceProblem
from workloads.provisioning import NodeSpec, build_instance

DATA = Path(os.environ.get("PLB_DATA", "/work/shared/data"))
NODES = (NodeSpec("large", (92.0, 288.0), 7), NodeSpec("small", (64.0, 128.0), 3))


def shared(name: str) -> Path:
    """Return a file or directory of the shared data, or skip the test if it is missing."""
    if not (DATA / name).exists():
        pytest.skip(f"{DATA / name} is not here")
    return DATA / name


def limits_of(affinity: Affinity, names: tuple[str, ...]) -> list[tuple[str, str, int]]:
    rows = zip(affinity.source.tolist(), affinity.target.tolist(), affinity.most.tolist(), strict=True)
    return sorted((names[source], names[target], most) for source, target, most in rows)


def assert_same(actual: Instance, expected: Instance) -> None:
    """Assert that two instances are equal except for their name and the order of their limits."""
    assert actual.resources == expected.resources
    assert actual.applications == expected.applications
    assert actual.replicas.tolist() == expected.replicas.tolist()
    assert actual.units == expected.units
    assert np.array_equal(actual.demand, expected.demand)
    assert limits_of(actual.affinity, actual.applications) == limits_of(expected.affinity, expected.applications)
    kinds = [[(kind.capacity.tolist(), kind.count) for kind in instance.nodes] for instance in (actual, expected)]
    assert kinds[0] == kinds[1]


NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N"), include_characters="_-./"), min_size=1, max_size=8)


@st.composite
def instances(
    draw: st.DrawFn, *, points: int | None = None, resources: tuple[str, ...] = ("core", "memory")
) -> Instance:
    """Draw an instance of a few applications with limits, including limits of applications for themselves."""
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    length = points or draw(st.integers(1, 4))
    count = len(names)
    shape = (count, len(resources))
    decimals = draw(st.integers(0, 6))
    levels = draw(st.lists(st.integers(0, 64 * 10**decimals), min_size=length, max_size=length))
    factors = np.array(draw(st.lists(st.integers(1, 5), min_size=2 * count, max_size=2 * count))).reshape(count, 2)
    demand = np.array(levels)[None, None, :] // np.resize(factors, shape)[:, :, None] / 10.0**decimals
    pairs = draw(st.lists(st.tuples(*[st.integers(0, count - 1)] * 2), max_size=10, unique=True))
    most = draw(st.lists(st.integers(0, 2000), min_size=len(pairs), max_size=len(pairs)))
    source, target = np.array(pairs, np.int32).reshape(-1, 2).T
    most = np.maximum(most, source == target)  # a limit of 0 for the application itself would be a contradiction
    return build_instance(
        name="drawn",
        resources=resources,
        applications=names,
        replicas=np.array(draw(st.lists(st.integers(1, 300), min_size=count, max_size=count)), np.int32),
        demand=demand,
        affinity=Affinity.from_columns(source, target, most, count),
        nodes=NODES,
    )


def problems_of(read: Any, *arguments: Any) -> list[TraceProblem]:
    """Return the problems of the `TraceError` that the call raises."""
    with pytest.raises(TraceError) as caught:
        read(*arguments)
    assert str(caught.value)
    return list(caught.value.problems)


def places_of(read: Any, *arguments: Any) -> list[tuple[str, int | None, str | None]]:
    """Return file, row and column of these problems."""
    return [(Path(problem.file).name, problem.row, problem.column) for problem in problems_of(read, *arguments)]
