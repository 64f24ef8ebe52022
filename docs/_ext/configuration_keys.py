"""Keys of scenario and learning files as Markdown, from the classes that read them."""

from __future__ import annotations

import math
import types
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
from docstrings import parameters, summary

from cluster.learning.config import JOB_KINDS, EvaluationSection
from cluster.learning.episode import Dimensions, Penalties
from cluster.scenario.cluster_sections import Crash, Flapping, NodeGroup, Outage
from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import METRIC_FIELDS, SECTIONS
from cluster.scenario.sections import Range
from cluster.scenario.workload_sections import ApplicationsSection, Growth, Scaling
from plb import Metric
from plb.learning.settings import TrainingSettings

WORDS = {float: "number", int: "whole number", str: "text", bool: "`true` or `false`"}
LISTED: Mapping[str, tuple[tuple[str, type], ...]] = {
    "cluster": (("groups", NodeGroup),),
    "workload": (("growth", Growth),),
    "faults": (("crashes", Crash), ("outages", Outage), ("flapping", Flapping)),
}
"""Fields of sections that are lists of tables, with what these tables are."""
OF_METRICS = "Of a metric, for all policies; `[policies.NAME.metrics.METRIC]` has the same keys for one of them."


def scenario_keys() -> str:
    """Return the sections of a scenario file."""
    plain = [field for field in attrs.fields(Scenario) if field.name in ("name", "extensions")]
    metric = [field for field in attrs.fields(Metric) if field.name in METRIC_FIELDS]
    parts = [f"## Outside of sections\n\n{table(Scenario, plain)}"]
    parts += [text for name, kind in SECTIONS.items() for text in _section(name, kind)]
    parts.append(f"## [applications.NAME]\n\n{summary(ApplicationsSection)}\n\n{table(ApplicationsSection)}")
    parts.append(f"## [scaling.NAME]\n\n{summary(Scaling)}\n\n{table(Scaling)}")
    return "\n\n".join([*parts, f"## [metrics.NAME]\n\n{OF_METRICS}\n\n{table(Metric, metric)}"])


def learning_keys() -> str:
    """Return the sections of a learning file."""
    kinds: dict[type, list[str]] = {}
    for name, jobs in JOB_KINDS.items():
        kinds.setdefault(jobs, []).append(f'`"{name}"`')
    jobs = [(f"[jobs], kind = {' or '.join(names)}", kind) for kind, names in kinds.items()]
    others = [("[penalties]", Penalties), ("[training]", TrainingSettings), ("[evaluation]", EvaluationSection)]
    sections: list[tuple[str, type]] = [("[machines]", Dimensions), *jobs, *others]
    return "\n\n".join(f"## {title}\n\n{summary(kind)}\n\n{table(kind)}" for title, kind in sections)


def table(kind: type[Any], fields: Sequence[attrs.Attribute[Any]] | None = None) -> str:
    """Return fields of an attrs class, all of them by default, as a table: key, allowed values, default, meaning."""
    rows = ["| key | value | default | meaning |", "|---|---|---|---|"]
    rows += [f"| `{name}` | {kind} | {default} | {meaning} |" for name, kind, default, meaning in rows_of(kind, fields)]
    return "\n".join(rows)


def rows_of(
    kind: type[Any], fields: Sequence[attrs.Attribute[Any]] | None = None
) -> Iterator[tuple[str, str, str, str]]:
    """Yield key, allowed values, default and meaning of fields of an attrs class."""
    meanings, hints = parameters(kind), get_type_hints(kind)
    for field in attrs.fields(kind) if fields is None else fields:
        if field.init:
            allowed = values(hints[field.name], field.metadata.get("range"))
            yield field.name, _cell(allowed), _cell(default_of(field)), _cell(meanings.get(field.name, ""))


def values(hint: Any, allowed: Range | None) -> str:
    """Return in words which values a field takes."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return ", ".join(f'`"{value}"`' for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(values(one, allowed) for one in arguments if one is not type(None))
    if origin is tuple:
        several = arguments[-1] is Ellipsis
        return f"{'list' if several else 'low and high end'}; each {values(arguments[0], allowed)}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return ", ".join(f'`"{member.value}"`' for member in hint)
    if attrs.has(hint) or origin is not None or hint is dict:
        return "table"
    return WORDS.get(hint, "") + _range(allowed)


def default_of(field: Any) -> str:
    """Return the default of a field as TOML would have it."""
    if field.default is attrs.NOTHING:
        return "must be given"
    default = field.default.factory() if isinstance(field.default, attrs.Factory) else field.default
    return "" if default is None else f"`{as_toml(default)}`"


def as_toml(value: Any) -> str:
    """Return a default as it would stand in a file."""
    value = getattr(value, "value", value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(as_toml, value))}]"
    return "{}" if isinstance(value, Mapping) and not value else str(value)


def _section(name: str, kind: type[Any]) -> Iterator[str]:
    yield f"## [{name}]\n\n{summary(kind)}\n\n{table(kind)}"
    for field, entry in LISTED.get(name, ()):
        yield f"### Entries of {field}\n\n{summary(entry)}\n\n{table(entry)}"


def _range(allowed: Range | None) -> str:
    if allowed is None:
        return ""
    if math.isinf(allowed.high):
        if allowed.low == 0 and allowed.low_open:
            return ", more than 0"
        return f", at least {allowed.low:g}"
    return f", {'more than ' if allowed.low_open else 'from '}{allowed.low:g} up to {allowed.high:,g}"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("``", "`")
