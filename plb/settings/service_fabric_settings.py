"""Translates settings under their original names to fields of `PlbConfig` and `Metric`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from plb.errors import UnknownNameError
from plb.model import Metric
from plb.model.metric import MetricSettings
from plb.model.setting_fields import Setting, settings_of
from plb.settings.ignored import IGNORED
from plb.validation import check_items, check_mapping, plain_scalar

logger = logging.getLogger("plb")


def by_original_name(kind: Any) -> dict[str, tuple[str, Setting]]:
    """Return field and setting of an attrs class by the name of Service Fabric."""
    return {setting.name: (field, setting) for field, setting in settings_of(kind).items() if setting.name}


def original_defaults(kind: type[Any]) -> dict[str, Any]:
    """Return the defaults of Service Fabric, translated, by field."""
    return {field: setting.translate(setting.original) for field, setting in by_original_name(kind).values()}


def translated(mapping: Mapping[str, Any], kind: type[Any]) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """Return fields of `kind`, translated from settings by original name, and the maps by metric.

    Names without an effect in this engine are ignored; unknown names raise `UnknownNameError`.
    """
    scalars, maps = by_original_name(kind), by_original_name(MetricSettings)
    fields: dict[str, Any] = {}
    by_metric: dict[str, Mapping[str, Any]] = {}
    for name, value in check_mapping("PlbConfig", "settings", mapping, "a mapping of names to values").items():
        if name in scalars:
            field, setting = scalars[name]
            fields[field] = setting.translate(plain_scalar(value))
        elif name in maps:
            by_metric[name] = value
        elif name not in IGNORED:
            raise UnknownNameError("Service Fabric setting", name, sorted({*scalars, *maps, *IGNORED}), "PlbConfig")
    passed_over = sorted(IGNORED & set(mapping))
    if passed_over:
        logger.info("settings without an effect in this engine: %s", ", ".join(passed_over))
    return fields, by_metric


def with_maps(metrics: Iterable[Metric], by_metric: Mapping[str, Mapping[str, Any]]) -> tuple[Metric, ...]:
    """Return metrics with their entries of the maps of Service Fabric; an entry for another metric raises an error."""
    changed = check_items("PlbConfig", "metrics", metrics, Metric)
    maps = by_original_name(MetricSettings)
    changes: dict[str, dict[str, Any]] = {metric.name: {} for metric in changed}
    for name, entries in by_metric.items():
        field, setting = maps[name]
        for key, value in check_mapping("PlbConfig", name, entries, "a mapping of metrics to values").items():
            if key not in changes:
                raise UnknownNameError("metric", key, changes, f"PlbConfig: {name}")
            changes[key][field] = setting.translate(plain_scalar(value))
    return tuple(attrs.evolve(metric, **changes[metric.name]) for metric in changed)
