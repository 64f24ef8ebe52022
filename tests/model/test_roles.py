"""Roles may be given by their names, as members of the other enumerations."""

from __future__ import annotations

import pytest

from plb import ConflictError, InvalidValueError, Replica, Role, Service
from tests.engine.fingerprint import snapshot

ROLES = {"primary": Role.PRIMARY, "secondary": Role.SECONDARY, "instance": Role.INSTANCE}


@pytest.mark.parametrize(("name", "role"), ROLES.items())
def test_role_by_its_name_is_the_role(name, role):
    """A name works in a description, and as a key of loads."""
    loads = {name: {"cpu": 1}}
    assert Replica(name, "n0") == Replica(role, "n0")
    assert Service("s", stateful=name != "instance", default_load=loads).default_load == {role: {"cpu": 1}}


def test_engine_takes_roles_by_name(small_cluster):
    one, two = small_cluster.engine(), small_cluster.engine()
    for engine, role in ((one, Role.SECONDARY), (two, "secondary")):
        engine.report_role_load("db/0", role, {"cpu": 7})
        engine.report_move_cost("db/0", role, "high")
    assert snapshot(one) == snapshot(two)


@pytest.mark.parametrize("role", ["Primary", "PRIMARY", "leader", "", 3, -1, 0.0, True, None, [Role.PRIMARY]])
def test_anything_else_is_refused(role, small_cluster):
    engine = small_cluster.engine()
    for take in (
        lambda: Replica(role, "n0"),
        lambda: engine.report_role_load("db/0", role, {}),
        lambda: engine.report_move_cost("db/0", role, "high"),
    ):
        with pytest.raises(InvalidValueError, match=r"role = .* is not allowed"):
            take()


def test_role_that_is_given_twice_is_refused():
    with pytest.raises(ConflictError, match="default_load has PRIMARY twice"):
        Service("s", default_load={"primary": {"cpu": 1}, Role.PRIMARY: {"cpu": 2}})
