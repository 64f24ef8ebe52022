"""The tables and totals of a run. Types, files and documentation use the descriptions of columns given here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import attrs
import polars as pl

from cluster.scenario.sections import Range


@attrs.frozen
class Column:
    """A column of a table."""

    dtype: Any
    """Polars type."""
    meaning: str
    """Its content, with the unit."""
    may_be_null: bool = False
    """Whether the column may have null values."""


RUN_COLUMNS = {
    "policy": Column(pl.String, "policy of the run"),
    "repeat": Column(pl.Int32, "repeat of the run, from 0"),
}
TIME = Column(pl.Int64, "seconds since the start of the run")
NODE = Column(pl.String, "name of the node")
METRIC = Column(pl.String, "name of the metric")
TENANT = Column(pl.String, "name of the tenant; its further partitions by auto scaling have /2, /3 and so on")
ROLE = Column(pl.String, "primary, secondary or instance")

WHEN = ("before", "after")
TERMS: Mapping[str, str] = {
    "energy": "energy, the weighted sum of its terms",
    "movement": "movement term m, moves",
    "imbalance": "imbalance term I",
    "fragmentation": "fragmentation term F",
    "expected_failovers": "expected failovers V, nodes",
    "expected_overload": "expected overload O, shares of thresholds; 0 if its weight is 0",
}
"""Energies in the table of plans, before and after each plan; extension terms follow."""
EXTENSION_TERMS = "extension_terms."
"""Begin of the name of an extension term in tables and figures, before its own name."""

TABLES: Mapping[str, Mapping[str, Column]] = {
    "nodes": {
        "node": NODE,
        "fault_domain": Column(pl.String, "its fault domain"),
        "upgrade_domain": Column(pl.String, "its upgrade domain"),
    },
    "shortages": {
        "time_s": TIME,
        "node": NODE,
        "metric": METRIC,
        "standing": Column(pl.Float64, "load of the replicas on the node without departing ends, in the metric's unit"),
        "departing": Column(pl.Float64, "load of the departing ends of moves under way, in the metric's unit"),
        "threshold": Column(pl.Float64, "violation threshold f*c, in the metric's unit"),
        "outcome": Column(
            pl.String,
            "violation: the shortage started a failover; covered: moves under way suffice; unresolved: no move helps. "
            "A violation is one node and time, whatever its number of metrics (rows)",
        ),
        "avoidable": Column(
            pl.Boolean,
            "false: one replica that stays on the node reaches alone the largest threshold of the metric among all "
            "nodes, so that no placement prevents the shortage; a violation is avoidable if all its rows are",
        ),
    },
    "moves": {
        "time_s": TIME,
        "tenant": TENANT,
        "role": ROLE,
        "kind": Column(
            pl.String,
            "move, swap (of primary and secondary) or promote (after the loss of the primary); a restart on another "
            "node is a move with nothing to copy",
        ),
        "source": Column(pl.String, "node that the replica leaves; null if a secondary is promoted", may_be_null=True),
        "target": Column(pl.String, "node that the replica moves to"),
        "phase": Column(pl.String, "phase of the engine: placement, repair or balancing"),
        "cause": Column(pl.String, "violation, balancing, placement, node fault, upgrade, energy, or the broken rule"),
        "rule": Column(pl.String, "rule of the engine behind the move, such as capacity, eviction or energy"),
        "failover": Column(pl.Boolean, "true for all moves except those of balancing"),
        "metric": Column(pl.String, "metric with the shortage, if the cause is a violation", may_be_null=True),
        "copied_gb": Column(pl.Float64, "data to copy, GB"),
        "end_s": Column(
            pl.Int64, "end of the copy or of the tenant's stay; null if the run ended earlier", may_be_null=True
        ),
        "outcome": Column(
            pl.String,
            "completed, departed (the tenant left first), failed (a node was lost) or under way (at the run's end)",
        ),
        "why": Column(pl.String, "the reason in words"),
    },
    "refusals": {
        "time_s": TIME,
        "tenant": TENANT,
        "role": ROLE,
        "attempt": Column(pl.Int32, "number of the attempt: 1 when the replica is first missing, +1 at each metering"),
        "ruled_out": Column(pl.String, "nodes ruled out by each rule, as JSON"),
        "nodes": Column(pl.Int32, "nodes of the cluster"),
    },
    "plans": {
        "time_s": TIME,
        "occasion": Column(
            pl.String, "arrival, retry, constraint check, balancing, rebuild, node fault, upgrade or scaling"
        ),
        "moves": Column(pl.Int32, "number of moves, new replicas included"),
        "unplaced": Column(pl.Int32, "replicas that could not be placed"),
        "end_reason": Column(pl.String, "why the search ended"),
        "drawn": Column(pl.Int64, "proposals generated"),
        "scored": Column(pl.Int64, "proposals that passed the constraints"),
        "reached_monte_carlo": Column(pl.Int64, "proposals whose repetitions were evaluated"),
        "accepted": Column(pl.Int64, "proposals accepted"),
        **{
            f"{term}_{when}": Column(pl.Float64, f"{meaning}, {when} the plan")
            for when in WHEN
            for term, meaning in TERMS.items()
        },
    },
    "interruptions": {
        "tenant": TENANT,
        "begin_s": Column(pl.Int64, "begin of the unavailability, seconds since the start"),
        "end_s": Column(
            pl.Float64, "end of the unavailability; null if not before the end of the run", may_be_null=True
        ),
        "cause": Column(
            pl.String, "violation, balancing, placement, node fault, upgrade, quorum loss, or a constraint"
        ),
    },
    "node_events": {
        "time_s": TIME,
        "node": NODE,
        "goes_down": Column(pl.Boolean, "true: the node goes down; false: it comes back"),
        "cause": Column(pl.String, "node fault or upgrade"),
    },
    "upgrades": {
        "upgrade": Column(pl.Int32, "number of the rolling upgrade, from 0"),
        "domain": Column(pl.String, "upgrade domain"),
        "begin_s": Column(pl.Int64, "begin, seconds since the start"),
        "end_s": Column(pl.Int64, "end of its health check; null if not before the end of the run", may_be_null=True),
        "rolls_back": Column(pl.Boolean, "whether the domain returns to its previous version"),
        "outcome": Column(
            pl.String, "healthy, unhealthy, unsafe (a tenant would have lost its quorum for too long) or under way"
        ),
    },
    "scalings": {
        "time_s": TIME,
        "tenant": TENANT,
        "mechanism": Column(pl.String, "instances or partitions"),
        "before": Column(pl.Int32, "number of instances or partitions before"),
        "after": Column(pl.Int32, "number afterwards"),
        "load": Column(pl.Float64, "mean load of the tenant's replicas, in the metric's unit"),
    },
    "node_load": {
        "time_s": TIME,
        "node": NODE,
        "metric": METRIC,
        "load": Column(pl.Float64, "metered load, both ends of moves counted, in the metric's unit"),
        "share": Column(pl.Float64, "load by capacity; null where there is no capacity", may_be_null=True),
    },
    "tenants": {
        "tenant": TENANT,
        "tenant_class": Column(pl.String, "tenant class"),
        "replicas": Column(pl.Int32, "target number of replicas"),
        "arrival_s": Column(pl.Int64, "arrival, seconds since the start"),
        "departure_s": Column(pl.Int64, "departure, seconds since the start; may be after the end of the run"),
        "refused": Column(pl.Boolean, "whether a replica could not be placed at the arrival"),
        "waiting_s": Column(pl.Int64, "time until a quorum of its replicas is first placed"),
        "downtime_s": Column(pl.Float64, "time for which it was unavailable: interruptions, without overlaps"),
        "availability": Column(
            pl.Float64, "share of its stay for which it was available; null for a stay of 0 s", may_be_null=True
        ),
        "failovers": Column(pl.Int32, "failovers of its replicas"),
    },
}
"""Columns by table; `RUN_COLUMNS` come first in each table."""


def columns_of(table: str, extension_terms: Iterable[str] = ()) -> dict[str, Column]:
    """Return all columns, by name, of the table of `TABLES` with this name; the columns of the run come first.

    `extension_terms`: the names of the extension terms of which the table of plans has columns.
    """
    columns = {**RUN_COLUMNS, **TABLES[table]}
    if table == "plans":
        for term in extension_terms:
            for when in WHEN:
                columns[f"{EXTENSION_TERMS}{term}_{when}"] = Column(
                    pl.Float64, f"extension term {term}, without its weight, {when} the plan"
                )
    return columns


def extension_terms_of(columns: Iterable[str]) -> list[str]:
    """Return the names of the extension terms with columns in a table of plans, which has these columns."""
    ends = tuple(f"_{when}" for when in WHEN)
    names = (
        column.removeprefix(EXTENSION_TERMS).rpartition("_")[0]
        for column in columns
        if column.startswith(EXTENSION_TERMS) and column.endswith(ends)
    )
    return list(dict.fromkeys(names))


def terms_of(plans: pl.DataFrame) -> dict[str, str]:
    """Return the meanings of the energies in a table of plans by name: `TERMS`, and the extension terms."""
    extension_terms = extension_terms_of(plans.columns)
    return {**TERMS, **{f"{EXTENSION_TERMS}{term}": f"extension term {term}" for term in extension_terms}}


def term_text(term: str) -> str:
    """Return the name of an energy as plots and reports show it."""
    return term.removeprefix(EXTENSION_TERMS) if term.startswith(EXTENSION_TERMS) else term.replace("_", " ")


def frame_of(table: str, policy: str, repeat: int, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Return a table of a run as a data frame; `columns`: values by name, for all columns except `RUN_COLUMNS`."""
    described_columns = columns_of(table, extension_terms_of(columns))
    frame = pl.DataFrame(
        {
            name: pl.Series(name, columns[name], column.dtype)
            for name, column in described_columns.items()
            if name not in RUN_COLUMNS
        }
    )
    run_columns = pl.lit(policy, pl.String).alias("policy"), pl.lit(repeat, pl.Int32).alias("repeat")
    return frame.select(*run_columns, pl.all())


