"""Options of policies change a copy of the registered policy; unknown and invalid options are refused."""

from __future__ import annotations

import attrs
import pytest

from plb import (
    InvalidValueError,
    Metric,
    Node,
    Partition,
    PlacementAndLoadBalancing,
    PlbConfig,
    Role,
    Service,
    UnknownNameError,
)
from plb.engine_extensions import GivenExtensions
from plb.policies import BUILT_IN
from plb.policies.fits import PrvWorstFit, Weighting

BY_NAME = {policy.name: policy for policy in BUILT_IN}


def policy_of(policy, options=None, own=None):
    """Return the policy of an engine whose settings name it with options; `own`: the object of the host, if any."""
    config = PlbConfig(metrics=[Metric("cpu")], policy=policy, policy_options=options or {})
    return GivenExtensions.of(extension_policy=own).new_policy(config)


def test_options_change_a_copy_of_the_policy():
    """Options that are not given keep their values; the given policy does not change."""
    careful = PrvWorstFit(theta=0.05, held_out=5, weighting="sum", name="careful")
    changed = policy_of("careful", {"theta": 0.2}, careful)
    assert changed == PrvWorstFit(theta=0.2, held_out=5, weighting=Weighting.SUM, name="careful")
    assert (
        policy_of("careful", own=careful)
        == careful
        == PrvWorstFit(theta=0.05, held_out=5, weighting=Weighting.SUM, name="careful")
    )
    assert policy_of("prv_worst_fit") == PrvWorstFit(theta=0.01, held_out=3, weighting=Weighting.MAX)
    assert policy_of("annealing") is None


@pytest.mark.parametrize(
    ("policy", "options", "error", "message"),
    [
        ("prv_best_fit", {"theta": 1.5}, InvalidValueError, "policy prv_best_fit: theta = 1.5 is not .* >= 0 and <= 1"),
        ("prv_worst_fit", {"held_out": 2.5}, InvalidValueError, "policy prv_worst_fit: held_out = 2.5 is not allowed"),
        ("prv_worst_fit", {"weighting": "man"}, InvalidValueError, "weighting = 'man' .* expected one of sum, max"),
        ("prv_worst_fit", {"hold_out": 2}, UnknownNameError, "unknown option 'hold_out'; did you mean 'held_out'"),
        ("prv_best_fit", {"held_out": 2}, UnknownNameError, "policy prv_best_fit: unknown option 'held_out'; known: "),
        ("prv_best_fit", {"name": "x"}, UnknownNameError, "policy prv_best_fit: unknown option 'name'; known: "),
        (
            "repacking",
            {"size_classes": 0},
            InvalidValueError,
            "policy repacking: size_classes = 0 .* whole number >= 1",
        ),
        ("repacking", {"most_moves": -1}, InvalidValueError, "policy repacking: most_moves = -1 is not allowed"),
        ("best_fit_max", {"theta": 0.1}, InvalidValueError, "policy_options = .* as best_fit_max has no options"),
        ("annealing", {"theta": 0.1}, InvalidValueError, "policy_options = .* as annealing has no options"),
        (
            "prv_best_fit",
            {1: 0.1},
            InvalidValueError,
            "PlbConfig: policy_options = 1 is not allowed; expected a string",
        ),
        ("prv_best_fit", 0.1, InvalidValueError, "PlbConfig: policy_options = 0.1 is not allowed; expected a mapping"),
    ],
)
def test_unknown_or_invalid_option_is_refused(policy, options, error, message):
    with pytest.raises(error, match=message):
        policy_of(policy, options)


@attrs.frozen
class Measured:
    """A policy of a user whose class validates only with attrs."""

    name = "measured"
    most: int = attrs.field(default=1, validator=attrs.validators.ge(0))

    def choose(self, configuration, row, nodes):
        return nodes[min(self.most, len(nodes) - 1)]


def test_policy_of_a_user_has_the_options_of_its_class():
    assert policy_of("measured", {"most": 2}, Measured()).most == 2
    with pytest.raises(InvalidValueError, match=r"policy_options = {'most': -1} .* policy measured takes"):
        policy_of("measured", {"most": -1}, Measured())


def test_options_of_settings_cannot_change():
    options = {"theta": 0.02}
    config = PlbConfig(metrics=[Metric("cpu")], policy="prv_best_fit", policy_options=options)
    options["theta"] = 7
    assert dict(config.policy_options) == {"theta": 0.02}
    with pytest.raises(TypeError):
        config.policy_options["theta"] = 7
    assert hash(config) == hash(attrs.evolve(config))


def test_engine_uses_other_options_when_it_is_configured_again():
    config = PlbConfig(metrics=[Metric("cpu")], policy="prv_worst_fit", policy_options={"held_out": 0})
    engine = PlacementAndLoadBalancing(config)
    for node in range(2):
        engine.update_node(Node(f"n{node}", capacities={"cpu": 10}))
    engine.update_service(Service("s", stateful=False, default_load={Role.INSTANCE: {"cpu": 1}}))
    engine.update_partition(Partition("p", service="s"))
    assert engine.place().moves[0].target == "n0"
    engine.configure(attrs.evolve(config, policy_options={"held_out": 1}))
    assert engine.place().moves[0].target == "n1"
