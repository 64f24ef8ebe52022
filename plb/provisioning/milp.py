"""The smallest number of nodes, for small instances: HiGHS solves the integer program of [3] section 3.2.

HiGHS searches only for plans with fewer nodes than the best known plan, because scipy cannot give it a plan to start
from.
"""

from __future__ import annotations

import math

import attrs
import numpy as np

from plb.array_types import Float, Int
from plb.errors import ConflictError, NoPlanError
from plb.provisioning.improvement import best_in_time
from plb.provisioning.integer_program import Model, constraints, model_of, nonzeros
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.solver_context import ReportProgress, SolverContext
from plb.validation import check_number

NAME = "ILP"
MOST_NONZEROS = 2_000_000
"""Largest number of coefficients of the program."""
FIRST_SHARE, FIRST_SECONDS = 0.1, 2.0
"""Of the time, and seconds at the most, for the plan that is to be improved on."""
SLACK = 1e-6
"""By so much HiGHS may break a constraint, and its bound may lie above a whole number that is meant."""
INFEASIBLE = 2
"""What scipy calls it."""


def solve_exactly(context: SolverContext, report: ReportProgress, *, gap_percent: float = 0.0) -> ProvisioningPlan:
    """Return a plan with the smallest number of nodes, or the best plan within the time limit.

    The plan of `auto`, which has a tenth of the time and at most 2 seconds, is the result if no better one is found.

    Parameters
    ----------
    context
        The instance and the time limit. HiGHS checks the time between its steps, which take seconds if the
        program is large.
    report
        Called with the nodes and the bound before and after HiGHS.
    gap_percent
        A plan is accepted if this percentage of its nodes, or less, is between it and the bound.

    Returns
    -------
    ProvisioningPlan
        Its `lower_bound` is what was proved: the larger of the bound by demand and HiGHS's, rounded up. The plan has
        the fewest nodes if it has as many.

    Raises
    ------
    ConflictError
        The instance is too large: more than `MOST_NONZEROS`.
    NoPlanError
        There are too few nodes, or no plan was found in time where First Fit finds none.
    """
    share = check_number(NAME, "gap_percent", gap_percent, high=100.0, high_open=True) / 100.0
    model = model_of(context.instance)
    _refuse_too_large(model, context.lower_bound)
    plan = _first_plan(context, report)
    nodes = context.most_nodes if plan is None else math.ceil(plan.nodes * (1.0 - share) - SLACK) - 1
    found, bound = None, context.lower_bound
    if nodes >= bound and _time_left(context) > 0.0:
        _refuse_too_large(model, nodes)
        report(f"{NAME}: fewer than {nodes + 1:,} nodes, at least {bound:,}")
        found, bound = _search(context, model, nodes, share)
        report(f"{NAME}: {'no plan' if found is None else f'{found.nodes:,} nodes'}, at least {bound:,}")
    best = found or plan
    if best is None:
        raise NoPlanError(context.instance.name, NAME, context.most_nodes)
    return attrs.evolve(best, seconds=context.elapsed(), lower_bound=bound)


def _first_plan(context: SolverContext, report: ReportProgress) -> ProvisioningPlan | None:
    """Return the plan of `auto`; None: it finds none."""
    seconds = None if context.seconds is None else min(FIRST_SECONDS, FIRST_SHARE * context.seconds)
    try:
        return best_in_time(SolverContext(context.instance, seconds), report, seed=0)
    except NoPlanError:
        return None


def _time_left(context: SolverContext) -> float:
    return math.inf if context.seconds is None else context.seconds - context.elapsed()


def _refuse_too_large(model: Model, nodes: int) -> None:
    """Raise an error for a program with too many coefficients, before it is created."""
    count = nonzeros(model, nodes)
    if count > MOST_NONZEROS:
        raise ConflictError(
            f"instance {model.instance.name}: too large for {NAME}, whose program has {count:,} coefficients for "
            f"{nodes:,} nodes; expected at most {MOST_NONZEROS:,}; 'auto' takes instances of any size"
        )


def _search(context: SolverContext, model: Model, nodes: int, share: float) -> tuple[ProvisioningPlan | None, int]:
    """Return a plan with at most a number of nodes, if one is found, and the number that every plan needs."""
    from scipy.optimize import Bounds, milp  # type: ignore[import-untyped]

    offers = context.instance.offered(nodes)
    kind = np.repeat(np.arange(len(offers)), offers)
    if not len(kind):
        return None, nodes + 1
    high = np.ones((len(kind), model.columns))
    high[:, : model.most.shape[1]] = model.most[kind]
    cost = np.zeros_like(high)
    cost[:, -1] = 1.0
    rows = constraints(model, kind, (context.lower_bound, nodes))
    options = {"mip_rel_gap": share}
    if context.seconds is not None:
        options["time_limit"] = max(0.0, _time_left(context))
    result = milp(
        cost.ravel(),
        integrality=np.ones(high.size),
        bounds=Bounds(0.0, high.ravel()),
        constraints=rows,
        options=options,
    )
    if result.status == INFEASIBLE:
        return None, nodes + 1
    proved = result.mip_dual_bound
    bound = context.lower_bound
    if proved is not None and math.isfinite(proved):
        bound = max(bound, math.ceil(proved - SLACK))
    return None if result.x is None else _plan(context, model, kind, result.x), bound


def _plan(context: SolverContext, model: Model, kind: Int, solution: Float) -> ProvisioningPlan | None:
    """Return the plan of a solution; None: it is valid only within the tolerance of HiGHS."""
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
