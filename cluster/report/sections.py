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
from cluster.simulation.run_tables import WHEN, term_text, terms_of
from plb.model.move import MoveKind, Phase

SLOWEST_SHOWN = 20
"""Plans in the table of the slowest, of all runs together."""


def domains_blocks(material: Material) -> Sequence[Block]:
    """Return the pictures and tables of how many replicas moved between fault domains."""
    nodes = material.results.table("nodes")
    moves_and_nodes = {
        policy: (material.moves.filter(policy=policy), nodes.filter(policy=policy)) for policy in material.policies
    }
    matrices = {policy: domain_moves(*frames) for policy, frames in moves_and_nodes.items()}
    if not any(matrix.counts.any() for matrix in matrices.values()):
        return (Text("No replica moved to another node."),)
    blocks: list[Block] = [Text(f"From the domain of the row to that of the column{material.of_sums}.")]
    most_domains = max(len(matrix.domains) for matrix in matrices.values())
    pictures = tuple(
        picture(
            partial(plot_domain_moves, moves=frames[0], nodes=frames[1]),
            policy,
            f"Matrix of the moves between fault domains under {policy}.",
            width=min(6.0, 2.5 + 0.4 * most_domains),
            height=min(5.5, 2.0 + 0.4 * most_domains),
        )
        for policy, frames in moves_and_nodes.items()
    )
    blocks.append(Gallery(pictures))
    if most_domains > MOST_NUMBERED:
        blocks.append(Text(f"With more than {MOST_NUMBERED} fault domains, the numbers are left to moves.parquet."))
    else:
        tables = (_matrix(f"Moves under {policy}{material.of_sums}.", matrix) for policy, matrix in matrices.items())
        blocks.append(Tables(tuple(tables)))
    return blocks


def _matrix(caption: str, matrix: DomainMoves) -> PageTable:
    """Return a table of the moves between fault domains, with the sums of rows and columns."""
    rows = [(name, *map(count, row), count(row.sum())) for name, row in zip(matrix.domains, matrix.counts, strict=True)]
    sums = ("all", *map(count, matrix.counts.sum(axis=0)), count(matrix.counts.sum()))
    return PageTable(caption, ("from \\ to", *matrix.domains, "all"), (*rows, sums))


def energy_blocks(material: Material) -> Sequence[Block]:
    """Return the plots of the energy and of its terms after every plan of the shown repeat."""
    plans = material.plans.filter(repeat=material.shown_repeat)
    if not len(plans):
        return (Text("The engine made no plan."),)
    terms = terms_of(plans)
    used = [term for term in terms if np.any(plans[f"{term}_after"].fill_null(0.0).to_numpy() != 0.0)]
    unused = [term_text(term) for term in terms if term not in used]
    description = (
        f"After each plan{material.of_shown}: the energy, which is the weighted sum of the terms, and each term before "
        "it is weighted. Energies are comparable only between policies with the same weights."
    )
    if unused:
        description += f" Always 0, so not shown: {', '.join(unused)}."
    pictures = tuple(
        picture(
            partial(plot_energy, plans=plans, term=term, policies=material.shown_policies, days=material.days),
            f"{terms[term]}.",
            f"{terms[term]} after every plan over simulated time, a line a policy.",
        )
        for term in used
    )
    return (Text(description), Gallery(pictures)) if pictures else (Text(description),)


