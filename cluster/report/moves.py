"""The moves of a report, each with its reason and with the energies of its plan."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import attrs
import polars as pl

from cluster.report.blocks import amount, moment
from cluster.report.material import Material
from cluster.simulation.run_tables import TERMS
from plb.model.move import MoveKind, Phase

MOST_MOVES = 2000
"""Moves of a run that a report lists."""
MOST_IN_ALL = 4000
"""Number of moves of all runs that a report lists, so that browsers are fast."""
OCCASIONS: Mapping[str, str] = {"constraint check": Phase.REPAIR.value, "balancing": Phase.BALANCING.value}
"""Phases by the occasion of a plan; all others are `Phase.PLACEMENT`."""


@attrs.frozen
class Moved:
    """A move as the page shows it, as text.

    Parameters
    ----------
    policy, repeat, tenant, cause
        The values by which the page selects moves.
    cells
        Time, tenant, role and kind, from, to, phase, cause and outcome.
    why
        The text of the engine.
    terms
        Name, value before and value after, of the energy and of each of its terms that is not always 0.
    command
        The command line that explains the move.
    """

    policy: str
    repeat: str
    tenant: str
    cause: str
    cells: tuple[str, ...]
    why: str
    terms: tuple[tuple[str, str, str], ...]
    command: str


@attrs.frozen
class MoveList:
    """The moves that a report lists.

    Parameters
    ----------
    moves
        By time, policy and repeat.
    left_out
        Which moves are omitted; empty if none are.
    """

    moves: tuple[Moved, ...]
    left_out: str

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies with moves."""
        return tuple(dict.fromkeys(move.policy for move in self.moves))

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes of the moves."""
        return tuple(sorted({move.cause for move in self.moves}))


def listed_moves(material: Material) -> MoveList:
    """Return the moves that a report lists: the first ones of every run."""
    runs = len(material.results.runs)
    most = min(MOST_MOVES, max(1, MOST_IN_ALL // runs))
    chosen = [
        material.moves.filter(policy=run.policy, repeat=run.repeat).sort("time_s", maintain_order=True).head(most)
        for run in material.results.runs
    ]
    frame = _with_plans(pl.concat(chosen), material.plans)
    folder = str(material.results.folder)
    moves = tuple(_moved(row, folder) for row in frame.iter_rows(named=True))
    total = len(material.moves)
    left_out = (
        f"The first {most:,} moves of each run: {len(moves):,} of {total:,}. All are in runs/*/moves.parquet."
        if len(moves) < total
        else ""
    )
    return MoveList(moves, left_out)


def _with_plans(moves: pl.DataFrame, plans: pl.DataFrame) -> pl.DataFrame:
    """Add the energies of the plan of each move, if only one plan has its time and phase.

    The promotion of a secondary after the loss of the primary belongs to no plan.
    """
    keys = ["policy", "repeat", "time_s", "phase"]
    energies = [f"{term}_{when}" for term in TERMS for when in ("before", "after")]
    phase = pl.col("occasion").replace_strict(OCCASIONS, default=Phase.PLACEMENT.value, return_dtype=pl.String)
    only = (
        plans.filter(pl.col("moves") > 0)
        .with_columns(phase.alias("phase"))
        .filter(pl.len().over(keys) == 1)
        .select(*keys, *energies)
    )
    joined = moves.join(only, on=keys, how="left", maintain_order="left")
    planned = pl.col("kind") != MoveKind.PROMOTE.value
    return joined.with_columns(pl.when(planned).then(pl.col(name)).alias(name) for name in energies)


def _moved(row: Mapping[str, Any], folder: str) -> Moved:
    terms = tuple(
        (term.replace("_", " "), amount(row[f"{term}_before"]), amount(row[f"{term}_after"]))
        for term in TERMS
        if row[f"{term}_before"] or row[f"{term}_after"]
    )
    cells = (
        *(moment(row["time_s"]), row["tenant"], f"{row['role']}, {row['kind']}", row["source"] or "-", row["target"]),
        *(row["phase"], row["cause"], row["outcome"]),
    )
    command = ["plb", "explain", folder, "--partition", row["tenant"], "--time", str(row["time_s"])]
    command += ["--policy", row["policy"], "--repeat", str(row["repeat"] + 1)]
    return Moved(
        policy=row["policy"],
        repeat=str(row["repeat"] + 1),
        tenant=row["tenant"],
        cause=row["cause"],
        cells=cells,
        why=row["why"],
        terms=terms,
        command=shlex.join(command),
    )
