"""Reads of kernels through the pointer to a named tuple of arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plb.compiler import by_pointer, kernel
from tests.engine.strategies import examples


@by_pointer
class Members(NamedTuple):
    """Members of every kind that a search has."""

    flat: np.ndarray
    table: np.ndarray
    cube: np.ndarray
    marks: np.ndarray
    number: int
    switch: bool


@kernel
def weighted_sum(members: Members, factor: int) -> int:
    """Sum all members with weights that reveal wrong shapes and strides."""
    total = members.number * factor + members.switch
    for position in range(members.flat.shape[0]):
        total += (position + 1) * members.flat[position]
    for row in range(members.table.shape[0]):
        for column in range(members.table.shape[1]):
            total += (3 * row + 5 * column) * members.table[row, column]
    for index in range(members.cube.shape[2]):
        total += (index + 7) * members.cube[1, 2, index]
    for mark in members.marks:
        total += mark
    return total


@kernel
def raised_sum(members: Members, amount: int) -> int:
    """Change an array through the pointer, then pass the pointer on."""
    members.flat[0] += amount
    return weighted_sum(members, 2)


@examples(25)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**31), st.integers(-9, 9), st.booleans(), st.booleans())
def test_kernels_read_the_members_of_the_tuple(rows, columns, seed, number, switch, transposed):
    rng = np.random.default_rng(seed)
    table = rng.integers(-99, 99, (rows, columns))
    members = Members(
        rng.integers(-99, 99, rows),
        table.T if transposed else table,
        rng.integers(-99, 99, (2, 3, columns)),
        rng.random(columns) < 0.5,
        number,
        switch,
    )
    assert weighted_sum(members, 3) == weighted_sum.py_func(members, 3)
    expected = weighted_sum.py_func(members._replace(flat=members.flat + np.eye(1, rows, dtype=np.int64)[0] * 4), 2)
    assert raised_sum(members, 4) == expected
    assert weighted_sum(members, 2) == expected


def test_replaced_member_is_read():
    members = Members(
        np.ones(2, np.int64), np.zeros((1, 1), np.int64), np.zeros((2, 3, 1), np.int64), np.ones(1, bool), 1, False
    )
    before = weighted_sum(members, 10)
    assert weighted_sum(members._replace(number=3), 10) == before + 20
    assert weighted_sum(members, 10) == before
