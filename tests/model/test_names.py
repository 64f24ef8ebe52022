"""Names and texts that UTF-8 cannot hold are refused where they come in, and roles may be given by their names."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from plb import (
    Application,
    ConflictError,
    InvalidValueError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
)
from plb.model.partition import PartitionColumns
from plb.ready_made import LeastDomains, MetricBalance, MoveCostBetweenDomains, SameDomain
from plb.risk.demand_history import DemandHistory
from plb.settings.limits import ThrottlingSettings
from tests.engine.fingerprint import snapshot

NAME = "tenant-\udce9"


class Named:
    """An extension of any kind with such a name."""

    name = NAME

    def total(self, configuration):
        """Return nothing."""

    refuses = broken = choose = change = total


def history(metrics=("cpu",), tenant_class="a"):
    one = np.ones((1, len(metrics)))
    return DemandHistory.from_columns(
        metrics,
        lifetime=[1.0],
        tenant_class=[tenant_class],
        role=[0],
        initial=one,
        growth=one,
        maximum=one,
        level=one,
        censored=[False],
    )


def engine(**extensions):
    return PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]), **extensions)


DOORS: dict[str, Callable[[], object]] = {
    "node": lambda: Node(NAME),
    "fault domain": lambda: Node("n", fault_domain=NAME),
    "upgrade domain": lambda: Node("n", upgrade_domain=NAME),
    "property": lambda: Node("n", properties={NAME: "x"}),
    "value of a property": lambda: Node("n", properties={"x": NAME}),
    "service": lambda: Service(NAME),
    "tenant class": lambda: Service("s", tenant_class=NAME),
    "placement constraint": lambda: Service("s", placement_constraint=f"x == {NAME}"),
    "affinity": lambda: Service("s", affinity_to=NAME),
    "application of a service": lambda: Service("s", application=NAME),
    "blocked node": lambda: Service("s", blocked_nodes=[NAME]),
    "partition": lambda: Partition(NAME, service="s"),
    "service of a partition": lambda: Partition("p", service=NAME),
    "partition in a column": lambda: PartitionColumns([NAME], service="s", nodes=[["n"]], roles=0),
    "service in a column": lambda: PartitionColumns(["p"], service=[NAME], nodes=[["n"]], roles=0),
    "service of a column": lambda: PartitionColumns(["p"], service=NAME, nodes=[["n"]], roles=0),
    "node of a replica": lambda: Replica(Role.PRIMARY, NAME),
    "application": lambda: Application(NAME),
    "upgraded domain of an application": lambda: Application("a", completed_upgrade_domains=[NAME]),
    "upgraded domain": lambda: engine().update_upgraded_domains([NAME]),
    "metric": lambda: Metric(NAME),
    "constraint of the settings": lambda: PlbConfig(metrics=[Metric("cpu")], extension_constraints=[NAME]),
    "policy of the settings": lambda: PlbConfig(metrics=[Metric("cpu")], policy=NAME),
    "term of the settings": lambda: PlbConfig(metrics=[Metric("cpu")], extension_terms={NAME: 1.0}),
    "throttle of the settings": lambda: ThrottlingSettings(maximum_in_build_replicas_per_node={NAME: 1}),
    "term": lambda: engine(extension_terms=[Named()]),
    "constraint": lambda: engine(extension_constraints=[Named()]),
    "policy": lambda: engine(extension_policy=Named()),
    "domains": lambda: LeastDomains({"s": 1}, name=NAME),
    "service with domains": lambda: LeastDomains({NAME: 1}),
    "service with a domain": lambda: SameDomain({"s": [NAME]}),
    "term of metrics": lambda: MetricBalance("cpu", "disk", name=NAME),
    "term of moves": lambda: MoveCostBetweenDomains({("a", "b"): 1.0}, name=NAME),
    "domain in costs of moves": lambda: MoveCostBetweenDomains({("a", NAME): 1.0}),
    "metric of the history": lambda: history(metrics=[NAME]),
    "class of the history": lambda: history(tenant_class=NAME),
}


@pytest.mark.parametrize("door", DOORS)
def test_lone_surrogates_are_refused_at_the_door(door):
    """The error names the text, and nothing is made."""
    with pytest.raises(InvalidValueError, match="without lone surrogates"):
        DOORS[door]()


def test_other_letters_are_names():
    """Accents, other scripts and symbols are no surrogates."""
    assert [Node(name).name for name in ("é", "名", "🚚")] == ["é", "名", "🚚"]


ROLES = {"primary": Role.PRIMARY, "secondary": Role.SECONDARY, "instance": Role.INSTANCE}


@pytest.mark.parametrize(("name", "role"), ROLES.items())
def test_role_by_its_name_is_the_role(name, role):
    """A name works in a description, and as a key of loads."""
    loads = {name: {"cpu": 1}}
    assert Replica(name, "n0") == Replica(role, "n0")
    assert Service("s", stateful=name != "instance", default_load=loads).default_load == {role: {"cpu": 1}}


def test_engine_takes_roles_by_name(small_cluster):
    one, two = small_cluster.engine(), small_cluster.engine()
    for engine, role in ((one, Role.SECONDARY), (two, "secondary")):
        engine.report_role_load("db/0", role, {"cpu": 7})
        engine.report_move_cost("db/0", role, "high")
    assert snapshot(one) == snapshot(two)


@pytest.mark.parametrize("role", ["Primary", "PRIMARY", "leader", "", 3, -1, 0.0, True, None, [Role.PRIMARY]])
def test_anything_else_is_refused(role, small_cluster):
    engine = small_cluster.engine()
    for take in (
        lambda: Replica(role, "n0"),
        lambda: engine.report_role_load("db/0", role, {}),
        lambda: engine.report_move_cost("db/0", role, "high"),
    ):
        with pytest.raises(InvalidValueError, match=r"role = .* is not allowed"):
            take()


def test_role_that_is_given_twice_is_refused():
    with pytest.raises(ConflictError, match="default_load has PRIMARY twice"):
        Service("s", default_load={"primary": {"cpu": 1}, Role.PRIMARY: {"cpu": 2}})
