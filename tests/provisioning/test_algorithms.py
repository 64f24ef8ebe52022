"""Every algorithm of [3] equals its text, replica by replica, and its plans are valid."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb.provisioning import Instance, NodeType, NoPlanError, Rules, algorithm_names, lower_bound, provision
from plb.provisioning.application_centric import empty_spread
from plb.provisioning.application_centric import spread as spread_kernel
from plb.provisioning.packing import Measure, residual_of, sizes
from plb.provisioning.released_programs import whole_shares
from plb.provisioning.solver_context import SolverContext, order_of
from tests.provisioning import naive
from tests.provisioning.strategies import instances, make_instance

pytestmark = pytest.mark.kernels


def nodes_of(expected: naive.Placement | None) -> list[dict[int, int]] | None:
    return None if expected is None else [inside for _, inside in expected]


def planned(instance: Instance, name: str, rules: Rules = Rules.PAPER) -> list[dict[int, int]] | None:
    """Return the replicas of each node by an algorithm; None if it finds no plan."""
    try:
        return naive.placement_of(provision(instance, name, rules=rules))
    except NoPlanError:
        return None


@given(instance=instances(counted=True, kinds=3))
def test_first_fit_takes_the_first_feasible_node(instance: Instance) -> None:
    expected = naive.first_fit(instance, range(len(instance.applications)))
    assert planned(instance, "FF") == nodes_of(expected)


@given(instance=instances(), measure=st.sampled_from(list(Measure)), best=st.booleans())
def test_best_and_worst_fit_take_the_node_with_least_or_most_left(instance, measure, best) -> None:
    """The node gets as many replicas as fit; among equal nodes it is the one opened first."""
    expected = naive.ordered_fit(instance, range(len(instance.applications)), measure, 1 if best else -1)
    assert planned(instance, f"{'BF' if best else 'WF'}-{measure}") == nodes_of(expected)


@settings(deadline=None, max_examples=40)
@given(instance=instances(), measure=st.sampled_from(list(Measure)))
def test_decreasing_order_is_from_large_to_small(instance: Instance, measure: Measure) -> None:
    """Sizes are those of table 1, computed here application by application."""
    shares = instance.dimensions() / instance.largest_capacity()
    replicas = instance.replicas
    total = (replicas[:, None] * shares).sum(axis=0)
    size = []
    for share, count in zip(shares, replicas, strict=True):
        terms = {
            Measure.AVERAGE: share.mean(),
            Measure.MAX: share.max(),
            Measure.EXPONENTIAL: (np.exp(0.01 * total / replicas.sum()) * share).sum(),
            Measure.SURROGATE: (total / total.sum() * share).sum() if total.sum() else 0.0,
            Measure.EXTENDED_SUM: sum(count * part / whole for part, whole in zip(share, total, strict=True) if whole),
        }
        size.append(terms[measure])
    np.testing.assert_allclose(sizes(measure, shares, replicas), size, atol=1e-12)
    expected = naive.first_fit(instance, order_of(sizes(measure, shares, replicas)).tolist())
    assert planned(instance, f"FFD-{measure}") == nodes_of(expected)


@given(
    instance=instances(kinds=1, time_points=1, least_demand=1),
    measure=st.sampled_from(list(Measure)),
    best=st.booleans(),
)
def test_the_released_programs_sort_nodes_before_each_replica(instance: Instance, measure: Measure, best: bool) -> None:
    """They use 32-bit numbers, shares as whole numbers, and measures that are not always up to date."""
    shares = whole_shares(instance.dimensions(), instance.largest_capacity())
    if measure is Measure.EXTENDED_SUM:
        shares = instance.dimensions() / instance.largest_capacity()
    order = order_of(sizes(measure, shares, instance.replicas)).tolist()
    expected = naive.resorted_fit(instance, order, measure, 1 if best else -1)
    name = f"{'BFD' if best else 'WFD'}-{measure}"
    assert planned(instance, name, Rules.RELEASED) == nodes_of(expected)


@given(instance=instances(kinds=1), measure=st.sampled_from([Measure.AVERAGE, Measure.MAX]), nodes=st.integers(1, 8))
def test_spreading_gives_each_replica_the_node_with_most_left(instance: Instance, measure: Measure, nodes: int) -> None:
    context = SolverContext(instance)
    packing, state = context.packing_of_first(nodes), empty_spread(nodes, residual_of(measure, context.capacity))
    lost = spread_kernel(np.arange(len(instance.applications)), packing, state, False)
    expected, missing = naive.spread(instance, range(len(instance.applications)), measure, nodes)
    assert naive.placement_in(packing) == expected
    assert lost == sum(missing.values())


@pytest.mark.parametrize("rules", Rules)
@settings(max_examples=50)
@given(instance=instances(time_points=1, counted=True, kinds=3), name=st.sampled_from(algorithm_names()))
def test_plans_are_valid(rules: Rules, instance: Instance, name: str) -> None:
    try:
        plan = provision(instance, name, rules=rules)
    except NoPlanError:
        return
    assert plan.faults() == ()
    assert naive.allowed(plan)
    assert plan.nodes >= lower_bound(instance)


@pytest.mark.parametrize("rules", Rules)
@pytest.mark.parametrize("name", algorithm_names())
def test_unlimited_nodes_without_capacity_are_skipped(name: str, rules: Rules) -> None:
    """All replicas fit only on nodes of the second kind; no algorithm fills nodes of the first kind."""
    kinds = NodeType("none", np.array([0])), NodeType("large", np.array([12]))
    instance = attrs.evolve(make_instance([1, 0], [1, 1], []), nodes=kinds)
    plan = provision(instance, name, rules=rules)
    assert plan.faults() == ()