def frame_of_rows(
    table: str, policy: str, repeat: int, rows: list[tuple[Any, ...]], extension_terms: Sequence[str] = ()
) -> pl.DataFrame:
    """Return a table of a run from rows that have its columns in order, without `RUN_COLUMNS`."""
    names = [name for name in columns_of(table, extension_terms) if name not in RUN_COLUMNS]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return frame_of(table, policy, repeat, dict(zip(names, map(list, columns), strict=True)))


def column_descriptions(extension_terms: Iterable[str] = ()) -> dict[str, dict[str, dict[str, str]]]:
    """Return type and meaning of every column by table, as plain values for documentation and ``columns.json``."""
    terms = [*extension_terms]
    return {
        table: {
            name: {"type": str(column.dtype()), "meaning": column.meaning}
            for name, column in columns_of(table, terms).items()
        }
        for table in TABLES
    }


VIOLATION, BALANCING, PLACEMENT = "violation", "balancing", "placement"
FAULT, UPGRADE, QUORUM_LOSS = "node fault", "upgrade", "quorum loss"
CAUSES_OF_MOVES = (VIOLATION, BALANCING, PLACEMENT, FAULT, UPGRADE)
"""A move that repairs a rule of the engine has the name of that rule as its cause."""
REPAIRING_NOTHING = ("energy", "surplus")
"""Reasons of the engine that break no rule: lower energy, and replicas beyond the target number."""


