"""Snapshots of a planner and its cluster, and planners that continue from them.

A snapshot holds what hosts have described and what is remembered from call to call. What follows from these is made
again: tables of nodes and services, sums, work lists and the sampled demand of replicas.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from plb.engine_extensions import EngineExtensions, GivenExtensions
from plb.errors import ConflictError, InvalidValueError, PlbError
from plb.extensions.failures import POLICY, errors_of
from plb.extensions.policies import remembers
from plb.model import Metric
from plb.model.plain_values import fields_of, items_of, option_of, plain, plain_option, table_of
from plb.model.snapshot import ITEM, Part, Snapshot, joined
from plb.planning.array_inputs import ArrayInputs
from plb.planning.live_parts import last_update_of, may_follow, part_of_live
from plb.planning.planner import Planner
from plb.planning.scheduler import DomainRecord
from plb.planning.service_tables import build_tables
from plb.risk.demand_history import DemandHistory
from plb.settings.config import PlbConfig
from plb.state.cluster_parts import cluster_of, part_of_cluster
from plb.state.topology import Topology, build_topology, config_of

WRITTEN = ("seed", "demand_forecast", "scheduler", "batch", "now", "searches", "_fixed_point", "extensions", "_live")
"""Fields of `Planner` of which a snapshot holds something."""
DERIVED = ("state", "_history", "_topology", "_tables", "domains")
"""The others: the cluster has its own part, and hosts give the history again."""
OPTIONS = "policy_options"
MEMORY = "policy"


def snapshot_of(planner: Planner) -> Snapshot:
    """Return everything on which the plans of a planner depend, apart from the history; nothing of it changes.

    Raises
    ------
    ConflictError
        If the placement policy keeps something that it does not give.
    InvalidValueError
        If an option or a value of the policy has no form in JSON.
    """
    state, history = planner.state, planner._history
    configs = [state.config]
    values = {
        "seed": planner.seed,
        "sampling_seed": getattr(planner.demand_forecast, "seed", planner.seed),
        "now": planner.now,
        "searches": planner.searches,
        "batch": planner.batch.values(),
        "scheduler": planner.scheduler.values(),
        "history": None if history is None else history.digest,
    }
    parts = {"state": part_of_cluster(state), MEMORY: _memory_of(planner.extensions)}
    if planner._fixed_point.remembers_any and (topology := _topology_to_follow(planner)) is not None:
        parts["fixed_points"] = planner._fixed_point.part(configs)
        parts["live"] = part_of_live(planner._live.last_update(), planner.state, planner.demand_forecast)
        values["live_config"] = _place_of(config_of(topology), configs)
    return Snapshot.of(joined({**values, "settings": [_settings_of(config) for config in configs]}, parts))


def _topology_to_follow(planner: Planner) -> Topology | None:
    """Return the topology of the arrays if the next update may follow changes to them; else all ends are forgotten."""
    topology, tables = planner._topology, planner._tables.get(None)
    if topology is None or tables is None:
        return None
    given = ArrayInputs.of(topology, tables, planner.demand_forecast)
    return topology if may_follow(planner._live, planner.state, given) else None


def _place_of(config: PlbConfig, configs: list[PlbConfig]) -> int:
    """Return the position of settings among those of a snapshot, to which they are added."""
    if config not in configs:
        configs.append(config)
    return configs.index(config)


def _settings_of(config: PlbConfig) -> dict[str, Any]:
    """Return settings as values of JSON."""
    values = {
        field: plain(getattr(config, field)) for field in fields_of(PlbConfig) if field not in (OPTIONS, "metrics")
    }
    options = {name: plain_option(f"{OPTIONS}[{name}]", value) for name, value in config.policy_options.items()}
    return {**values, OPTIONS: options, "metrics": table_of(Metric, config.metrics)}


def _config_of(values: Mapping[str, Any], name: str) -> PlbConfig:
    """Return the settings of these values."""
    part = Part(values, name=name)
    fields = fields_of(PlbConfig)
    if sorted(values) != sorted(fields):
        part.refuse("fields", sorted(values), f"the settings of this program: {', '.join(sorted(fields))}")
    options = {option: option_of(value) for option, value in part.value(OPTIONS, dict).items()}
    metrics = items_of(Metric, part.under("metrics"))
    return PlbConfig(**{**values, OPTIONS: options, "metrics": metrics})


def _memory_of(extensions: EngineExtensions) -> Part:
    """Return what the policy of an engine keeps."""
    policy = extensions.policy
    if policy is None:
        return Part()
    if not remembers(policy):
        new = _attributes_of(extensions.new_policy)
        changed = [name for name, value in _attributes_of(policy).items() if not _is_same(value, new.get(name))]
        if changed:
            raise ConflictError(
                f"policy {policy.name}: has kept {', '.join(sorted(changed))}, which a snapshot cannot hold; give it "
                "the methods memory and recall (plb.extensions.policies.RememberingPolicy)"
            )
        return Part()
    with errors_of(POLICY, policy.name, "memory"):
        memory = policy.memory()
    arrays = {name: value.copy() for name, value in memory.items() if isinstance(value, np.ndarray)}
    values = {name: value for name, value in memory.items() if name not in arrays}
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise InvalidValueError(f"policy {policy.name}", f"memory[{name}]", array.dtype.name, "numbers or texts")
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        allowed = "arrays and values of JSON by name"
        raise InvalidValueError(f"policy {policy.name}", "memory", values, allowed) from None
    return Part(values, arrays)


def _attributes_of(policy: object) -> dict[str, Any]:
    """Return the attributes of an object by name."""
    slots = [name for kind in type(policy).__mro__ for name in getattr(kind, "__slots__", ())]
    found = {name: getattr(policy, name) for name in slots if name != "__weakref__" and hasattr(policy, name)}
    return found | getattr(policy, "__dict__", {})


def _is_same(one: object, other: object) -> bool:
    """Return whether two attributes are equal; objects without an equality are not."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and np.array_equal(one, other)  # type: ignore[arg-type]
    try:
        return one is other or bool(one == other)
    except (TypeError, ValueError):
        return False


