"""Output of the commands that plan nodes: progress, a table, figures as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from cluster.console.output import FAILED, messages, output, say
from cluster.results.writing import stamped, write_json
from plb.provisioning import Moves, ProvisioningPlan
from plb.provisioning.solver_context import ReportProgress
from workloads.provisioning.tables import writer_of


def check_endings(outputs: Sequence[Path | None]) -> None:
    """Raise `InvalidValueError` if a file name has a compression that cannot be written; None: no file.

    Call it before the search, which may take long.
    """
    for path in outputs:
        if path is not None:
            writer_of(path)


def finish(
    plan: ProvisioningPlan,
    faults: Sequence[str],
    written: Mapping[str, Path | None],
    json: Path | None,
    *,
    configuration: Mapping[str, Any],
    seed: int,
    moves: Moves | None = None,
    quiet: bool,
) -> None:
    """Print the summary table, the written files and the faults; end with exit code 1 if there are faults.

    Parameters
    ----------
    plan, faults
        The plan, and its faults.
    written
        Written files by their contents; None: not written.
    json
        File of the figures; None: none.
    configuration, seed
        Everything on which the plan depends, as plain JSON values, for the stamp of the figures.
    moves
        Moves from the present placement to the plan; None: there is no present placement.
    quiet
        True: print faults only.
    """
    console = output(quiet=quiet)
    console.print(_table(plan, moves, valid=not faults))
    for fault in faults:
        say(fault)
    for what, path in written.items():
        if path is not None:
            console.print(f"{what}: {path}")
    if json is not None:
        write_json(json, stamped(_figures(plan, moves, valid=not faults), configuration, seed))
    if faults:
        raise typer.Exit(FAILED)


@contextmanager
def progress(quiet: bool) -> Iterator[ReportProgress]:
    """Show the latest message on standard error."""
    if quiet:
        yield lambda _text: None
        return
    with messages().status("") as status:
        yield lambda text: status.update(escape(text))


def _figures(plan: ProvisioningPlan, moves: Moves | None, *, valid: bool) -> dict[str, Any]:
    figures = {
        "algorithm": plan.algorithm,
        "nodes": plan.nodes,
        "lower_bound": plan.lower_bound,
        "deviation_percent": plan.deviation_percent,
        "seconds": plan.seconds,
        "valid": valid,
    }
    if moves is None:
        return figures
    return {**figures, "moved": moves.moved, "placed": moves.placed, "removed": moves.removed}


def _table(plan: ProvisioningPlan, moves: Moves | None, *, valid: bool) -> Table:
    problem = plan.instance
    table = Table(title=f"plan for {problem.name}", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("applications", f"{len(problem.applications):,}")
    table.add_row("replicas", f"{int(problem.replicas.sum()):,}")
    table.add_row("limits between applications", f"{len(problem.affinity):,}")
    table.add_row("time points", f"{problem.time_points:,}")
    table.add_row("algorithm", plan.algorithm)
    table.add_row("nodes", f"{plan.nodes:,}")
    for number, node_type in enumerate(problem.nodes):
        if len(problem.nodes) > 1:
            table.add_row(f"  {node_type.name}", f"{int((plan.kind == number).sum()):,}")
    table.add_row("lower bound", f"{plan.lower_bound:,}")
    table.add_row("above it", f"{plan.deviation_percent:.2f} %")
    table.add_row("seconds", f"{plan.seconds:.2f}")
    if moves is not None:
        table.add_row("replicas that move", f"{moves.moved:,}")
        table.add_row("replicas that come", f"{moves.placed:,}")
        table.add_row("replicas that go", f"{moves.removed:,}")
    table.add_row("valid", "yes" if valid else "no")
    return table
