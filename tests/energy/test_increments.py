"""Sums kept by delta evaluation equal sums from scratch after any moves and their undoing."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Application, CheckFailedError, Metric
from plb.energy import expected_failovers
from plb.energy.from_scratch import solution_from_scratch
from plb.evaluation.delta import ACCUMULATORS, comparable_values, compare_with_scratch
from plb.extensions.configuration import TERMS, Configuration, Proposal
from plb.state.arrays import Solution, Totals
from plb.testing import all_clusters, configuration_of, walks
from tests.engine.oracle import assert_sums_are_right, energy_by_hand, sums_from_scratch
from tests.engine.strategies import examples


def same_solutions(one: Solution, other: Solution) -> bool:
    """Return whether two solutions agree bit for bit; the order of the list of displaced rows does not matter."""
    names = ("totals", *ACCUMULATORS)
    return all(comparable_values(one, name).tobytes() == comparable_values(other, name).tobytes() for name in names)


@pytest.mark.kernels
@examples(120)
@given(all_clusters(), st.data())
def test_sums_after_any_walk_equal_sums_from_scratch(cluster, data):
    """After moves, swaps, exchanges and removals of rows, every accumulator equals its value from scratch."""
    configuration = configuration_of(cluster.engine())
    assert_sums_are_right(configuration)
    for proposal in data.draw(walks(configuration)):
        configuration.apply(proposal)
        assert_sums_are_right(configuration)
        configuration.check()


@pytest.mark.kernels
@examples(60)
@given(all_clusters(), st.data())
def test_sums_of_moments_of_the_past_equal_sums_from_scratch_after_any_walk(cluster, data):
    """The same where violations are counted in windows of slots that the replicas have lived through."""
    estimator = "historical-simulation:slots=5,slot_minutes=1,horizon=2"
    engine = cluster.engine(estimator=estimator, w_failovers=1.0, w_overload=1.0)
    replicas = [replica for partition in cluster.partitions for replica in engine.replicas(partition.name)]
    rows = [replica.index for replica in replicas]
    for minute in range(data.draw(st.integers(4, 7))):
        loads = data.draw(st.lists(st.sampled_from([0, 4, 16]), min_size=len(rows), max_size=len(rows)))
        engine.report_loads(rows, np.array(loads)[:, np.newaxis].repeat(len(cluster.metrics), axis=1))
        engine.place([], now=60.0 * minute)  # a plan enters a slot
    configuration = configuration_of(engine)
    assert_sums_are_right(configuration)
    for proposal in data.draw(walks(configuration)):
        configuration.apply(proposal)
        assert_sums_are_right(configuration)
        configuration.check()
    violating = sums_from_scratch(configuration.problem, configuration.solution.node)["violating"]
    total = expected_failovers.DESCRIPTION.total(configuration.problem, configuration.solution)
    assert total == sum(violating) / configuration.problem.weights.repetitions


@pytest.mark.kernels
@examples(120)
@given(all_clusters(), st.data())
def test_undoing_a_walk_restores_every_array(cluster, data):
    configuration = configuration_of(cluster.engine())
    undo_steps = []
    for proposal in data.draw(walks(configuration)):
        before = configuration.solution.copy()
        undo_steps.append((configuration.apply(proposal), before))
    for undo, before in reversed(undo_steps):
        configuration.apply(undo)
        assert same_solutions(configuration.solution, before)


@pytest.mark.kernels
@examples(120)
@given(all_clusters(), st.data())
def test_delta_of_each_term_is_the_difference_of_totals(cluster, data):
    """It is exact for counted terms (movement, expected failovers, overload), and within 1e-9 for floats."""
    configuration = configuration_of(cluster.engine())
    for proposal in data.draw(walks(configuration, usable_only=True)):
        before = {term.name: term.total(configuration) for term in TERMS}
        delta = {term.name: term.delta(configuration, proposal) for term in TERMS}
        configuration.apply(proposal)
        after = {term.name: term.total(configuration) for term in TERMS}
        repetitions = configuration.problem.weights.repetitions
        counts = {"movement": 10, "expected_failovers": repetitions, "expected_overload": 2**20 * repetitions}
        for name, unit in counts.items():
            counted = [round(value * unit) for value in (delta[name], after[name], before[name])]
            assert counted[0] == counted[1] - counted[2], name
            assert delta[name] * unit == pytest.approx(counted[0], rel=1e-9, abs=1e-9), name
        for name in ("imbalance", "fragmentation"):
            assert delta[name] == pytest.approx(after[name] - before[name], abs=1e-9), name


@pytest.mark.kernels
@examples(120)
@given(all_clusters(), st.data())
def test_energy_is_that_of_the_formula(cluster, data):
    """Both combinations, with their terms, agree with the formulas of docs/energy.md over sums from scratch."""
    engine = cluster.engine()
    configuration = configuration_of(engine)
    for proposal in data.draw(walks(configuration)):
        configuration.apply(proposal)
    standing = sum(not r.leaving for p in cluster.partitions for r in engine.replicas(p.name))
    by_hand = energy_by_hand(engine.config, configuration.problem, configuration.solution.node, standing)
    assert configuration.energy == pytest.approx(by_hand["total"], rel=1e-9, abs=1e-9)
    for term in TERMS:
        assert term.total(configuration) == pytest.approx(by_hand[term.name], abs=1e-9), term.name


@pytest.mark.parametrize("level", ["step", "phase"])
@examples(20)
@given(cluster=all_clusters())
def test_self_checks_find_nothing_in_a_search(level, cluster):
    """With checks on, every phase runs to its end without an error and makes the same plan as without them."""
    engine, unchecked = cluster.engine(checks=level), cluster.engine()
    for verb in ("place", "repair", "balance"):
        assert getattr(engine, verb)(budget=60) == getattr(unchecked, verb)(budget=60)


CORRUPTED = sorted({*ACCUMULATORS} - {"node", "displaced", "displaced_at"})


@pytest.mark.parametrize("name", CORRUPTED)
def test_corrupted_accumulator_is_named(name, small_cluster):
    packed = attrs.evolve(
        small_cluster,
        metrics=(Metric("cpu"), Metric("memory", defragmentation=True)),
        services=tuple(attrs.evolve(service, application="all") for service in small_cluster.services),
        applications=(Application("all", most_nodes=4, node_reservation={"cpu": 1}),),
    )
    configuration = configuration_of(
        packed.engine(
            local_domain_weight=0.25,
            evaluation="timeline",
            prevent_transient_overcommit=True,
            maximum_in_build_replicas_per_node={"small": 1},
        )
    )
    array = getattr(configuration.solution, name)
    array.flat[0] += 1
    with pytest.raises(CheckFailedError, match=rf"^phase: accumulator {name}\[0.*\] is .*, from scratch it is "):
        compare_with_scratch(configuration.problem, configuration.solution, "phase")


@pytest.mark.parametrize("name", Totals.names())
def test_corrupted_total_is_named(name, small_cluster):
    configuration = configuration_of(small_cluster.engine())
    setattr(configuration.solution.totals, name, 77)
    with pytest.raises(CheckFailedError, match=rf"^phase: {name} is 77.*, from scratch it is "):
        compare_with_scratch(configuration.problem, configuration.solution, "phase")


def test_corrupted_list_of_displaced_rows_is_named(small_cluster):
    configuration = configuration_of(small_cluster.engine())
    configuration.apply(Proposal(0, 2))
    configuration.solution.displaced[0] = 1
    with pytest.raises(CheckFailedError, match="accumulator displaced"):
        configuration.check()
    configuration.solution.displaced[0] = 0
    configuration.solution.displaced_at[0] = -1
    with pytest.raises(CheckFailedError, match="accumulator displaced_at"):
        configuration.check()


@examples(40)
@given(all_clusters(), st.data())
def test_copy_of_a_solution_shares_nothing(cluster, data):
    configuration = configuration_of(cluster.engine())
    twin = Configuration(configuration.problem, configuration.solution.copy())
    for proposal in data.draw(walks(configuration)):
        twin.apply(proposal)
    start = solution_from_scratch(configuration.problem, configuration.problem.origin.copy())
    assert same_solutions(configuration.solution, start)
