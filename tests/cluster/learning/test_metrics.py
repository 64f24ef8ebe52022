"""The figures of an episode, computed by hand and as plain sums over steps."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cluster.learning.episode import Episode
from cluster.learning.metrics import FIGURES, UTILISATION, figure, figures
from tests.cluster.learning.naive import NaiveEpisode
from tests.cluster.learning.strategies import dimensions, job, jobs, one_resource, penalties, sequences


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def naive_figures(naive: NaiveEpisode, first: int) -> dict[str, float]:
    """Return the figures of a finished episode, summed over steps in plain Python."""
    end, jobs, free = naive.time, naive.jobs, []
    rows: dict[str, list[float]] = {name: [] for name in ("over_use", "overloaded", "machines", "utilisation")}
    resources = range(len(naive.sizes.resources))
    for naive.time in range(first, end):
        total, busy, by_machine = 0.0, 0, []
        for machine in range(naive.sizes.machines):
            placed = naive.on(machine)
            used = [sum(job.uses(naive.time, resource) for job in placed) for resource in resources]
            by_machine.append([max(0.0, 1.0 - one) for one in used])
            over = sum(max(0.0, one - 1.0) for one in used)
            total += over
            if placed:
                busy += 1
                rows["overloaded"].append(float(max(used) > 1.0 + 1e-9))
                rows["utilisation"].append(mean([min(one, 1.0) for one in used]))
        rows["over_use"].append(total)
        rows["machines"].append(float(busy))
        free.append(by_machine)
    naive.time = end
    pieces = []
    for resource in resources:
        columns = [[shares[resource] for shares in by_machine] for by_machine in free]
        pieces.append(mean([1.0 - max(column) / sum(column) for column in columns if sum(column) > 1e-9]))
    until = [(job, end if job.machine is None else job.placed) for job in jobs if job.arrival <= end]
    waits = [float(last - job.arrival) for job, last in until]
    found = {name: mean(values) for name, values in rows.items()}
    return found | {"fragmentation": mean(pieces), "wait": mean(waits), "most_machines": max(rows["machines"])}


@given(st.data(), dimensions(), penalties, st.none() | st.integers(10, 20))
def test_figures_equal_plain_sums(data, sizes, weights, longest):
    """Every figure is a sum over steps, machines and resources, and the reward is that of the game."""
    sequence = data.draw(sequences(sizes))
    assume(longest is None or sequence.jobs[0].arrival < longest)
    episode = Episode(sequence, sizes, weights, longest_steps=longest)
    naive = NaiveEpisode(sizes, weights, sequence, longest)
    reward = 0.0
    while not episode.over:
        action = data.draw(st.integers(0, sizes.machines))
        reward += episode.decide(action)
        naive.decide(action)
    found = figures(episode)
    for name, requested in naive_figures(naive, sequence.jobs[0].arrival).items():
        assert found[name] == pytest.approx(requested, abs=1e-9), name
    assert found["reward"] == pytest.approx(reward, abs=1e-9)
    assert found["reward"] == pytest.approx(-sum(found[name] for name in found if name.startswith("penalty_")))
    assert found["unplaced"] == sum(each.machine is None for each in naive.jobs)
    assert found["utilisation"] == pytest.approx(
        mean([found[f"{UTILISATION}{resource}"] for resource in sizes.resources])
    )


def test_figures_by_hand():
    """Two jobs are on one of two machines. They overlap in the first step, which exceeds the capacity by a half."""
    episode = Episode(jobs(job(0, 1.0, 0.5), job(0, 0.5)), one_resource(2))
    episode.decide(1)
    episode.decide(1)
    found = figures(episode)
    assert found["over_use"] == 0.25
    assert found["overloaded"] == 0.5
    assert (found["machines"], found["most_machines"]) == (1.0, 1.0)
    assert found["utilisation_cpu"] == found["utilisation"] == 0.75
    assert found["wait"] == 0.0
    assert found["fragmentation"] == pytest.approx((0.0 + (1 - 1.0 / 1.5)) / 2)
    assert found["penalty_contention"] == 0.25 * 0.5
    assert found["penalty_over_use"] == 4.0 * 0.5
    assert found["penalty_under_use"] == 0.25 * 0.5
    assert found["steps"] == 2.0


def test_every_figure_has_a_description():
    episode = Episode(jobs(job(0, 0.5)), one_resource(1))
    episode.decide(1)
    found = figures(episode)
    assert list(found)[: len(FIGURES)] == list(FIGURES)
    assert all(figure(name).heading and figure(name).meaning for name in found)
    assert figure("utilisation_gpu").heading == "gpu"
    with pytest.raises(KeyError):
        figure("luck")