def planner_of(snapshot: Snapshot, history: DemandHistory | None, given: GivenExtensions) -> Planner:
    """Return a planner that continues from a snapshot; `given` are the extensions of the host.

    Raises
    ------
    PlbError
        If the snapshot is not of this history, chooses an extension that is neither given nor registered, or does not
        hold what a snapshot consists of.
    """
    part = snapshot.content()
    _check_history(part, history)
    try:
        configs = [_config_of(values, f"settings[{at}]") for at, values in enumerate(part.value("settings", list))]
        return _planner_of(part, configs, history, EngineExtensions.resolve(configs[0], given))
    except PlbError:
        raise
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InvalidValueError(ITEM, "content", str(error), "what PlacementAndLoadBalancing.snapshot wrote") from error


def _check_history(part: Part, history: DemandHistory | None) -> None:
    """Refuse another history than that of the snapshot."""
    known = part.values.get("history")
    given = None if history is None else history.digest
    if known != given:
        allowed = "None, as the engine had no history" if known is None else f"the history with the digest {known}"
        raise InvalidValueError("from_snapshot", "history", given if given is None else f"digest {given}", allowed)


def _planner_of(
    part: Part, configs: Sequence[PlbConfig], history: DemandHistory | None, extensions: EngineExtensions
) -> Planner:
    state = cluster_of(part.under("state"), extensions.config)
    planner = Planner(state, seed=part.count("sampling_seed"), history=history, extensions=extensions)
    planner.seed, planner.searches = part.count("seed"), part.count("searches")
    planner.now = part.value("now", float)
    planner.batch = DomainRecord.of_part(part.under("batch"))
    planner.scheduler.take(part.under("scheduler"))
    policy = extensions.policy
    if policy is not None and remembers(policy):
        memory = part.under(MEMORY)
        with errors_of(POLICY, policy.name, "recall"):
            policy.recall({**memory.values, **{name: array.copy() for name, array in memory.arrays.items()}})
    if "live" in part.values:
        _resume(planner, part, configs)
    return planner


def _resume(planner: Planner, part: Part, configs: Sequence[PlbConfig]) -> None:
    """Make the arrays of the last update, and remember where searches have ended."""
    described = copy(planner.state)
    described.config = configs[part.count("live_config")]
    topology = build_topology(described)
    tables = build_tables(described, topology, described.living_indices())
    planner._topology, planner._tables[None] = topology, tables
    last = last_update_of(part.under("live"), planner.state, topology, tables, planner.demand_forecast)
    planner._live.resume(last)
    planner._fixed_point.take(part.under("fixed_points"), configs)
