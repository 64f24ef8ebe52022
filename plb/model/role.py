"""The role of a replica."""

from __future__ import annotations

from enum import IntEnum

from plb.errors import InvalidValueError
from plb.validation import check_whole


class Role(IntEnum):
    """The role of a replica: a stateful partition has a primary and secondaries, a stateless one instances."""

    PRIMARY = 0
    SECONDARY = 1
    INSTANCE = 2


ROLES = tuple(Role)
"""The roles by their values."""
PRIMARY, SECONDARY, INSTANCE = (int(role) for role in Role)
"""The roles as plain numbers, for comparisons with arrays: with a member, NumPy is slow and loses Ctrl-C."""
ROLE_NAMES = {role.name.lower(): role for role in Role}
"""The roles by their names in small letters."""


def check_role(item: str, field: str, value: object) -> Role:
    """Return the `Role` that `value` is, or is the number or the name of; raise `InvalidValueError` for any other."""
    if isinstance(value, Role):
        return value
    if isinstance(value, str) and value in ROLE_NAMES:
        return ROLE_NAMES[value]
    try:
        return Role(check_whole(item, field, value))  # type: ignore[arg-type]
    except ValueError:
        raise InvalidValueError(item, field, value, f"one of {', '.join(ROLE_NAMES)}") from None
