"""The annealing schedule: temperatures, quiet rounds, restarts, and annealing over several calls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import ConflictError, Metric, PlbConfig
from plb.search.annealing.cooling_schedule import (
    CONVERGED,
    RESTARTING,
    RUNNING,
    SPENT,
    UNSET,
    Settings,
    end_round,
    heat_up,
    new_schedule,
)
from plb.search.budget import Budget
from tests.engine.stories import engine_with
from tests.engine.strategies import examples

BY_ROUND = Settings(1000, 60, 50, 1.0, UNSET, 0.8)
BY_BUDGET = BY_ROUND._replace(by_budget=True, last_temperature=0.01)


def started(energy: float = 100.0):
    schedule = new_schedule()
    schedule.temperature = schedule.first_temperature = 1.0
    schedule.energy = schedule.round_energy = schedule.best_energy = energy
    return schedule


def crowded(**config):
    settings = {"w_imbalance": 5.0, "w_failovers": 0.0, "w_overload": 0.0, "max_percentage_to_move": 1.0, **config}
    replicas = {f"p{index}": ("n0", 37 + index * index * 11) for index in range(12)}
    return engine_with({f"n{index}": 9000 for index in range(4)}, replicas, **settings)


@examples(100)
@given(
    restarts=st.integers(0, 3),
    rounds=st.integers(1, 60),
    last=st.floats(0.001, 1.0),
    changes=st.lists(st.floats(-5.0, 5.0), min_size=60, max_size=60),
)
def test_cooling_by_budget_depends_on_the_used_share_alone(restarts, rounds, last, changes):
    """Whatever the energy does, the temperature is that of the formula, it never converges, and ends when spent."""
    settings = BY_BUDGET._replace(rounds=rounds, restarts=restarts, last_temperature=last)
    schedule = started()
    for number in range(1, rounds + 1):
        schedule.energy += changes[number - 1]
        end_round(settings, schedule)
        part = number / rounds * (restarts + 1)
        assert schedule.temperature == pytest.approx(last ** min(part - schedule.restarts, 1.0))
        if number == rounds:
            assert schedule.end == SPENT
        elif schedule.end == RESTARTING:
            assert part >= schedule.restarts + 1
            heat_up(schedule)
            assert (schedule.temperature, schedule.end) == (1.0, RUNNING)


def test_cooling_by_time_follows_the_used_share_of_the_time():
    settings = BY_BUDGET._replace(timed=True, rounds=2**40)
    schedule = started()
    schedule.progress = 0.5
    end_round(settings, schedule)
    assert schedule.temperature == pytest.approx(0.1)


def test_round_is_quiet_by_share_or_by_absolute_change():
    """A constant in the energy makes a change small by share; an absolute limit does not see the constant."""
    for constant, of_share, of_change in ((0.0, 0, 0), (1e6, 1, 0)):
        for settings, quiet in (
            (BY_ROUND, of_share),
            (BY_ROUND._replace(absolute_quiet_change=0.5), of_change),
            (BY_ROUND._replace(absolute_quiet_change=2.0), 1),
        ):
            schedule = started(constant + 10.0)
            schedule.energy += 1.0
            end_round(settings, schedule)
            assert schedule.quiet_rounds == quiet


@examples(30)
@given(quiet=st.integers(1, 20), restarts=st.integers(0, 3))
def test_chain_restarts_as_often_as_set_before_it_converges(quiet, restarts):
    """Each descent takes the set number of quiet rounds without a new best."""
    settings = BY_ROUND._replace(quiet_rounds=quiet, restarts=restarts)
    schedule = started()
    rounds = heated = 0
    while schedule.end != CONVERGED:
        end_round(settings, schedule)
        rounds += 1
        if schedule.end == RESTARTING:
            heat_up(schedule)
            heated += 1
            assert schedule.temperature == 1.0
    assert (rounds, heated) == (quiet * (restarts + 1), restarts)


def test_absolute_temperature_of_zero_accepts_only_improvements():
    """The probes of the energy have no say."""
    cold = crowded(absolute_initial_temperature=0.0).balance(budget=2000)
    warm = crowded(absolute_initial_temperature=1e6).balance(budget=2000)
    assert cold.temperature == 0.0
    assert warm.temperature > 0.0
    assert cold.proposals.accepted < warm.proposals.accepted


def test_cooling_by_budget_uses_the_whole_budget():
    budget, settings = 60_000, {"initial_temperature": 0.01, "chains": 2}
    by_round = crowded(cooling="by_round", **settings).balance(budget=budget)
    by_budget = crowded(cooling="by_budget", **settings).balance(budget=budget)
    assert by_round.end_reason == "the energy no longer changes"
    assert by_budget.end_reason == "the budget of proposals is used up"
    assert by_budget.proposals.generated == budget > by_round.proposals.generated
    assert by_budget.energy_after.total <= by_round.energy_after.total + 1e-9


def test_restarts_go_on_after_convergence():
    settings = {"cooling": "by_round", "initial_temperature": 0.01, "chains": 1}
    once, again = (crowded(restarts=count, **settings).balance(budget=100_000) for count in (0, 3))
    assert again.proposals.generated > once.proposals.generated
    assert again.energy_after.total <= once.energy_after.total


def test_cooling_by_time_ends_with_the_time():
    plan = crowded(cooling="by_budget", chains=1).balance(budget=Budget(seconds=0.2))
    assert plan.end_reason == "the time limit was reached"
    assert not plan.reproducible


def test_cooling_by_budget_without_any_budget_is_refused():
    """The error names the settings; a limit of rounds, or of the time of every search, is enough."""
    metrics = [Metric("cpu")]
    with pytest.raises(ConflictError, match="max_simulated_annealing_iterations and placement_search_timeout are None"):
        PlbConfig(metrics=metrics, cooling="by_budget", max_simulated_annealing_iterations=None)
    PlbConfig.from_service_fabric({}, metrics=metrics, cooling="by_budget")


def test_annealing_goes_on_at_the_temperature_of_the_plan_before():
    """With a temperature in the budget, balancing runs again on its own result, and the temperature falls."""
    engine = crowded(absolute_initial_temperature=50.0, chains=1)
    engine.apply(engine.balance(budget=600))
    assert engine.balance(budget=600).proposals.generated == 0, "its fixed point"
    temperatures, energies = [50.0], []
    for _ in range(30):
        plan = engine.balance(budget=Budget(600, temperature=temperatures[-1]))
        assert plan.proposals.generated > 0
        engine.apply(plan)
        temperatures.append(plan.temperature)
        energies.append(plan.energy_after.imbalance)
    assert temperatures == sorted(temperatures, reverse=True)
    assert temperatures[-1] < temperatures[0]
    assert energies[-1] <= energies[0]


def test_temperature_is_of_balancing_only():
    engine = crowded(w_imbalance=0.0)
    assert engine.place().temperature is None
    assert engine.balance(budget=Budget(60, temperature=3.0)).temperature is not None


def test_new_seed_starts_a_new_search():
    engine = crowded(chains=1)
    engine.apply(engine.balance(budget=120))
    seed = engine.seed
    engine.seed = seed
    assert engine.balance(budget=120).proposals.generated == 0
    engine.seed = seed + 1
    assert engine.balance(budget=120).proposals.generated == 120
