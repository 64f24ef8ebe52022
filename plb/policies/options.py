"""Options of placement policies: what settings change about one that is registered."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import attrs

from plb.errors import InvalidValueError, PlbError, UnknownNameError
from plb.extensions.policies import PlacementPolicy


def with_options(name: str, policy: PlacementPolicy | None, options: Mapping[str, Any]) -> PlacementPolicy | None:
    """Return a copy of a policy with other values of some of its options.

    Options are the fields of a policy that is an attrs class, as its constructor takes them, the name aside; the
    constructor checks the values. Other policies have none.

    Parameters
    ----------
    name
        Name of the setting of the policy.
    policy
        The policy, or None for the search of the engine, which has no options.
    options
        Values by the name of the option.

    Raises
    ------
    UnknownNameError
        If the policy has no option of a name.
    InvalidValueError
        If it has no options at all, or its constructor refuses a value.
    """
    if not options:
        return deepcopy(policy)
    known = _options_of(policy)
    if not known:
        raise InvalidValueError("PlbConfig", "policy_options", dict(options), f"{{}}, as {name} has no options")
    for option in options:
        if option not in known:
            raise UnknownNameError("option", option, known, f"policy {name}")
    try:
        return attrs.evolve(deepcopy(policy), **deepcopy(dict(options)))  # type: ignore[misc]
    except PlbError:
        raise
    except (TypeError, ValueError) as error:
        allowed = f"values that policy {name} takes ({error})"
        raise InvalidValueError("PlbConfig", "policy_options", dict(options), allowed) from error


def path_options(policy: PlacementPolicy | None) -> list[str]:
    """Return the names of the options of a policy that are files."""
    return [str(field.alias) for field in _fields_of(policy) if field.metadata.get("path")]


def _options_of(policy: PlacementPolicy | None) -> list[str]:
    """Return the names of the options of a policy."""
    return [str(field.alias) for field in _fields_of(policy) if field.alias != "name"]


def _fields_of(policy: PlacementPolicy | None) -> list[attrs.Attribute[Any]]:
    """Return what the constructor of a policy that is an attrs class takes; of other policies, nothing."""
    kind: type[Any] = type(policy)
    return [field for field in attrs.fields(kind) if field.init] if attrs.has(kind) else []
