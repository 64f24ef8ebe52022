"""Checks the expectations of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from tests.service_fabric.adapter import Player
from tests.service_fabric.matching import action_match
from tests.service_fabric.scenario import Step

COUNTS: Mapping[str, Callable[[Player], int]] = {
    "count": lambda player: len(player.texts()),
    "moved_partitions": lambda player: player.actions.partitions,
    "raw_action_count": lambda player: player.actions.raw_count,
    "updates_from_plb": lambda player: player.updates_from_plb,
    "service_domains": lambda player: len(player.service_domains()),
}
"""The countable quantities, by their names in expectations and expressions."""


@attrs.frozen
class Failure:
    """An expectation that does not hold, or a step with an error."""

    line: int | None
    """That of the expectation in the original test; None for a step that raised."""
    expected: str
    actual: str
    actions: tuple[str, ...] = ()
    traceback: str = attrs.field(default="", repr=False)


def verdict_of(expectation: Step, player: Player) -> Failure | None:
    texts = player.texts()
    if action_match().check(expectation, texts, lambda query: _answer(query, player)):
        return None
    return Failure(expectation["line"], describe(expectation), _actual(expectation, player), texts)


def describe(expectation: Step) -> str:
    match expectation["type"]:
        case "count_if":
            requested = expectation.get("pattern", expectation.get("pred"))
            return f"count_if {requested!r} {expectation['cmp']} {expectation['value']}"
        case "expr":
            return describe_expression(expectation["expr"])
        case "action":
            metric = f" of metric {expectation['metric']}" if "metric" in expectation else ""
            return f"action{metric} {expectation['value']}"
        case "node_load":
            requested = f"in {expectation['value_in']}" if "value_in" in expectation else f"== {expectation['value']}"
            return f"node_load {expectation['metric']} of node {expectation['node']} {requested}"
        case "load_value_is":
            kind = "effective load" if expectation["effective"] else "load"
            replica = f"{expectation['role']} of {expectation['id']} on {expectation['node']}"
            return f"{kind} of {expectation['metric']} of {replica} == {expectation['load']} is {expectation['value']}"
        case "in_build_count":
            domain = f" in the domain of {expectation['metric']}" if "metric" in expectation else ""
            return f"in_build_count of node {expectation['node']}{domain} {expectation['cmp']} {expectation['value']}"
        case kind:
            return f"{kind} {expectation['cmp']} {expectation['value']}"


def describe_expression(tree: Any) -> str:
    if not isinstance(tree, Mapping):
        return str(tree)
    if "fn" in tree:
        return f"count_if {_described_predicate(tree['pred'])!r}" if tree["fn"] == "count_if" else tree["fn"]
    parts = [describe_expression(part) for part in tree["a"]]
    operator = tree["op"]
    return f"({f' {operator} '.join(parts)})" if len(parts) > 1 else f"{operator} {parts[0]}"


def _described_predicate(predicate: Mapping[str, Any]) -> Any:
    return predicate.get("match", predicate)


def last_actions(player: Player, metric: str | None = None) -> tuple[str, ...]:
    """Return the last action of each service domain, or of the domain that has a metric."""
    domains = player.service_domains()
    return tuple(domain.last_action for domain in domains if metric is None or metric in domain.metrics)


def _answer(query: Mapping[str, Any], player: Player) -> Any:
    """Evaluate a function of an expression, or another type of expectation, for the reference matcher."""
    if "fn" in query:
        return _count(query["fn"], player)
    match query["type"]:
        case "node_load":
            load = player.node_load(query["node"], query["metric"])
            return load in query.get("value_in", [query.get("value")])
        case "action":
            return query["value"] in last_actions(player, query.get("metric"))
        case "load_value_is":
            return (player.replica_load(query) == query["load"]) is query["value"]
        case _:
            return action_match().CMP[query["cmp"]](_value(query, player), query["value"])


def _value(query: Mapping[str, Any], player: Player) -> Any:
    """Return what an expectation compares with its value."""
    match query["type"]:
        case "in_build_count":
            return player.in_build_count(query["node"], query.get("metric"))
        case "total_cluster_capacity":
            return player.total_capacity(query["metric"])
        case "update_error":
            return player.update_error
        case kind:
            return _count(kind, player)


def _count(name: str, player: Player) -> int:
    if name not in COUNTS:
        raise NotImplementedError(f"expectation {name!r}: not supported, as it is not described")
    return COUNTS[name](player)


def _actual(expectation: Step, player: Player) -> str:
    match expectation["type"]:
        case "count_if":
            return str(_matching(expectation, player.texts()))
        case "action":
            return ", ".join(last_actions(player, expectation.get("metric"))) or "no service domain"
        case "expr":
            return ", ".join(_leaves(expectation["expr"], player))
        case "node_load":
            return f"{player.node_load(expectation['node'], expectation['metric']):g}"
        case "load_value_is":
            return f"{player.replica_load(expectation):g}"
        case _:
            return str(_value(expectation, player))


def _matching(counted: Mapping[str, Any], texts: Iterable[str]) -> int:
    predicate = counted.get("pred") or {"match": counted["pattern"]}
    return sum(action_match().pred_match(predicate, text) for text in texts)


def _leaves(tree: Any, player: Player) -> list[str]:
    """Return the values of the functions in an expression, in order."""
    if not isinstance(tree, Mapping):
        return []
    if "fn" in tree:
        value = action_match().leaf(tree, player.texts(), lambda query: _answer(query, player))
        return [f"{describe_expression(tree)} = {value}"]
    return [leaf for part in tree["a"] for leaf in _leaves(part, player)]
