"""The sections on moves between domains, energies, slow decisions and refusals, and the moves with their reasons."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np
import polars as pl

from cluster.errors import ResultsError
from cluster.plots.moves import MOST_NUMBERED, DomainMoves, domain_moves, plot_domain_moves, plot_energy
from cluster.report.blocks import (
    Block,
    Gallery,
    Material,
    PageTable,
    Tables,
    Text,
    amount,
    moment,
    picture,
)
from cluster.results.summary_tables import count
from cluster.simulation.run_tables import TERMS
from plb.model.move import MoveKind, Phase

SLOWEST_SHOWN = 20
"""Plans in the table of the slowest, of all runs together."""


def domains_blocks(material: Material) -> Sequence[Block]:
    """Return how many replicas moved from each fault domain to each other one."""
    nodes = material.results.table("nodes")
    by_policy = {
        policy: (material.moves.filter(policy=policy), nodes.filter(policy=policy)) for policy in material.policies
    }
    counts = {policy: domain_moves(*frames) for policy, frames in by_policy.items()}
    if not any(matrix.counts.any() for matrix in counts.values()):
        return (Text("No replica moved to another node."),)
    blocks: list[Block] = [Text(f"From the domain of the row to that of the column{material.of_sums}.")]
    size = max(len(matrix.domains) for matrix in counts.values())
    pictures = tuple(
        picture(
            partial(plot_domain_moves, moves=frames[0], nodes=frames[1]),
            policy,
            f"Matrix of the moves between fault domains under {policy}.",
            width=min(6.0, 2.5 + 0.4 * size),
            height=min(5.5, 2.0 + 0.4 * size),
        )
        for policy, frames in by_policy.items()
    )
    blocks.append(Gallery(pictures))
    if size > MOST_NUMBERED:
        blocks.append(Text(f"With more than {MOST_NUMBERED} fault domains, the numbers are left to moves.parquet."))
    else:
        tables = (_matrix(f"Moves under {policy}{material.of_sums}.", matrix) for policy, matrix in counts.items())
        blocks.append(Tables(tuple(tables)))
    return blocks


def _matrix(caption: str, between: DomainMoves) -> PageTable:
    """Return the matrix with its sums."""
    rows = [
        (name, *map(count, row), count(row.sum())) for name, row in zip(between.domains, between.counts, strict=True)
    ]
    sums = ("all", *map(count, between.counts.sum(axis=0)), count(between.counts.sum()))
    return PageTable(caption, ("from \\ to", *between.domains, "all"), (*rows, sums))


def energy_blocks(material: Material) -> Sequence[Block]:
    """Return the energy and its terms after every plan."""
    plans = material.plans.filter(repeat=material.shown_repeat)
    if not len(plans):
        return (Text("The engine made no plan."),)
    used = [term for term in TERMS if np.any(plans[f"{term}_after"].to_numpy() != 0.0)]
    unused = [term.replace("_", " ") for term in TERMS if term not in used]
    description = (
        f"After each plan{material.of_shown}: the energy, which is the weighted sum of the terms, and each term before "
        "it is weighted. Energies are comparable only between policies with the same weights."
    )
    if unused:
        description += f" Always 0, so not shown: {', '.join(unused)}."
    pictures = tuple(
        picture(
            partial(plot_energy, plans=plans, term=term, policies=material.shown_policies, days=material.days),
            f"{TERMS[term]}.",
            f"{TERMS[term]} after every plan over simulated time, a line a policy.",
        )
        for term in used
    )
    return (Text(description), Gallery(pictures)) if pictures else (Text(description),)


def slowest_blocks(material: Material) -> Sequence[Block]:
    """Return the plans that took longest."""
    slowest = [
        (run.policy, run.repeat, slow.plan, slow.seconds) for run in material.results.runs for slow in run.slowest
    ]
    names = {"policy": pl.String, "repeat": pl.Int32, "plan": pl.Int64, "seconds": pl.Float64}
    frame = pl.DataFrame(slowest, schema=names, orient="row").join(material.plans, on=["policy", "repeat", "plan"])
    if not len(frame):
        return (Text("The engine made no plan."),)
    columns = ("time_s", "seconds", "occasion", "moves", "unplaced", "drawn", "scored", "accepted", "end_reason")
    ordered = frame.sort("seconds", descending=True, maintain_order=True).head(SLOWEST_SHOWN)
    rows = tuple(
        (
            *(policy, str(repeat + 1), occasion, reason, moment(time), f"{1000.0 * seconds:,.1f}"),
            *map(count, (moves, unplaced, drawn, scored, accepted)),
        )
        for policy, repeat, time, seconds, occasion, moves, unplaced, drawn, scored, accepted, reason in ordered.select(
            "policy", "repeat", *columns
        ).iter_rows()
    )
    introduction = Text(
        "In milliseconds of wall-clock time. They differ between runs of the scenario; nothing else on this page "
        "differs, except the column wall (s) of the comparison."
    )
    caption = f"The {len(rows)} slowest plans of all runs."
    searched = ("moves", "not placed", "proposals generated", "scored", "accepted")
    headings = ("policy", "repeat", "occasion", "search ended by", "simulated time", "ms", *searched)
    return (introduction, PageTable(caption, headings, rows, left=4))


def refusals_blocks(material: Material) -> Sequence[Block]:
    """Return the rules that prevented placements."""
    refusals = material.results.table("refusals")
    if not len(refusals):
        return (Text("Every replica was placed."),)
    tries: Counter[tuple[str, str]] = Counter()
    nodes: Counter[tuple[str, str]] = Counter()
    for policy, ruled_out in refusals.select("policy", "ruled_out").iter_rows():
        for rule, number in _by_rule(material, ruled_out).items():
            tries[rule, policy] += 1
            nodes[rule, policy] += number
    of_policy = dict(refusals.group_by("policy").len().iter_rows())
    rows = tuple(
        (rule, policy, count(tries[rule, policy]), count(nodes[rule, policy])) for rule, policy in sorted(tries)
    )
    totals = "; ".join(f"{policy}: {of_policy.get(policy, 0):,}" for policy in material.policies)
    caption = f"Number of refusals in which each rule excluded nodes, and number of these nodes{material.of_sums}."
    return (
        Text(f"Refusals, each an attempt to place a replica: {totals}."),
        PageTable(caption, ("rule", "policy", "refusals", "nodes ruled out"), rows, left=2),
    )


def _by_rule(material: Material, ruled_out: str) -> dict[str, int]:
    """Return how many nodes each rule ruled out, without rules that ruled out none."""
    try:
        numbers = json.loads(ruled_out)
        return {str(rule): int(number) for rule, number in numbers.items() if int(number) > 0}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        problem = f"refusals: ruled_out: found {ruled_out!r:.60}; expected numbers of nodes by rule, as JSON"
        raise ResultsError(material.results.folder, [problem]) from None


MOST_MOVES = 2000
"""Moves of a run that a report lists."""
MOST_IN_ALL = 4000
"""Number of moves of all runs that a report lists, so that browsers are fast."""
OCCASIONS: Mapping[str, str] = {"constraint check": Phase.REPAIR.value, "balancing": Phase.BALANCING.value}
"""Phases by the occasion of a plan; all others are `Phase.PLACEMENT`."""


@attrs.frozen
class Moved:
    """A move as the page shows it, as text."""

    policy: str
    repeat: str
    tenant: str
    cause: str
    """The values by which the page selects moves."""
    cells: tuple[str, ...]
    """Time, tenant, role and kind, from, to, phase, cause and outcome."""
    why: str
    """The text of the engine."""
    terms: tuple[tuple[str, str, str], ...]
    """Name, value before and value after, of the energy and of each of its terms that is not always 0."""
    command: str
    """The command line that explains the move."""


@attrs.frozen
class MoveList:
    """The moves that a report lists."""

    moves: tuple[Moved, ...]
    """By time, policy and repeat."""
    left_out: str
    """Which moves are omitted; empty if none are."""

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
    """Add the energies of the plan of each move but promotions, if only one plan has its time and phase."""
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
