"""What to run in the time that is allowed, after the recommendations of [3] section 6 (figure 8).

First Fit, where time is short; Multi-Node with Replica Spreading, where quality matters; and with what is left,
attempts at fewer nodes still. The best plan stands whenever time is over.
"""

from __future__ import annotations

from plb.provisioning.improvement import improve
from plb.provisioning.names import parse_algorithm
from plb.provisioning.plan import ProvisioningPlan
from plb.provisioning.running import Rules, first_fit_plan, run
from plb.provisioning.workbench import Tell, Workbench

LADDER = tuple(parse_algorithm(name) for name in ("WF-Max", "SpreadWFD-Avg-BinSearch"))
"""After First Fit; node-centric algorithms take longer than Worst Fit here and need more nodes."""
ATTEMPTS = 40
"""Attempts at fewer nodes that may fail one after the other, where no time limit says when to end."""


def best_in_time(bench: Workbench, tell: Tell) -> ProvisioningPlan:
    """Return the best plan that is found in a workbench's time; without a limit, the same on every machine."""
    best, _ = first_fit_plan(bench)
    tell(f"{best.algorithm}: {best.nodes:,} nodes")
    for algorithm in LADDER:
        if bench.time_is_over or best.nodes == bench.lower_bound:
            return best
        found = run(bench, algorithm, Rules.PAPER, tell)
        if found.nodes < best.nodes:
            best = found
            tell(f"{best.algorithm}: {best.nodes:,} nodes")
    return improve(bench, best, tell, attempts=None if bench.seconds is not None else ATTEMPTS)
