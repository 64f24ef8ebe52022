"""The moves of an engine's plan equal the tuple of them, and are made when somebody looks at them."""

from __future__ import annotations

import pickle
from copy import deepcopy

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Move, MoveKind, Phase, Reason, Role
from plb.model.plan import Energy, Plan, PlanMoves, merged

NAMES = st.sampled_from(["a", "b", "c"])
MOVES = st.builds(
    Move,
    kind=st.sampled_from(MoveKind),
    partition=NAMES,
    role=st.sampled_from(Role),
    source=st.none() | NAMES,
    target=st.none() | NAMES,
    reason=st.builds(Reason, st.sampled_from(Phase), st.sampled_from(["energy", "surplus"]), st.none() | NAMES),
    cost=st.sampled_from([0.0, 0.1, 1.0, 40.0]),
    index=st.integers(-1, 9),
)
NOTHING = Energy(0.0, 0.0, 0.0, 0.0, 0.0)


@given(moves=st.lists(MOVES, max_size=6).map(tuple), at=st.integers(-7, 6), step=st.sampled_from([None, -1, 2]))
def test_columns_behave_like_the_tuple(moves, at, step):
    """Length, items, slices, order, membership, text and equality on both sides are those of the tuple."""
    columns = PlanMoves.of(moves)
    assert columns == moves
    assert moves == columns
    assert columns == PlanMoves.of(moves)
    assert (len(columns), bool(columns), [*columns], repr(columns)) == (len(moves), bool(moves), [*moves], repr(moves))
    assert columns[at::step] == PlanMoves.of(moves)[at::step] == moves[at::step]
    if -len(moves) <= at < len(moves):
        assert columns[at] == PlanMoves.of(moves)[at] == moves[at]
        assert moves[at] in columns
        assert columns != moves[:-1]
    else:
        with pytest.raises(IndexError):
            columns[at]
    for move in moves:
        assert (columns.count(move), columns.index(move)) == (moves.count(move), moves.index(move))
    assert [*reversed(columns)] == [*reversed(moves)]
    assert columns != [*moves]


@given(moves=st.lists(MOVES, max_size=4).map(tuple))
def test_copies_and_pickles_are_equal(moves):
    """Also in a plan, of which `attrs.evolve` makes another one."""
    plan = Plan(PlanMoves.of(moves), NOTHING, NOTHING)
    for copy in (pickle.loads(pickle.dumps(plan)), deepcopy(plan), attrs.evolve(plan, renewed=1)):
        assert copy == plan == Plan(moves, NOTHING, NOTHING)
    assert PlanMoves.of(moves).of_kinds(MoveKind.ADD, MoveKind.DROP) == [
        move.partition for move in moves if move.kind in (MoveKind.ADD, MoveKind.DROP)
    ]


@given(parts=st.lists(st.tuples(st.booleans(), st.lists(MOVES, max_size=3).map(tuple)), max_size=4))
def test_plans_are_merged_in_order(parts):
    """The moves of all plans follow one another, from columns or tuples."""
    plans = [Plan(PlanMoves.of(moves) if columns else moves, NOTHING, NOTHING) for columns, moves in parts]
    assert merged(plans).moves == tuple(move for _, moves in parts for move in moves)


def test_moves_are_made_once():
    """Who iterates twice gets the same objects."""
    move = Move(MoveKind.ADD, "a", Role.PRIMARY, None, "b", Reason(Phase.PLACEMENT, "new replica"), 0.0)
    columns = PlanMoves.of([move, move])
    assert all(one is other for one, other in zip(columns, columns, strict=True))
    assert columns[1] is [*columns][1]
