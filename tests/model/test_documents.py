"""Descriptions and plans as objects of JSON: nothing is lost on the way, and their schemas accept them."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    Application,
    InvalidValueError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    Plan,
    PlbConfig,
    Replica,
    Role,
    Service,
    UnknownNameError,
)
from plb.model.documents import Described
from plb.testing import Cluster, all_clusters
from tests.engine.strategies import examples

jsonschema = pytest.importorskip("jsonschema_rs")
DESCRIPTIONS: tuple[type[Any], ...] = (Application, Metric, Node, Partition, PlbConfig, Replica, Service)
REQUIRED: dict[type[Any], dict[str, Any]] = {
    Replica: {"role": "primary", "node": "n0"},
    PlbConfig: {"metrics": [Metric("cpu")]},
    Partition: {"name": "p", "service": "s"},
}
SCHEMAS = {kind: jsonschema.validator_for(kind.json_schema()) for kind in (*DESCRIPTIONS, Plan)}


def through_json(value: Any) -> Any:
    """Return what a reader of JSON makes of a description or a plan, which its schema accepts."""
    document = json.loads(value.to_json())
    SCHEMAS[type(value)].validate(document)
    return type(value).from_dict(document)


@examples(60)
@given(all_clusters())
def test_a_cluster_is_the_same_after_json(cluster: Cluster) -> None:
    engine = cluster.engine()
    for description in (*cluster.nodes, *cluster.services, *cluster.partitions, *cluster.metrics, engine.config):
        assert through_json(description) == description


def test_a_plan_from_json_says_that_it_cannot_explain_what_stays() -> None:
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]))
    engine.update_node(Node("n0"))
    engine.update_service(Service("s"))
    engine.update_partition(Partition("p", service="s", replicas=[Replica(Role.PRIMARY, "n0")]))
    plan = engine.repair()
    assert plan.explain("p").startswith("The plan leaves p where it is")
    with pytest.raises(UnknownNameError, match="plan without outcomes, such as one from JSON: unknown partition 'p'"):
        through_json(plan).explain("p")


@examples(40)
@given(all_clusters(), st.integers(0, 1))
def test_a_plan_from_json_is_applied_and_reads_the_same(cluster: Cluster, drained: int) -> None:
    engine, twin = cluster.engine(), cluster.engine()
    for same_engine in (engine, twin):
        for node in same_engine.nodes[drained : drained + 1]:
            same_engine.drain_node(node.name)
    plan, same = engine.refresh(0.0), twin.refresh(0.0)
    read = through_json(plan)
    assert read.to_dict() == plan.to_dict()
    assert [str(move.reason) for move in read.moves] == [str(move.reason) for move in plan.moves]
    assert [*map(str, read.unplaced), *map(str, read.undrained)] == [
        *map(str, plan.unplaced),
        *map(str, plan.undrained),
    ]
    engine.apply(read)
    twin.apply(same)
    assert engine.node_loads() == twin.node_loads()


def test_reasons_and_roles_are_words() -> None:
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]))
    engine.update_node(Node("n0", capacities={"cpu": 8}))
    engine.update_service(Service("db", default_load={Role.PRIMARY: {"cpu": 2}}))
    engine.update_partition(Partition("db/0", service="db"))
    (move,) = engine.place().to_dict()["moves"]
    assert (move["kind"], move["role"], move["phase"], move["reason"]) == (
        "add",
        "primary",
        "placement",
        "a replica is missing",
    )
    assert engine.violations() == ()


def test_a_violation_is_an_object_of_json() -> None:
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]))
    engine.update_node(Node("n0", capacities={"cpu": 8}))
    engine.update_service(Service("web", stateful=False, default_load={"instance": {"cpu": 9}}))
    engine.update_partition(Partition("web/0", service="web", replicas=[Replica("instance", "n0")]))
    (violation,) = engine.violations()
    document = json.loads(json.dumps(violation.to_dict()))
    assert (document["rule"], document["node"], document["text"]) == ("capacity", "n0", str(violation))


@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_a_misspelt_keyword_gets_the_nearest_name(kind: type[Any]) -> None:
    for field in attrs.fields(kind):
        if field.init and len(field.name) > 4:
            with pytest.raises(UnknownNameError, match=f"{kind.__name__}: unknown field .* mean .*{field.name}"):
                kind(**REQUIRED.get(kind, {"name": "a"}), **{f"{field.name}x": 1})


@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_documents_with_unknown_or_missing_fields_are_refused_by_name(kind: type[Described]) -> None:
    document = kind(**REQUIRED.get(kind, {"name": "a"})).to_dict()
    with pytest.raises(InvalidValueError, match="colour"):
        kind.from_dict({**document, "colour": 1})
    required = next(iter(REQUIRED.get(kind, {"name": "a"})))
    with pytest.raises(InvalidValueError, match=required):
        kind.from_dict({key: value for key, value in document.items() if key != required})
    schema = SCHEMAS[kind]
    assert schema.is_valid(document)
    assert not schema.is_valid({**document, "colour": 1})


@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_a_schema_tells_what_each_field_is(kind: type[Described]) -> None:
    properties = kind.json_schema()["properties"]
    told = [name for name, schema in properties.items() if "description" in schema]
    assert len(told) >= len(properties) - 1
