"""The data of a report: the tables of a results directory, each read once."""

from __future__ import annotations

from functools import cached_property

import polars as pl

from cluster.results.policy_comparison import Comparison, compare
from cluster.results.reading import Results


class Material:
    """A results directory with the tables that a report needs.

    Parameters
    ----------
    results
        The directory, with at least one run.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        self.comparison: Comparison = compare(results.runs, results.policies)
        self.policies = self.comparison.policies
        self.repeats = {policy: results.repeats(policy) for policy in self.policies}
        self.lengths = {policy: results.lengths(policy) for policy in self.policies}
        self.days = max(results.days, 1e-6)
        self.shown_repeat = results.shown_repeat
        """The repeat in plots of a single repeat."""

    @property
    def of_shown(self) -> str:
        """The repeat of a plot, for captions."""
        return "" if max(map(len, self.repeats.values())) == 1 else f", repeat {self.shown_repeat + 1}"

    @property
    def of_sums(self) -> str:
        """The repeats over which a table sums, for captions."""
        return "" if max(map(len, self.repeats.values())) == 1 else ", all repeats together"

    @property
    def shown_policies(self) -> tuple[str, ...]:
        """The policies with a run of the shown repeat."""
        return tuple(policy for policy in self.policies if self.shown_repeat in self.repeats[policy])

    @cached_property
    def moves(self) -> pl.DataFrame:
        """The moves of all runs."""
        return self.results.table("moves")

    @cached_property
    def plans(self) -> pl.DataFrame:
        """The plans of all runs, with their ``plan``: their row in the table of the run."""
        return self.results.table("plans").with_columns(
            pl.int_range(pl.len(), dtype=pl.Int64).over("policy", "repeat").alias("plan")
        )

    @cached_property
    def node_load(self) -> pl.DataFrame:
        """The loads by capacity of the shown repeat."""
        return self.results.table("node_load", repeat=self.shown_repeat).filter(pl.col("share").is_not_null())
