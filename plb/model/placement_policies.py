"""The placement policies of Service Fabric by name, as placement constraints (docs/constraints/placement.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

import attrs

from plb.errors import InvalidValueError
from plb.validation import (
    check_items,
    check_member,
    check_text,
    with_plain_scalars,
)


class PolicyName(Enum):
    """The names of placement policies in the manifests of Service Fabric."""

    INVALID_DOMAIN = "InvalidDomain"
    """No replica is in the fault domain."""
    REQUIRED_DOMAIN = "RequiredDomain"
    """All replicas are in the fault domain."""
    PREFERRED_PRIMARY_DOMAIN = "PreferredPrimaryDomain"
    """The primary is in the fault domain."""
    REQUIRED_DOMAIN_DISTRIBUTION = "RequiredDomainDistribution"
    """A fault domain of the top level has at most one replica."""
    NON_PARTIALLY_PLACED = "NonPartiallyPlace"
    """All replicas of a partition are placed, or none."""


_OF_DOMAIN: Mapping[PolicyName, str] = {
    PolicyName.INVALID_DOMAIN: "FaultDomain !^ {}",
    PolicyName.REQUIRED_DOMAIN: "FaultDomain ^ {}",
    PolicyName.PREFERRED_PRIMARY_DOMAIN: "FaultDomain ^P {}",
}
_WITHOUT_DOMAIN: Mapping[PolicyName, str] = {
    PolicyName.REQUIRED_DOMAIN_DISTRIBUTION: "FDPolicy ~ Nonpacking",
    PolicyName.NON_PARTIALLY_PLACED: "PlacePolicy ~ NonPartially",
}


@attrs.frozen(field_transformer=with_plain_scalars)
class ServicePlacementPolicy:
    """A placement policy of a service.

    Parameters
    ----------
    name
        A `PolicyName`, or its value.
    domain
        The fault domain of the first three policies, such as ``"fd:/dc1"``, with all domains below it. None for the
        others.

    Raises
    ------
    InvalidValueError
        If there is no such policy, or it needs a domain and has none, or the reverse.
    """

    name: PolicyName
    domain: str | None = None

    def __attrs_post_init__(self) -> None:
        item = "placement policy"
        object.__setattr__(self, "name", check_member(item, "name", self.name, PolicyName))
        item = f"{item} {self.name.value}"
        if self.name in _WITHOUT_DOMAIN:
            if self.domain is not None:
                raise InvalidValueError(item, "domain", self.domain, "None")
            return
        names = "" if self.domain is None else _path(check_text(item, "domain", self.domain))
        if not names or set("&|()!<>=~^ ") & {*names}:
            raise InvalidValueError(item, "domain", self.domain, "a path of names, such as fd:/dc1/rack0")

    @property
    def clause(self) -> str:
        """The part of a placement constraint that has the meaning of the policy."""
        if self.name in _WITHOUT_DOMAIN:
            return _WITHOUT_DOMAIN[self.name]
        return _OF_DOMAIN[self.name].format(f"fd:/{_path(str(self.domain))}")


def _path(domain: str) -> str:
    """Return the names of a fault domain, with / between them."""
    return domain.removeprefix("fd:").strip("/")


def constraint_of_policies(policies: Iterable[ServicePlacementPolicy], constraint: str = "") -> str:
    """Return the placement constraint of a service with these policies, and with a constraint besides.

    Raises
    ------
    InvalidValueError
        If an argument is not what it should be. Whether the constraint parses is checked with the service.
    """
    given = check_items("placement constraint", "policies", policies, ServicePlacementPolicy)
    check_text("placement constraint", "constraint", constraint)
    own = [f"({constraint})"] if constraint.strip() and given else [constraint]
    return " && ".join(filter(None, [*(policy.clause for policy in given), *own]))
