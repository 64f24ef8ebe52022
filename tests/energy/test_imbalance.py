"""Local load-balancing domains and defragmented metrics: the score equals its formula after any walk."""

from __future__ import annotations

from collections import Counter

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb.constraints.description import NamedSolution
from plb.energy.imbalance import DESCRIPTION
from plb.energy.terms import cost_of_node
from plb.extensions.configuration import Configuration
from plb.model.move import Phase
from plb.planning.rule_priorities import rule_priorities
from plb.testing import Cluster, all_clusters, configuration_of, walks
from tests.engine.strategies import examples


def deviation(loads: np.ndarray) -> float:
    return float(loads.std() / loads.mean()) if loads.size and loads.sum() else 0.0


def loads_of(configuration: Configuration, service: int | None = None) -> np.ndarray:
    """Return the node loads of one service or of all, computed row by row, (N, R)."""
    problem, node = configuration.problem, configuration.solution.node
    load = np.zeros(problem.limit.shape)
    for row, at in enumerate(node.tolist()):
        if at >= 0 and not problem.leaving[row] and service in (None, int(problem.service[row])):
            load[at] += problem.load[row]
    return load


def score(cluster: Cluster, configuration: Configuration, service: int | None, factors: tuple[float, ...]) -> float:
    """Return the score of a load-balancing domain by the formula: the weighted mean over the metrics."""
    load, values = loads_of(configuration, service), []
    for index, metric in enumerate(cluster.metrics):
        counted = configuration.problem.counted_for[:, index]
        uneven = deviation(load[counted, index])
        if metric.defragmentation:
            uneven = factors[0] * (1 - uneven)
            for factor, kind in zip(factors[1:], ("fault_domain_path", "upgrade_domain_name"), strict=False):
                groups: Counter[object] = Counter()
                for node, value, counts in zip(cluster.nodes, load[:, index], counted, strict=True):
                    if counts:
                        groups[getattr(node, kind)] += float(value)
                uneven += factor * deviation(np.array(list(groups.values())))
        values.append(uneven)
    weights = [metric.weight for metric in cluster.metrics]
    return float(np.average(values, weights=weights)) if sum(weights) else 0.0


@st.composite
def packed_clusters(draw: st.DrawFn) -> tuple[Cluster, float]:
    """Draw a cluster without placement constraints, defragmented metrics, and a weight of local domains."""
    cluster = draw(all_clusters())
    metrics = tuple(attrs.evolve(metric, defragmentation=draw(st.booleans())) for metric in cluster.metrics)
    services = tuple(attrs.evolve(service, placement_constraint="") for service in cluster.services)
    return attrs.evolve(cluster, metrics=metrics, services=services), draw(st.sampled_from([0.0, 0.25, 1.0]))


@pytest.mark.kernels
@examples(80)
@given(packed_clusters(), st.data())
def test_score_equals_the_formula_after_any_walk(drawn, data):
    """A = L·mean(local) + (1 − L)·global; a service with two partitions or more is a local domain."""
    cluster, share = drawn
    engine = cluster.engine(local_domain_weight=share)
    configuration = configuration_of(engine)
    for proposal in data.draw(walks(configuration)):
        configuration.apply(proposal)
    configuration.check()
    partitions = Counter(partition.service for partition in cluster.partitions)
    config = engine.config
    factors = (
        config.defragmentation_nodes_std_dev_factor,
        config.defragmentation_fds_std_dev_factor,
        config.defragmentation_uds_std_dev_factor,
    )
    local = [
        score(cluster, configuration, engine._state.service_index[service.name], factors[:1])
        for service in cluster.services
        if partitions[service.name] >= 2 and any(metric.weight for metric in cluster.metrics)
    ]
    expected = (1 - share) * score(cluster, configuration, None, factors)
    expected += share * float(np.mean(local)) if share and local else 0.0
    assert configuration.solution.totals.imbalance == pytest.approx(expected, abs=1e-9)


@examples(40)
@given(packed_clusters())
def test_searches_with_local_domains_keep_right_sums(drawn):
    cluster, share = drawn
    engine = cluster.engine(local_domain_weight=share, checks="step", combination="service_fabric")
    for verb in ("place", "repair", "balance"):
        engine.apply(getattr(engine, verb)(budget=60))


@pytest.mark.kernels
@examples(120)
@given(all_clusters(), st.data())
def test_imbalance_is_shared_among_the_nodes_above_the_mean(cluster, data):
    """A node above the mean has the share of its squared distance; packed metrics and other nodes have none."""
    metrics = tuple(attrs.evolve(metric, defragmentation=data.draw(st.booleans())) for metric in cluster.metrics)
    engine = attrs.evolve(cluster, metrics=metrics).engine(w_imbalance=1.0, w_failovers=0.0, w_overload=0.0)
    configuration = configuration_of(engine)
    for proposal in data.draw(walks(configuration)):
        configuration.apply(proposal)
    problem, load = configuration.problem, loads_of(configuration)
    weights = [metric.weight for metric in metrics]
    for node in range(configuration.nodes):
        shares = []
        for index, metric in enumerate(metrics):
            counted = problem.counted_for[:, index]
            distance = load[:, index] - (load[counted, index].mean() if counted.any() else 0.0)
            shared = counted[node] and not metric.defragmentation and distance[node] > 0
            share = distance[node] ** 2 / (distance[counted] ** 2).sum() if shared else 0.0
            shares.append(share * deviation(load[counted, index]))
        right = np.average(shares, weights=weights) if sum(weights) else 0.0
        assert cost_of_node(problem, configuration.solution, node) == pytest.approx(right, abs=1e-9)


@pytest.mark.kernels
@examples(120)
@given(all_clusters(), st.data())
def test_reason_of_balancing_is_the_metric_that_gains_most_by_weight(cluster, data):
    """A packed metric gains by a higher deviation; without any gain the reason names no metric."""
    metrics = tuple(
        attrs.evolve(
            metric, defragmentation=data.draw(st.booleans()), weight=data.draw(st.sampled_from([0.0, 1.0, 7.0]))
        )
        for metric in cluster.metrics
    )
    engine = attrs.evolve(cluster, metrics=metrics).engine()
    before, after = configuration_of(engine), configuration_of(engine)
    for proposal in data.draw(walks(after)):
        after.apply(proposal)
    counted = before.problem.counted_for
    values = [
        [deviation(loads_of(configuration)[counted[:, index], index]) for index in range(len(metrics))]
        for configuration in (before, after)
    ]
    signs = [-1 if metric.defragmentation else 1 for metric in metrics]
    weighted = zip(metrics, signs, *values, strict=True)
    gains = [metric.weight * sign * (old - new) for metric, sign, old, new in weighted]
    named = NamedSolution(engine._state, before.problem, before.solution, rule_priorities(engine.config))
    reason = DESCRIPTION.reason(named, after.solution, Phase.BALANCING)
    assert (reason.phase, reason.rule, reason.term) == (Phase.BALANCING, "energy", "imbalance")
    if reason.metric is None:
        assert max(gains) <= 1e-9
        return
    best = [metric.name for metric in metrics].index(reason.metric)
    assert gains[best] == pytest.approx(max(gains), abs=1e-9)
    assert gains[best] > 0
    numbers = {"before": values[0][best], "after": values[1][best]}
    assert dict(reason.numbers) == pytest.approx(numbers, abs=1e-9)
