"""What balancing chooses where settings of its search are None, and the price of moves."""

from __future__ import annotations

import math
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, PlbConfig
from plb.search.annealing.overload_price import STAGES, PricePath
from plb.search.budget import LONG_FROM, PROPOSALS_A_REPLICA, Budget, chosen_settings
from plb.settings.search import Cooling
from plb.testing import configuration_of
from tests.engine.stories import engine_with


@cache
def problem_of(**settings):
    return configuration_of(engine_with({"n0": 9, "n1": 9}, {"a": ("n0", 2), "b": ("n0", 3)}, **settings)).problem


def chosen(budget, *, movable=1000, limit=1000, **settings):
    config = PlbConfig(metrics=[Metric("cpu")], **settings)
    return chosen_settings(problem_of(**settings), config, budget, movable, limit)


FREE = {"ignore_cost_in_scoring": True}


@pytest.mark.parametrize(
    ("settings", "proposals", "limit", "cooling"),
    [
        ({}, 1000, 1000, "by_price"),
        ({}, 10**7, 1000, "by_price"),
        (FREE, 1000 * LONG_FROM - 1, 1000, "by_price"),
        (FREE, 1000 * LONG_FROM, 1000, "by_budget"),
        (FREE, 1000 * LONG_FROM, 20, "by_price"),
        ({"cooling": "by_round"}, 1000, 1000, "by_round"),
        ({"initial_temperature": 0.5}, 1000, 1000, "by_round"),
        ({"restarts": 2}, 1000, 1000, "by_round"),
        ({"combination": "service_fabric"}, 1000, 1000, "by_round"),
    ],
)
def test_search_follows_from_cost_budget_and_limit(settings, proposals, limit, cooling):
    """A price orders moves by what they win; a hot search needs free moves, time and room."""
    assert chosen(Budget(proposals), limit=limit, **settings).cooling is Cooling(cooling)


def test_seconds_count_as_proposals():
    assert chosen(Budget(seconds=0.01), **FREE).cooling is Cooling.BY_PRICE
    assert chosen(Budget(seconds=10.0), **FREE).cooling is Cooling.BY_BUDGET


@pytest.mark.parametrize("name", ["exchange_probability", "similar_exchange_share"])
def test_given_setting_is_kept(name):
    assert getattr(chosen(Budget(10**7), **{name: 0.25}), name) == 0.25


def test_bias_needs_that_nothing_but_imbalance_makes_a_move_worth_it():
    """Held-out nodes give other moves a value."""
    settings = {"w_failovers": 0.0, "w_overload": 0.0}
    assert chosen(Budget(1000), **settings).biased_sampling
    assert not chosen(Budget(1000), held_out_nodes=1, **settings).biased_sampling


def test_swaps_are_not_proposed_where_no_replica_is_a_primary():
    assert chosen(Budget(1000)).swap_primary_probability == 0.0


@pytest.mark.parametrize(("movable", "proposals"), [(1, 1500), (50, 1500), (1000, 1000 * PROPOSALS_A_REPLICA)])
def test_default_budget_grows_with_the_cluster(movable, proposals):
    """Every replica gets a number of proposals; small clusters keep 25 rounds of 60."""
    config = chosen(Budget(), movable=movable)
    assert 25 * config.simulated_annealing_iterations_per_round == proposals


def test_price_rises_while_more_replicas_have_moved_than_planned():
    """So the moves that win least are taken back."""
    path = PricePath(problem_of(), limit=10)
    path.begin(8.0)
    before = path.next_problem(0.01, 9).weights.tenths_of_move
    assert path.next_problem(0.02, 9).weights.tenths_of_move < before


@given(st.integers(1, 10**6), st.integers(0, STAGES - 1))
def test_stages_begin_at_the_same_proposals_whatever_is_made_at_a_time(whole, stage):
    """What is left of a stage ends at the next multiple of a hundredth of the search."""
    path = PricePath(problem_of(), limit=10)
    path.begin(1.0)
    path.next_problem(stage / STAGES, 0)
    done = math.ceil(whole * stage / STAGES)
    assert 1 <= path.left(done, whole) <= math.ceil(whole / STAGES) + 1
    assert path.left(done, math.inf) > whole
