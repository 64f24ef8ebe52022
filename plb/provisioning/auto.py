"""What to run in the time that is allowed, after the recommendations of [3] section 6 (figure 8).

First Fit where time is short, and what gives the best plans where there is more: there, [3] spreads replicas over given
nodes; here, First Fit's nodes are emptied, which needs fewer nodes after less time (docs/provisioning.md). The best
plan so far is the result when the time is over.
"""

from __future__ import annotations

from plb.provisioning.improvement import improve
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.running import first_fit_plan
from plb.provisioning.workbench import ReportProgress, Workbench


def best_in_time(bench: Workbench, report: ReportProgress, *, seed: int) -> ProvisioningPlan:
    """Return the best plan within the time of a workbench; without a limit, the same on every machine."""
    plan = first_fit_plan(bench)
    report(f"{plan.algorithm}: {plan.nodes:,} nodes, at least {bench.lower_bound:,}")
    return improve(bench, plan, report, seed=seed)
