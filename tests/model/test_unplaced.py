"""A replica without a place: the number of nodes that each rule excludes, and the text for it."""

from __future__ import annotations

import pytest

from plb import Phase, Reason, Role, Unplaced
from plb.constraints.exclusion import Taken
from plb.constraints.node import OutOfService

pytestmark = pytest.mark.kernels


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (
            Unplaced("db/0", Role.PRIMARY, 3, [OutOfService(1, {"down": 1}), Taken(2, ("n1", "n2"))]),
            "primary of db/0 fits on none of 3 nodes: ruled out 1 by node (1 down), "
            "2 by exclusion (another replica of the partition is on n1, n2)",
        ),
        (
            Unplaced("db/0", Role.SECONDARY, 9, [Taken(7, tuple(f"n{index}" for index in range(7)))]),
            "secondary of db/0 fits on 2 of 9 nodes: ruled out 7 by exclusion "
            "(another replica of the partition is on n0, n1, n2, n3, n4 and 2 more)",
        ),
        (Unplaced("web/0", Role.INSTANCE, 2), "instance of web/0 fits on 2 of 2 nodes"),
    ],
    ids=["on no node", "on some nodes", "on every node"],
)
def test_refusal_reads_as_a_sentence(refusal, text):
    """A refusal is a value; its text has numbers and rules."""
    assert str(refusal) == text


def test_reasons_have_a_text():
    numbers = {"load": 21.0, "limit": 19.0}
    phrases = [
        (Reason(Phase.REPAIR, "capacity", "n0", "cpu", numbers), "cpu of node n0 is 21, above its limit of 19"),
        (Reason(Phase.REPAIR, "fault_domain", "n0"), "fault domain rule broken on node n0"),
        (Reason(Phase.BALANCING, "energy"), "lowers the energy"),
        (Reason(Phase.PLACEMENT, "new replica"), "a replica is missing"),
        (Reason(Phase.PLACEMENT, "eviction"), "frees capacity"),
        (Reason(Phase.PLACEMENT, "eviction", "n0", other="web/0"), "frees capacity on node n0 for web/0"),
        (Reason(Phase.PLACEMENT, "surplus"), "surplus replica"),
    ]
    for reason, phrase in phrases:
        assert str(reason) == phrase
