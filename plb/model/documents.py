"""Descriptions as data: objects of JSON, their JSON schemas, and names near a misspelt field.

A document has a key for each field. Enumerations are their values, roles their names in small letters.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, wraps
from textwrap import dedent
from types import NoneType, UnionType
from typing import Any, Literal, Self, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import attrs
import numpy as np

from plb.errors import InvalidValueError, UnknownNameError
from plb.model.role import ROLE_NAMES, Role

Kind = TypeVar("Kind")
Document = dict[str, Any]
"""An object of JSON."""
SCHEMA_VERSION = "https://json-schema.org/draft/2020-12/schema"
Bounds = Callable[[Any], Document]
"""Returns the limits of the value of an attrs field, as keywords of a JSON schema."""


def naming_fields(kind: type[Kind]) -> type[Kind]:
    """Make an attrs class raise `UnknownNameError`, with the nearest names, for a keyword that is no field of it."""
    make = kind.__init__

    @wraps(make)
    def make_or_name(self: Any, *values: Any, **fields: Any) -> None:
        try:
            make(self, *values, **fields)
        except TypeError:
            names = fields_of(kind)
            for field in fields:
                if field not in names:
                    raise UnknownNameError("field", field, names, context=kind.__name__) from None
            raise

    kind.__init__ = make_or_name  # type: ignore[method-assign]
    return kind


class Described:
    """Base of the attrs classes that describe a cluster, its settings and its plans, with their form as data."""

    __slots__ = ()

    def to_dict(self) -> Document:
        """Return the values of all fields as an object of JSON."""
        document: Document = plain(self)
        return document

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as text in JSON: in one line, or indented by so many spaces."""
        return json.dumps(self.to_dict(), indent=indent)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the object that `to_dict` describes; fields with a default may be missing.

        Raises
        ------
        InvalidValueError
            If a field is unknown or missing, or its value is out of range.
        """
        return read(cls, document, cls.__name__)

    @classmethod
    def json_schema(cls) -> Document:
        """Return the JSON schema of `to_dict`, for editors and for programs in other languages."""
        return {"$schema": SCHEMA_VERSION, "title": cls.__name__, **schema_of(cls)}


def fields_of(kind: type) -> Mapping[str, Any]:
    """Return the attributes of a class that a document has, by name."""
    return {name: field for name, field in attrs.fields_dict(kind).items() if field.init}


@cache
def _nested(kind: Any) -> Mapping[str, type]:
    """Return the attrs classes of the members of those fields of a class that are tuples of objects, by field."""
    members = {name: get_args(hint) for name, hint in get_type_hints(kind).items() if get_origin(hint) is tuple}
    return {name: types[0] for name, types in members.items() if types and attrs.has(types[0])}


def plain(value: Any) -> Any:
    """Return a value as values of JSON: roles and enumerations by name, records as objects, infinity as None."""
    if isinstance(value, Role):
        return value.name.lower()
    if isinstance(value, Enum):
        return value.value
    if attrs.has(type(value)):
        return {name: plain(getattr(value, name)) for name in fields_of(type(value))}
    if isinstance(value, Mapping):
        return {plain(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value))
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value if value != float("inf") else None


def read(kind: type[Kind], document: Any, item: str) -> Kind:
    """Return the object of the class `kind` that a document describes; `item` names it in errors.

    The class checks the values. A document that is no object, lacks a field or has an unknown one raises
    `InvalidValueError`.
    """
    fields, hashable_kind = fields_of(kind), cast(Any, kind)
    values = dict(check_object(document, item, fields))
    for name, field in fields.items():
        if field.default is attrs.NOTHING and name not in values:
            raise InvalidValueError(item, name, None, "a value, as it has no default")
    for name, member in _nested(hashable_kind).items():
        if name in values:
            values[name] = [
                read(member, value, f"{item}: {name}[{index}]")
                for index, value in enumerate(check_list(values[name], item, name))
            ]
    return kind(**values)


def check_object(document: Any, item: str, fields: Iterable[str]) -> Mapping[str, Any]:
    """Return a document that is an object with no other fields than these; raise `InvalidValueError` otherwise."""
    if not isinstance(document, dict):
        raise InvalidValueError(item, "document", document, "an object")
    allowed = list(fields)
    for name in document:
        if name not in allowed:
            raise InvalidValueError(item, str(name), document[name], f"no such field, but {', '.join(allowed)}")
    return document


def check_list(value: Any, item: str, field: str) -> list[Any]:
    """Return a value that is a list; raise `InvalidValueError` otherwise."""
    if not isinstance(value, list):
        raise InvalidValueError(item, field, value, "a list")
    return value


TYPES: Mapping[Any, str] = {NoneType: "null", bool: "boolean", int: "integer", float: "number", str: "string"}
"""The names in JSON schemas of the types of single values."""


def schema_of(hint: Any, bounds: Bounds = lambda _: {}) -> Document:
    """Return the JSON schema of the documents of a type, an attrs class or a type hint.

    `bounds`: the limits of the fields of attrs classes.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in TYPES:
        return {"type": TYPES[hint]}
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(argument, bounds) for argument in arguments]}
    if origin is Literal:
        return {"enum": [*arguments]}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [*ROLE_NAMES] if hint is Role else [member.value for member in hint]}
    if isinstance(hint, type) and attrs.has(hint):
        return _schema_of_fields(hint, bounds)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        schema: Document = {"type": "object", "additionalProperties": schema_of(arguments[1], bounds)}
        return {**schema, "propertyNames": {"enum": [*ROLE_NAMES]}} if arguments[0] is Role else schema
    if origin is tuple and Ellipsis not in arguments:
        return {"type": "array", "prefixItems": [schema_of(argument, bounds) for argument in arguments]}
    if isinstance(origin, type) and issubclass(origin, Sequence | frozenset | set):
        return {"type": "array", "items": schema_of(arguments[0], bounds)}
    return {}


def _schema_of_fields(kind: type, bounds: Bounds) -> Document:
    """Return the JSON schema of the documents of an attrs class."""
    hints, texts, fields = get_type_hints(kind), texts_of_fields(kind), fields_of(kind)
    properties = {}
    for name, field in fields.items():
        schema = {**schema_of(hints[name], bounds), **bounds(field)}
        if name in texts:
            schema["description"] = texts[name]
        if field.default is not attrs.NOTHING and not isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
            schema["default"] = plain(field.default)
        properties[name] = schema
    return object_schema(properties, [name for name, field in fields.items() if field.default is attrs.NOTHING])


def object_schema(properties: Document, required: Iterable[str] | None = None) -> Document:
    """Return the JSON schema of an object with these properties and no other; None: all are required."""
    names = [*(properties if required is None else required)]
    schema: Document = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": names} if names else schema


def texts_of_fields(kind: type) -> Mapping[str, str]:
    """Return the docstrings below the fields of a class and its bases, by field; none without source code."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        try:
            (tree,) = ast.parse(dedent(inspect.getsource(base))).body
        except (OSError, TypeError):
            continue
        if isinstance(tree, ast.ClassDef):
            for field, text in zip(tree.body, tree.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    match text:
                        case ast.Expr(value=ast.Constant(value=str(words))):
                            texts[field.target.id] = " ".join(words.split())
    return texts
