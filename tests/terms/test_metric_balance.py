"""The balance of two metrics: by hand, after random walks, at the optimum, and with bad input."""

from __future__ import annotations

import pytest

from plb import InvalidValueError, Node, UnknownNameError
from plb.ready_made import MetricBalance
from plb.testing import Cluster, Invariant, small_clusters, verify
from tests.machines import short_machine_of
from tests.terms.walks import engine_with, least

pytestmark = pytest.mark.kernels

of_two = small_clusters().filter(lambda cluster: len(cluster.metrics) > 1)


def _for_cluster(cluster: Cluster) -> MetricBalance:
    first, second = (metric.name for metric in cluster.metrics[:2])
    return MetricBalance(first, second, 1.5)


TestBalance = short_machine_of(
    MetricBalance("cpu", "disk"), without=[Invariant.SCALE], clusters=of_two, made_for=_for_cluster
)


def test_a_missing_capacity_means_no_shortage():
    """Free capacity without a limit is not defined."""
    nodes = [Node("n0", capacities={"cpu": 10}), Node("n1", capacities={"disk": 1})]
    facts = verify(MetricBalance("cpu", "disk")).given(
        nodes=nodes, replicas=[(0, {"cpu": 1, "disk": 9})], metrics=("cpu", "disk")
    )
    facts.totals(0).moves((0, 1)).changes_by(0)


def test_two_balances_of_one_engine_add_up():
    """A plan reports each under its name, and the search minimises their sum."""
    loads = [(3, 1), (1, 6), (2, 2), (1, 1)]
    terms = [MetricBalance("cpu", "disk", 3, name="disk_for_cpu"), MetricBalance("disk", "cpu", name="cpu_for_disk")]
    plan = engine_with(terms[0], loads, ["s"] * len(loads), terms[1]).balance(budget=5_000)

    def shortages(sums: list[tuple[int, int]]) -> dict[str, float]:
        free = [(10 - cpu, 20 - disk) for cpu, disk in sums]
        return {
            "disk_for_cpu": sum(max(0, 3 * cpu - disk) for cpu, disk in free),
            "cpu_for_disk": sum(max(0, disk - cpu) for cpu, disk in free),
        }

    best = least(loads, lambda _nodes, sums: sum(shortages(sums).values()))
    assert plan.energy_before.extension_terms == shortages([(7, 10), (0, 0), (0, 0)])
    assert sum(plan.energy_after.extension_terms.values()) == best < sum(plan.energy_before.extension_terms.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cpu", "cpu"), "energy term metric_balance: second = 'cpu' .* another metric"),
        (("", "cpu"), "first = ''"),
        (("cpu", 3), "second = 3"),
        (("cpu", "disk", 0), "target = 0 .* > 0"),
        (("cpu", "disk", float("inf")), "target = inf"),
    ],
)
def test_bad_values_are_refused(arguments: tuple[object, ...], message: str):
    with pytest.raises(InvalidValueError, match=message):
        MetricBalance(*arguments)  # type: ignore[arg-type]


def test_an_unknown_metric_is_refused_by_the_search():
    engine = engine_with(MetricBalance("cpu", "disks"), [(1, 1)], ["s"])
    with pytest.raises(UnknownNameError, match="energy term metric_balance: second: unknown metric 'disks'"):
        engine.balance()
