"""`provision`: the plan of an instance by an algorithm that is given by name."""

from __future__ import annotations

from plb.errors import ConflictError
from plb.provisioning.algorithm_names import Way, parse_algorithm
from plb.provisioning.algorithms import Rules, run
from plb.provisioning.instance import Instance
from plb.provisioning.integer_program import solve_exactly
from plb.provisioning.large_neighbourhood_search import best_in_time
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.solver_context import ReportProgress, SolverContext, say_nothing
from plb.validation import check_count, check_kind, check_member, check_text

AUTO = "auto"
"""The algorithm that chooses by the time allowed."""


def provision(
    instance: Instance,
    algorithm: str = AUTO,
    *,
    rules: Rules | str = Rules.PAPER,
    time_limit: float | None = None,
    seed: int = 0,
    report: ReportProgress | None = None,
) -> ProvisioningPlan:
    """Plan where all replicas go, on as few nodes as the algorithm can.

    Parameters
    ----------
    instance
        What is to be placed.
    algorithm
        A name as in `plb.provisioning.algorithm_names`, or "auto": what is best in the time allowed.
    rules
        Of the paper, or of its authors' programs (for demand that does not vary, and not with "auto").
    time_limit
        In seconds. First Fit is never stopped; an algorithm that is stopped gives way to its best plan so far, or to
        First Fit's. With a limit, a plan may depend on the machine.
    seed
        Seed of the random numbers of "auto". The other algorithms use none.
    report
        Called with each number of nodes that is tried.

    Raises
    ------
    InvalidValueError
        An argument is not valid.
    UnknownNameError
        There is no such algorithm.
    ConflictError
        The authors' programs' rules do not go with the instance or the algorithm, or the instance is too large for it.
    NoPlanError
        There are too few nodes for the algorithm.
    """
    check_kind("provisioning", "instance", instance, Instance)
    check_text("provisioning", "algorithm", algorithm)
    check_count("provisioning", "seed", seed)
    rules = check_member("provisioning", "rules", rules, Rules)
    if rules is Rules.RELEASED and instance.time_points > 1:
        raise ConflictError(
            f"instance {instance.name}: rules = 'released' is for demand that does not vary; it has "
            f"{instance.time_points} time points"
        )
    report = report or say_nothing
    if algorithm == AUTO:
        if rules is Rules.RELEASED:
            raise ConflictError(
                "provisioning: rules = 'released' needs the name of an algorithm; 'auto' has its own rules"
            )
        return best_in_time(SolverContext(instance, time_limit), report, seed=seed)
    parsed, context = parse_algorithm(algorithm), SolverContext(instance, time_limit)
    if parsed.way is Way.INTEGER_PROGRAM:
        return solve_exactly(context, report, gap_percent=parsed.gap_percent)
    return run(context, parsed, rules, report)
