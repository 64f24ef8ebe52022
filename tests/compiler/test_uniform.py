"""Random numbers of kernels equal those of NumPy's generator, one by one."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.bench.engine import bench_cluster
from plb.array_types import Float, Int
from plb.compiler import Peek, Stream, intrinsics, kernel, uniform
from plb.model.rules import ALL_RULES
from plb.search.annealing.move_generation import ROWS_IN_CACHE, Choice, _random_proposal, generate_proposal
from plb.state.arrays import Problem, Solution
from plb.testing import configuration_of
from tests.engine.strategies import examples

_next, _third = Peek(0), Peek(2)
seeds = st.integers(0, 2**64 - 1)


@kernel
def draw_all(rng: Stream, drawn: Float) -> None:
    for index in range(drawn.shape[0]):
        drawn[index] = uniform(rng)


@kernel
def peek_and_advance(rng: Stream, values: Float) -> None:
    values[0] = _next(rng)
    values[1] = _third(rng)


@kernel
def generate(problem: Problem, solution: Solution, choice: Choice, rng: Stream, drawn: Int) -> None:
    """Store the members of the next proposal."""
    proposal = generate_proposal(problem, solution, choice, rng)
    drawn[:] = proposal.row, proposal.target, proposal.partner, proposal.source


@kernel
def generate_without_prefetching(problem: Problem, solution: Solution, choice: Choice, rng: Stream, drawn: Int) -> None:
    proposal = _random_proposal(problem, solution, choice, rng)
    drawn[:] = proposal.row, proposal.target, proposal.partner, proposal.source


@examples(50)
@given(seed=seeds, before=st.integers(0, 5))
def test_kernel_and_generator_share_one_stream(seed, before):
    """The generator continues after the numbers that a kernel has drawn."""
    stream, alone = Stream(seed), np.random.Generator(np.random.PCG64(seed))
    stream.random(before)
    drawn = np.empty(20)
    draw_all(stream, drawn)
    expected = alone.random(before + 25)
    assert np.array_equal(drawn, expected[before : before + 20])
    assert np.array_equal(stream.random(5), expected[before + 20 :])


def test_stream_is_the_same_with_another_layout_of_the_state():
    import numba

    @numba.njit
    def draw(rng):
        return intrinsics._uniform_by_call(rng)

    stream, alone = Stream(5), np.random.Generator(np.random.PCG64(5))
    assert [draw(stream.handle) for _ in range(10)] == alone.random(10).tolist()


@pytest.mark.parametrize("peek", [peek_and_advance, peek_and_advance.py_func], ids=["compiled", "plain"])
@examples(30)
@given(seed=seeds)
def test_peeked_numbers_are_the_next_ones(peek, seed):
    stream = Stream(seed)
    state = copy.deepcopy(stream.bit_generator.state)
    values = np.empty(2)
    peek(stream, values)
    assert stream.bit_generator.state == state
    assert values.tolist() == stream.random(3)[[0, 2]].tolist()


def test_layout_of_the_state_in_numpy_is_known():
    """Otherwise kernels would draw by NumPy's own function, at half the speed."""
    assert intrinsics._is_laid_out_as_known()


def test_prefetched_rows_change_no_proposal():
    configuration = configuration_of(bench_cluster(400, seed=0))
    problem, solution = configuration.problem, configuration.solution
    assert len(solution.node) > ROWS_IN_CACHE
    movable = np.flatnonzero(problem.movable)
    choice = Choice(movable[:0], movable, len(movable), ALL_RULES, 0.2, 0.2)
    compiled, plain = (Stream(3) for _ in range(2))
    drawn, right = np.empty((2, 4), np.int64)
    for _ in range(200):
        generate(problem, solution, choice, compiled, drawn)
        generate_without_prefetching(problem, solution, choice, plain, right)
        assert drawn.tolist() == right.tolist()
