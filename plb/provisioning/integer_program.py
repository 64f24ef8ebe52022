"""The integer program of [3] section 3.2: its matrices, and its solution by HiGHS.

L applications (S limit others), D dimensions, N available nodes. The variables of a node n are

- x_in, the number of replicas of application i on it. It replaces Σ_r x_irn of [3]: replicas of an application are
  equal, so that a variable for each only represents the same plan several times.
- z_in, whether there is one; only of the S applications that limit others, as (2f) asks for no other.
- y_n, whether it is used.

ν_i of equation (1) is the largest number of replicas that fit on a node. [3] prints C/s rounded up, which is more than
fit unless it is a whole number; here it is rounded down. The limit a_ii is part of ν_i, as (2d) and (2f) together
state.

Three differences to [3] exclude no relevant plan. In (2f), ν_j y_n replaces ν_j, and z_in and x_in are
bound to y_n, which (2c) does only for demand above 0. The nodes of a kind are used in their order, y_n >= y_n+1. The
sum of y lies between two numbers.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, NamedTuple

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float, Int, Int32
from plb.errors import ConflictError, NoPlanError
from plb.provisioning.instance import ANY_NUMBER, Instance
from plb.provisioning.large_neighbourhood_search import best_in_time
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.solver_context import ReportProgress, SolverContext
from plb.validation import check_number

NAME = "ILP"
MOST_NONZEROS = 2_000_000
"""Largest number of coefficients of the program."""
FIRST_SHARE, FIRST_SECONDS = 0.1, 2.0
"""Share of the time limit, and seconds at the most, for the plan on which the program is to improve."""
SLACK = 1e-6
"""Tolerance: HiGHS may break a constraint, and its bound may exceed the exact whole number, by this much."""
INFEASIBLE, FAILED = 2, 4
"""Status codes of `scipy.optimize.milp`."""


def solve_exactly(context: SolverContext, report: ReportProgress, *, gap_percent: float = 0.0) -> ProvisioningPlan:
    """Return a plan with the smallest number of nodes, or the best plan within the time limit; see `provision`.

    The plan of `auto`, which has a tenth of the time and at most 2 seconds, is the result if no better one is found.
    HiGHS checks the time between its steps, which take seconds if the program is large. A plan is accepted if
    `gap_percent` of its nodes, or less, is between it and the bound. Its `lower_bound` is what was proved.
    """
    share = check_number(NAME, "gap_percent", gap_percent, high=100.0, high_open=True) / 100.0
    model = model_of(context.instance)
    _refuse_too_large(model, context.lower_bound)
    seconds = None if context.seconds is None else min(FIRST_SECONDS, FIRST_SHARE * context.seconds)
    plan: ProvisioningPlan | None = None
    with suppress(NoPlanError):
        plan = best_in_time(SolverContext(context.instance, seconds), report, seed=0)
    nodes = context.most_nodes if plan is None else math.ceil(plan.nodes * (1.0 - share) - SLACK) - 1
    solution, bound = None, context.lower_bound
    if nodes >= bound and _time_left(context) > 0.0:
        _refuse_too_large(model, nodes)
        report(f"{NAME}: fewer than {nodes + 1:,} nodes, at least {bound:,}")
        solution, bound = _search(context, model, nodes, share)
        report(f"{NAME}: {'no plan' if solution is None else f'{solution.nodes:,} nodes'}, at least {bound:,}")
    best = solution or plan
    if best is None:
        raise NoPlanError(context.instance.name, NAME, context.most_nodes)
    return attrs.evolve(best, seconds=context.elapsed(), lower_bound=bound)


def _time_left(context: SolverContext) -> float:
    """Return the seconds until the time limit, infinite without one."""
    return math.inf if context.seconds is None else context.seconds - context.elapsed()


def _refuse_too_large(model: Model, nodes: int) -> None:
    """Raise an error if the program for `nodes` nodes has too many coefficients, before it is created."""
    count = nonzeros(model, nodes)
    if count > MOST_NONZEROS:
        raise ConflictError(
            f"instance {model.instance.name}: too large for {NAME}, whose program has {count:,} coefficients for "
            f"{nodes:,} nodes; expected at most {MOST_NONZEROS:,}; 'auto' takes instances of any size"
        )


def _search(context: SolverContext, model: Model, nodes: int, share: float) -> tuple[ProvisioningPlan | None, int]:
    """Return a plan with at most `nodes` nodes, if one is found, and a number of nodes that every plan needs.

    The search ends when `share` of the nodes, or less, is between the plan and the bound.
    """
    from scipy.optimize import Bounds, milp  # type: ignore[import-untyped]

    offers = context.instance.offered(nodes)
    kind = np.repeat(np.arange(len(offers)), offers)
    if not len(kind):
        return None, nodes + 1
    # upper bounds of x, z and y on each node
    high = np.ones((len(kind), model.columns))
    high[:, : model.most.shape[1]] = model.most[kind]
    # the cost counts the used nodes: y is the last variable of a node
    cost = np.zeros_like(high)
    cost[:, -1] = 1.0
    rows = constraints(model, kind, (context.lower_bound, nodes))
    program = {"integrality": np.ones(high.size), "bounds": Bounds(0.0, high.ravel()), "constraints": rows}
    for presolve in (True, False):  # HiGHS fails on some programs after its simplifications
        options = {"mip_rel_gap": share, "presolve": presolve}
        if context.seconds is not None:
            options["time_limit"] = max(0.0, _time_left(context))
        result = milp(cost.ravel(), options=options, **program)
        if result.status != FAILED:
            break
    if result.status == INFEASIBLE:
        return None, nodes + 1
    proved = result.mip_dual_bound
    bound = context.lower_bound
    if proved is not None and math.isfinite(proved):
        bound = max(bound, math.ceil(proved - SLACK))
    return None if result.x is None else _plan(context, model, kind, result.x), bound


def _plan(context: SolverContext, model: Model, kind: Int, solution: Float) -> ProvisioningPlan | None:
    """Return the plan of a solution (the variables of each node); None: it is valid only within the tolerance of HiGHS.

    `kind`, (N,), is the kind of each available node.
    """
    placed = np.rint(solution.reshape(len(kind), -1)[:, : model.most.shape[1]]).astype(np.int32)
    row, application = np.nonzero(placed)
    used, node = np.unique(row, return_inverse=True)
    plan = ProvisioningPlan(
        instance=context.instance,
        kind=kind[used].astype(np.int32),
        application=application.astype(np.int32),
        node=node.astype(np.int32),
        count=placed[row, application],
        algorithm=NAME,
        seconds=context.elapsed(),
        lower_bound=context.lower_bound,
    )
    return plan if plan.valid else None


class Model(NamedTuple):
    """What the programs for all numbers of nodes have in common."""

    instance: Instance
    """The problem."""
    most: Int32
    """(kinds, L) ν of each kind of nodes."""
    limiting: Int
    """(S,) the applications that limit others."""
    arcs: tuple[Bool, ...]
    """For each kind, (E,): whether ν does not imply a limit of `Affinity`, so that it needs a row."""

    @property
    def columns(self) -> int:
        """Number of variables of a node, in this order: x, z, y."""
        return len(self.instance.applications) + len(self.limiting) + 1


def model_of(instance: Instance) -> Model:
    """Return what the programs of an instance have in common for any number of nodes."""
    limits = instance.affinity
    most = np.stack([_most_on_a_node(instance, instance.capacity(node)) for node in instance.nodes])
    arcs = tuple((limits.source != limits.target) & (limits.most < row[limits.target]) for row in most)
    return Model(instance, most, np.unique(limits.source[np.any(arcs, axis=0)]).astype(np.int64), arcs)


def _most_on_a_node(instance: Instance, capacity: Int32) -> Int32:
    """Return ν, (L,): the most replicas of each application on a node of `capacity`, (D,) ([3] equation 1)."""
    demand = instance.dimensions()
    fits = np.where(demand > 0, capacity // np.maximum(demand, 1), ANY_NUMBER).min(axis=1)
    most = np.minimum(fits, instance.replicas)
    return np.asarray(np.minimum(most, instance.neighbours.most_on_a_node), np.int32)


def nonzeros(model: Model, nodes: int) -> int:
    """Return the number of coefficients of the program for a number of nodes."""
    instance = model.instance
    applications = len(instance.applications)
    # (2b) has x; (2c) demand and y; (2d), (2e) and the bounds by y two a row; order and sum of y three
    per_node = applications + np.count_nonzero(instance.demand) + instance.dimensions().shape[1] + 3
    per_node += 2 * applications + 4 * len(model.limiting)
    offers = zip(instance.offered(nodes), model.arcs, strict=True)
    return sum(count * (per_node + 3 * int(arcs.sum())) for count, arcs in offers)


class _Rows:
    """Constraints a·v <= 0 on the variables v of a node: `count` rows of a, in `parts` as (row, column, factor)."""

    def __init__(self) -> None:
        self.count = 0
        self.parts: list[tuple[Int, Int, Float]] = []

    def add(self, *terms: tuple[npt.ArrayLike, npt.ArrayLike]) -> None:
        """Add rows, whose terms are pairs of columns and factors, each broadcast to (rows,)."""
        columns = np.broadcast_arrays(*(np.asarray(part) for term in terms for part in term))
        row = self.count + np.arange(columns[0].size)
        for column, factor in zip(columns[::2], columns[1::2], strict=True):
            self.parts.append((row, column, factor.astype(np.float64)))
        self.count += len(row)

    def add_matrix(self, factors: Float, last: int) -> None:
        """Add the rows of `factors`, (rows, n), for the first variables, each with -1 in column `last`."""
        row, column = np.nonzero(factors)
        rows = np.arange(len(factors))
        self.parts.append((self.count + row, column, factors[row, column]))
        self.parts.append((self.count + rows, np.full(len(factors), last), np.full(len(factors), -1.0)))
        self.count += len(factors)

    def matrix(self, columns: int) -> Any:
        """Return the sparse matrix of all rows, with a number of columns."""
        from scipy.sparse import coo_array  # type: ignore[import-untyped]

        row, column, factor = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        return coo_array((factor, (row, column)), shape=(self.count, columns))


def _node_rows(model: Model, kind: int) -> Any:
    """Return the sparse matrix of the constraints (2c) to (2f) on a node of a kind."""
    instance, most, arcs = model.instance, model.most[kind], model.arcs[kind]
    applications, limiting = len(instance.applications), model.limiting
    z_of = np.full(applications, -1)
    z_of[limiting] = z = applications + np.arange(len(limiting))
    y, not_limiting = model.columns - 1, np.flatnonzero(z_of < 0)
    limits = instance.affinity
    source, target, allowed = (column[arcs] for column in (limits.source, limits.target, limits.most))
    rows = _Rows()
    # in shares of a node, so that the tolerance of HiGHS is the same for every resource
    # if it is 0, ν is 0 for every application with demand
    capacity = np.maximum(1, instance.capacity(instance.nodes[kind]))
    rows.add_matrix((instance.dimensions() / capacity).T, y)  # (2c)
    rows.add((limiting, 1), (z, -most[limiting]))  # (2d)
    rows.add((z, 1), (limiting, -1))  # (2e)
    rows.add((target, 1), (z_of[source], most[target] - allowed), (y, -most[target]))  # (2f)
    rows.add((z, 1), (y, -1))
    rows.add((not_limiting, 1), (y, -most[not_limiting]))
    return rows.matrix(model.columns)


def constraints(model: Model, kind: Int, total: tuple[int, int]) -> list[Any]:
    """Return the constraints on all nodes; `kind`: (N,) of each node; `total`: range of the number of used nodes."""
    from scipy.optimize import LinearConstraint
    from scipy.sparse import block_diag, coo_array, eye_array, kron

    columns, replicas = model.columns, model.instance.replicas
    y = np.arange(len(kind)) * columns + columns - 1
    blocks = [_node_rows(model, node_kind) for node_kind in range(len(model.most))]
    placed = kron(np.ones((1, len(kind))), eye_array(len(replicas), columns))  # (2b)
    next_alike = np.flatnonzero(kind[1:] == kind[:-1])
    pair = np.arange(len(next_alike))
    ordered = coo_array(
        (
            np.repeat([1.0, -1.0], len(next_alike)),
            (np.tile(pair, 2), np.concatenate([y[next_alike + 1], y[next_alike]])),
        ),
        shape=(len(next_alike), len(kind) * columns),
    )
    used = coo_array((np.ones(len(kind)), (np.zeros(len(kind), np.int64), y)), shape=(1, len(kind) * columns))
    return [
        LinearConstraint(placed, replicas, replicas),
        LinearConstraint(block_diag([blocks[node_kind] for node_kind in kind]), -np.inf, 0.0),
        LinearConstraint(ordered, -np.inf, 0.0),
        LinearConstraint(used, *total),
    ]
