"""`spread_moves`: balancing moves siblings as well if a move breaks the spread, so that it holds again."""

from __future__ import annotations

import pytest
from hypothesis import given

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.engine_extensions import among
from plb.testing import busy_clusters
from tests.engine import extension_constraints  # noqa: F401
from tests.engine.extension_constraints import CONSTRAINTS
from tests.engine.oracle import assert_rules_are_kept, placement_of
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels


def unbalanced(objects=(), **settings) -> PlacementAndLoadBalancing:
    """Return two racks of two nodes; the best node for the primary of ``db`` is ``b2``, in the secondary's rack."""
    config = PlbConfig(metrics=[Metric("cpu")], swap_primary_probability=0.0, exchange_probability=0.0, **settings)
    engine = PlacementAndLoadBalancing(config, seed=5, **among(objects, config))
    for name, load in {"a1": 5, "a2": 10, "b1": 8, "b2": 1}.items():
        engine.update_node(Node(name, fault_domain=f"fd:/{name[0]}"))
        engine.update_service(Service(f"stays on {name}", stateful=False, max_moves=0))
        engine.update_partition(Partition(name, service=f"stays on {name}", replicas=[Replica(Role.INSTANCE, name)]))
        engine.report_load(name, name, {"cpu": load})
    loads = {Role.PRIMARY: {"cpu": 10.0}, Role.SECONDARY: {"cpu": 2.0}}
    engine.update_service(Service("db", default_load=loads))
    replicas = [Replica(Role.PRIMARY, "a1"), Replica(Role.SECONDARY, "b1")]
    engine.update_partition(Partition("db", service="db", replicas=replicas))
    return engine


@pytest.mark.parametrize("constraints", [(), ("one_primary_a_node",)], ids=["compiled", "extension constraint"])
def test_primary_moves_to_the_rack_of_its_secondary_if_that_lowers_the_energy(constraints):
    """Without the setting it stays in its rack, since the first move alone would break the spread of both racks."""
    for makes_spread_moves, racks in (
        (False, {"primary": "a", "secondary": "b"}),
        (True, {"primary": "b", "secondary": "a"}),
    ):
        engine = unbalanced(spread_moves=makes_spread_moves, objects=CONSTRAINTS, extension_constraints=constraints)
        engine.apply(engine.balance(budget=800))
        at = {replica.role.name.lower(): replica.node[0] for replica in engine.replicas("db")}
        assert at == racks


@examples(80)
@given(busy_clusters())
def test_no_plan_breaks_a_rule(cluster):
    engine = cluster.engine(spread_moves=True, checks="step")
    before = placement_of(engine, cluster)
    plan = engine.balance(budget=240)
    assert_rules_are_kept(cluster, engine.config, before, plan)
    assert plan.energy_after.total <= plan.energy_before.total
