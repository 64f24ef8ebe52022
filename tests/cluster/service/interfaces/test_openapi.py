"""The OpenAPI document describes what is served, and no request that it allows, or nearly, ends in a server error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from cluster.service.interfaces.openapi import document
from cluster.service.interfaces.rest import CLUSTER, OPERATIONS
from tests.cluster.service.clients import ITS_PATH, SETTINGS, server
from tests.cluster.service.served import described

DOCUMENT = document(OPERATIONS)
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
EXAMPLES = 40
"""Requests of each mode."""

NAMES = st.sampled_from(["n0", "db", "db/0", "new", "ä/b c"])
"""Names of a node, a service and a partition that exist, and of others."""


def references(value: Any) -> Iterator[str]:
    """Return all references in a part of the document."""
    if isinstance(value, dict):
        yield from (part for key, part in value.items() if key == "$ref")
        value = [*value.values()]
    if isinstance(value, list):
        for part in value:
            yield from references(part)


def test_every_reference_and_every_identifier_has_one_meaning() -> None:
    for reference in references(DOCUMENT):
        part = DOCUMENT
        for name in reference.removeprefix("#/").split("/"):
            part = part[name]
    names = [operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values()]
    assert len(set(names)) == len(names) == len(OPERATIONS)
    for path in DOCUMENT["paths"].values():
        assert all(operation["summary"].endswith(".") for operation in path.values())


def test_objects_of_the_model_have_no_unknown_fields_and_roles_are_names() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for name in ("Node", "Service", "Partition", "Application", "PlbConfig", "Metric", "Replica"):
        assert schemas[name]["additionalProperties"] is False
    assert schemas["Role"]["enum"] == ["primary", "secondary", "instance"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server with the cluster "main"."""
    with server(tmp_path_factory.mktemp("data")) as here:
        assert httpx.put(here.url + ITS_PATH, json={"settings": SETTINGS}).status_code == 200
        events = msgspec.json.encode(described())
        assert "problem" not in httpx.post(f"{here.url}{ITS_PATH}/events", content=events).text
        yield here.url


@pytest.mark.parametrize("mode", GenerationMode)
def test_no_request_ends_in_a_server_error(mode: GenerationMode, url: str) -> None:
    schema = schemathesis.openapi.from_dict(DOCUMENT).exclude(path_regex="/events$", method="GET")
    operations = [operation.ok() for operation in schema.get_all_operations()]

    @seed(54)
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=[*HealthCheck])
    @given(st.data())
    def check(data: st.DataObject) -> None:
        operation = data.draw(st.sampled_from(operations))
        names = {"cluster": "main", "plan": data.draw(st.sampled_from(["p9", "p10"])), "name": data.draw(NAMES)}
        if (operation.method, operation.path) == ("delete", CLUSTER):
            names["cluster"] = "other"  # the cluster of the other requests stays
        fixed = {name: names[name] for name in names if f"{{{name}}}" in operation.path}
        case = data.draw(operation.as_strategy(generation_mode=mode, path_parameters=fixed))
        if "name" in fixed and isinstance(case.body, dict) and mode is GenerationMode.POSITIVE:
            case.body = {**case.body, "name": fixed["name"]}
        case.call_and_validate(base_url=url, checks=CHECKS)

    check()
    assert httpx.get(f"{url}/readyz").status_code == 200
