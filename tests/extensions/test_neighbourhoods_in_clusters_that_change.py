"""The state machine of the engine with neighbourhoods of users: each step keeps every invariant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.strategies import examples
from tests.engine.test_state_machine import EngineMachine
from tests.engine.whole_strategies import whole_settings
from tests.engine.world import World

from .proposing import Anything, SwiftAnything


def with_neighbourhoods() -> st.SearchStrategy[dict[str, Any]]:
    """Return settings that name both; one chain, so that budgets have room for steps of several moves."""
    names = {"larger_neighbourhoods": ("swift_anything", "service", "anything")}
    return whole_settings().map(lambda whole: {**whole, "larger_neighbourhood_share": 1.0, "chains": 1, **names})


class WorldOfNeighbourhoods(World):
    """Two engines with neighbourhoods of users."""

    objects = (Anything(), SwiftAnything())


class MachineOfNeighbourhoods(EngineMachine):
    """Random events in a cluster whose balancing makes steps in neighbourhoods of users."""

    world_kind = WorldOfNeighbourhoods
    settings_kind = staticmethod(with_neighbourhoods)


@pytest.mark.kernels
def test_events_keep_every_invariant_with_neighbourhoods():
    run_state_machine_as_test(MachineOfNeighbourhoods, settings=settings(examples(30), stateful_step_count=20))
