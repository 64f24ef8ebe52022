"""Settings that choose extensions: energy terms, constraints and placement policies; and neighbourhoods.

`plb.registry.check_extensions` resolves the names when an engine is created. Here only the shapes are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from plb.errors import ConflictError, InvalidValueError
from plb.model.setting_fields import Checked, Setting, declared
from plb.validation import LARGEST_WEIGHT, ReadOnlyMapping, check_mapping, check_number, check_text, plain_scalar

ANNEALING = "annealing"
"""Name under which settings choose the search of the engine instead of a policy."""


NEIGHBOURHOODS = ("ejection_chain", "partition", "node", "service")
"""Names of the built-in larger neighbourhoods (`plb.search.neighbourhoods`)."""


def _weights(item: str, field: str, value: Any) -> Mapping[str, float]:
    given = check_mapping(item, field, value, "a mapping of names of energy terms to weights")
    return ReadOnlyMapping(
        {
            check_text(item, field, name): check_number(item, f"{field}[{name}]", weight, high=LARGEST_WEIGHT)
            for name, weight in given.items()
        }
    )


def _names(item: str, field: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise InvalidValueError(item, field, value, "a list of names")
    if len(set(value)) < len(value):
        raise ConflictError(f"{item}: {field} has a name twice: {list(value)}")
    return tuple(check_text(item, field, name) for name in value)


def _policy(item: str, field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidValueError(item, field, value, "the name of a placement policy")
    return check_text(item, field, value)


def _options(item: str, field: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise InvalidValueError(item, field, value, "a mapping of names of options to values")
    return ReadOnlyMapping({check_text(item, field, name): _option(option) for name, option in value.items()})


def _option(value: Any) -> Any:
    """Return an option with scalars of Python in place of those of NumPy, also in lists and tuples."""
    if type(value) in (list, tuple):
        return type(value)(map(_option, value))
    return plain_scalar(value) if isinstance(value, np.generic) else value


@attrs.frozen(kw_only=True, slots=False)
class ExtensionSettings(Checked):
    """The registered terms, constraints, neighbourhoods and policies (`plb.registry`) that an engine uses.

    Parameters
    ----------
    extension_terms : weight by name, default {}
        Extension terms and their weights. Each adds weight·term to the energy in both forms.
    extension_constraints : names, default ()
        Extension constraints. They are hard.
    larger_neighbourhoods : names, default ('ejection_chain', 'partition', 'node', 'service')
        The larger neighbourhoods that balancing searches, with a `larger_neighbourhood_share`; other names than these
        are of extensions.
    policy : name, default annealing
        Placement policy that places and repairs one replica at a time, without balancing. annealing: the search of the
        engine.
    policy_options : value by name, default {}
        Options of the policy that differ from those of the registered one. The parameters of its class have names and
        ranges.
    """

    extension_terms: Mapping[str, float] = declared({}, Setting("", None, "weight by name", _weights))
    extension_constraints: tuple[str, ...] = declared((), Setting("", None, "names", _names))
    larger_neighbourhoods: tuple[str, ...] = declared(NEIGHBOURHOODS, Setting("", None, "names", _names))
    policy: str = declared(ANNEALING, Setting("", None, "name", _policy))
    policy_options: Mapping[str, Any] = declared({}, Setting("", None, "value by name", _options))
