"""The OpenAPI document, made from the table of operations and the types that they read and answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cluster.service.events import LONGEST_ID, PARTS
from cluster.service.interfaces.operations import EVENTS, JSON, KEY, PACKED, Answered, Operation
from cluster.service.interfaces.problems import MEDIA_TYPE, HttpProblem
from plb import Metric, Replica, __version__
from plb.model.documents import Document
from plb.model.role import ROLE_NAMES

REFERENCE = "#/components/schemas/{name}"
MODEL = (*PARTS.values(), Metric, Replica)
"""Classes of the model in the document; their objects have no other fields."""
SCHEMES = {name: {"type": "http", "scheme": name} for name in ("bearer", "basic")}


def document(operations: Iterable[Operation]) -> Document:
    """Return the document of some operations."""
    table = [*operations]
    paths: dict[str, Document] = {}
    schemas = _schemas(table)
    for operation in table:
        described = _described(operation, schemas)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    problem = {"description": "Why the request is refused", "content": {MEDIA_TYPE: {"schema": _of(HttpProblem)}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "plb", "version": __version__, "description": "Placement and load balancing of clusters."},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": SCHEMES, "responses": {"problem": problem}},
    }


def _of(kind: Any) -> Document:
    """Return the schema of a type, with references."""
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return dict(schema)


def _schemas(operations: Iterable[Operation]) -> dict[str, Document]:
    """Return the schemas of all types by name."""
    kinds: list[Any] = [HttpProblem, *MODEL]
    for operation in operations:
        kinds += [kind for kind in (operation.body, operation.answer, operation.query) if kind not in (None, bytes)]
    _, schemas = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    for kind in MODEL:
        schemas[kind.__name__]["additionalProperties"] = False
    schemas["Role"] = {"description": schemas["Role"]["description"], "enum": [*ROLE_NAMES]}
    schemas["Service"]["properties"]["default_load"]["propertyNames"] = {"enum": [*ROLE_NAMES]}
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = _words(schema["description"])
    return schemas


def _words(docstring: str | None) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join((docstring or "").strip().partition("\n\n")[0].split())


def _described(operation: Operation, schemas: Mapping[str, Document]) -> Document:
    """Return the description of an operation."""
    role = "everybody" if operation.right is None else f"the role {operation.right.name.lower()}"
    described = {
        "operationId": _identifier(operation),
        "summary": _summary(operation),
        "description": f"For {role}.",
        "security": [] if operation.right is None else [{name: []} for name in SCHEMES],
        "parameters": [*_parameters(operation, schemas)],
        "responses": {str(operation.status): _answer(operation), "default": {"$ref": "#/components/responses/problem"}},
    }
    if operation.has_body:
        content = {media: {"schema": _body(operation, schemas)} for media in (JSON, PACKED[0])}
        is_required = operation.whole is not None or not operation.from_path
        described["requestBody"] = {"required": is_required, "content": content}
    return described


def _identifier(operation: Operation) -> str:
    """Return a unique name of an operation."""
    words = re.findall(r"\w+", operation.path.removeprefix("/v1/"))
    return "_".join([operation.method.lower(), *words])


def _summary(operation: Operation) -> str:
    """Return the docstring of the event or the question of an operation, else of its function."""
    kinds = {"send": operation.body, "read": operation.query}
    return _words(kinds.get(operation.handler.__name__, operation.handler).__doc__)


def _parameters(operation: Operation, schemas: Mapping[str, Document]) -> Iterable[Document]:
    """Return the parameters of an operation: of its path, of its query, and the id of its event."""
    for name in re.findall(r"{(\w+)}", operation.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    query = schemas[operation.query.__name__]
    for name, schema in query["properties"].items():
        if name == "read":
            continue
        yield {"name": name, "in": "query", "required": name in query.get("required", ()), "schema": schema}
    if operation.answer is Answered:
        text = "Id of the event; an event with the id of an earlier one is not applied again"
        schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}
        yield {"name": KEY, "in": "header", "required": False, "description": text, "schema": schema}


def _body(operation: Operation, schemas: Mapping[str, Document]) -> Document:
    """Return the schema of the body of an operation."""
    if operation.whole is not None:
        return _of(PARTS[operation.whole])
    schema = _of(operation.body)
    if schema.get("type") == "array":
        return schema
    whole = schemas[operation.body.__name__]
    left_out = {"type", *operation.from_path}
    properties = {name: part for name, part in whole["properties"].items() if name not in left_out}
    required = [name for name in whole["required"] if name not in left_out]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _answer(operation: Operation) -> Document:
    """Return the description of the answer of an operation."""
    if operation.answer is bytes:
        return {"description": "Text", "content": {"text/plain": {"schema": {"type": "string"}}}}
    if operation.streams:
        text = f"Events; the data of each are {_of(operation.answer)['$ref'].rpartition('/')[2]}"
        return {"description": text, "content": {EVENTS: {"schema": {"type": "string"}}}}
    return {"description": "The answer", "content": {JSON: {"schema": _of(operation.answer)}}}