def slowest_blocks(material: Material) -> Sequence[Block]:
    """Return the table of the plans that took longest."""
    slowest = [
        (run.policy, run.repeat, plan.plan, plan.seconds) for run in material.results.runs for plan in run.slowest
    ]
    schema = {"policy": pl.String, "repeat": pl.Int32, "plan": pl.Int64, "seconds": pl.Float64}
    frame = pl.DataFrame(slowest, schema=schema, orient="row").join(material.plans, on=["policy", "repeat", "plan"])
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
    """Return the table of the rules that prevented placements."""
    refusals = material.results.table("refusals")
    if not len(refusals):
        return (Text("Every replica was placed."),)
    refusal_counts: Counter[tuple[str, str]] = Counter()
    node_counts: Counter[tuple[str, str]] = Counter()
    for policy, ruled_out in refusals.select("policy", "ruled_out").iter_rows():
        for rule, ruled_out_nodes in _by_rule(material, ruled_out).items():
            refusal_counts[rule, policy] += 1
            node_counts[rule, policy] += ruled_out_nodes
    refusals_by_policy = dict(refusals.group_by("policy").len().iter_rows())
    rows = tuple(
        (rule, policy, count(refusal_counts[rule, policy]), count(node_counts[rule, policy]))
        for rule, policy in sorted(refusal_counts)
    )
    totals = "; ".join(f"{policy}: {refusals_by_policy.get(policy, 0):,}" for policy in material.policies)
    caption = f"Number of refusals in which each rule excluded nodes, and number of these nodes{material.of_sums}."
    return (
        Text(f"Refusals, each an attempt to place a replica: {totals}."),
        PageTable(caption, ("rule", "policy", "refusals", "nodes ruled out"), rows, left=2),
    )


def _by_rule(material: Material, ruled_out: str) -> dict[str, int]:
    """Return how many nodes each rule ruled out, from the JSON of a refusal; rules that ruled out none are omitted."""
    try:
        nodes_by_rule = json.loads(ruled_out)
        return {str(rule): int(nodes) for rule, nodes in nodes_by_rule.items() if int(nodes) > 0}
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
    """Name of the policy."""
    repeat: str
    """Number of the repeat, from 1."""
    tenant: str
    """Name of the tenant."""
    cause: str
    """The cause, as in the table of moves. The page selects moves by these four."""
    cells: tuple[str, ...]
    """Time, tenant, role and kind, from, to, phase, cause and outcome."""
    why: str
    """The engine's reason in words."""
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
    """Return the moves that a report lists: the first moves of every run."""
    run_count = len(material.results.runs)
    most_per_run = min(MOST_MOVES, max(1, MOST_IN_ALL // run_count))
    moves_of_runs = [
        material.moves.filter(policy=run.policy, repeat=run.repeat)
        .sort("time_s", maintain_order=True)
        .head(most_per_run)
        for run in material.results.runs
    ]
    frame = _with_plans(pl.concat(moves_of_runs), material.plans)
    folder = str(material.results.folder)
    terms = [*terms_of(material.plans)]
    moves = tuple(_moved(row, folder, terms) for row in frame.iter_rows(named=True))
    total = len(material.moves)
    left_out = (
        f"The first {most_per_run:,} moves of each run: {len(moves):,} of {total:,}. All are in runs/*/moves.parquet."
        if len(moves) < total
        else ""
    )
    return MoveList(moves, left_out)


def _with_plans(moves: pl.DataFrame, plans: pl.DataFrame) -> pl.DataFrame:
    """Return the table of moves with the energies of the plan of each move, if only one plan has its time and phase.

    Promotions get none: they are in no plan.
    """
    keys = ["policy", "repeat", "time_s", "phase"]
    energies = [f"{term}_{when}" for term in terms_of(plans) for when in WHEN]
    phase = pl.col("occasion").replace_strict(OCCASIONS, default=Phase.PLACEMENT.value, return_dtype=pl.String)
    unambiguous_plans = (
        plans.filter(pl.col("moves") > 0)
        .with_columns(phase.alias("phase"))
        .filter(pl.len().over(keys) == 1)
        .select(*keys, *energies)
    )
    joined = moves.join(unambiguous_plans, on=keys, how="left", maintain_order="left")
    is_planned = pl.col("kind") != MoveKind.PROMOTE.value
    return joined.with_columns(pl.when(is_planned).then(pl.col(name)).alias(name) for name in energies)


def _moved(row: Mapping[str, Any], folder: str, terms: Sequence[str]) -> Moved:
    """Return a row of the table of moves, with energies, as the page shows it.

    `folder`: the results directory; `terms`: the names of the energies.
    """
    energies = tuple(
        (term_text(term), amount(row[f"{term}_before"]), amount(row[f"{term}_after"]))
        for term in terms
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
        terms=energies,
        command=shlex.join(command),
    )