def cause_text(cause: str) -> str:
    """Return a cause as plots and reports show it: names of rules get the prefix "rule"."""
    return cause if cause in {*CAUSES_OF_MOVES, QUORUM_LOSS, *REPAIRING_NOTHING} else f"rule {cause}"


LARGEST = 1e15
"""Maximum absolute value of numbers in results, so that their sums are finite and exact."""
Count: TypeAlias = Annotated[int, Range(high=LARGEST, whole=True)]
Amount: TypeAlias = Annotated[float, Range(high=LARGEST)]
Number: TypeAlias = Annotated[float, Range(low=-LARGEST, high=LARGEST)]
Share: TypeAlias = Annotated[float, Range(low=-1e-9, high=1.0 + 1e-9)]
"""A number from 0 to 1, but for rounding."""


@attrs.frozen
class ApplicationTotals:
    """The use of one application: means and maxima over the meterings; loads by metric."""

    nodes: Amount
    """Mean number of nodes with a replica of the application."""
    most_nodes: Count
    """Largest number of such nodes."""
    load: Mapping[str, Amount]
    """Mean load of the application."""
    largest_load: Mapping[str, Amount]
    """Largest load of the application."""
    largest_load_on_node: Mapping[str, Amount]
    """Largest load of the application on one node. All loads are in the units of the metrics."""


@attrs.frozen(kw_only=True)
class RunTotals:
    """The figures of a run in ``summary.json``."""

    simulated_seconds: Amount
    """Seconds from the start to the end of the run."""
    tenants: Count
    """Number of tenants that arrived."""
    violations: Count
    violations_avoidable: Count
    violations_unavoidable: Count
    """Numbers of violations, each a node and a time: all, avoidable and unavoidable."""
    violations_reported: Count
    """Number of violations by the reported loads: nodes and times at which these loads reach a threshold and a move
    relieves the node. It equals `violations`, which go by demand, without an oracle, and is at least as large with one.
    """
    violation_rows: Count
    """Violations by metric: rows of the table of shortages."""
    shortages_covered: Count
    shortages_unresolved: Count
    shortages_unresolved_unavoidable: Count
    """Numbers of shortages, each a node and a time: covered by moves under way, relieved by no move, and both relieved
    by no move and unavoidable."""
    violated_node_minutes: Amount
    """Minutes of all nodes at or above a threshold."""
    failovers: Count
    failovers_by_cause: Mapping[str, Count]
    """Moves except moves of balancing: all, and by cause."""
    moves: Count
    moves_by_cause: Mapping[str, Count]
    """All moves, and by cause."""
    swaps: Count
    """Moves that exchange the roles of a primary and a secondary."""
    copied_gb: Amount
    """Data that moves copy, GB."""
    placement_failures: Count
    """Tenants with a replica that could not be placed on arrival."""
    refusals: Count
    """Failed attempts to place a replica."""
    downtime_seconds: Amount
    """Seconds without service, over all tenants."""
    availability: Share | None
    """Share of the stays of all tenants with service; None without any stay."""
    quorum_losses: Count
    """Number of losses of a quorum."""
    node_faults: Count
    """Number of faults of nodes."""
    upgraded_domains: Count
    """Number of upgrade domains that were upgraded and healthy."""
    rolled_back_domains: Count
    """Number of steps of upgrades that returned a domain to its previous version."""
    scale_outs: Count
    scale_ins: Count
    """Numbers of increases and of decreases by auto scaling."""
    waiting_seconds: Count
    """Seconds until a quorum of the replicas had a place, over all tenants."""
    plans: Count
    """Number of plans."""
    proposals_drawn: Count
    proposals_scored: Count
    """Proposals generated, and proposals that passed the constraints."""
    applications: Mapping[str, ApplicationTotals] = attrs.Factory(dict)
    """Use of each application, by name."""
    extension_terms: Mapping[str, Number] = attrs.Factory(dict)
    """Mean over time of each extension term, by name, without its weight."""

    def as_json(self) -> dict[str, Any]:
        """Return the figures by name, without applications and extension terms if there are none."""
        return attrs.asdict(self, filter=lambda field, value: bool(value) or field.default is attrs.NOTHING)
