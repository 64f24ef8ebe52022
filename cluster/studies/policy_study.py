"""Studies of policies: the arms of a study run on the same tenants, and their violations are compared."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from cluster.studies.design import SimulatedStudy
from cluster.studies.figures import (
    ArmFigures,
    Claim,
    ClaimTable,
    Violations,
    as_json,
    figure_of_settings,
    means_of,
    table_of_arms,
    table_of_claims,
    table_of_settings,
    violations_of,
)
from cluster.studies.runner import Finished, Row, StudyResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PolicyStudy(SimulatedStudy):
    """A study that compares the violations of arms."""

    compared: ClassVar[str]
    """The arm to whose failovers, moves and downtime those of the others are compared."""
    plot: ClassVar[str]
    """File name of the plot."""

    @abstractmethod
    def claims(self, violations: Violations) -> list[Claim]:
        """Return the figures of a paper with ours."""

    @abstractmethod
    def tables(self, violations: Violations) -> Sequence[ClaimTable]:
        """Return mean violations by setting. The plot is of the first table."""

    def figure(self, table: ClaimTable, title: str) -> Figure:
        """Return the plot of the violations by setting."""
        return figure_of_settings(table, title)

    def result(self, finished: Finished) -> StudyResult:
        """Return violations, ratios and costs; without a setting that all arms share, there is no table and no plot."""
        violations = violations_of(self.design.settings, finished.rows)
        if not all(arm.name in violations.counts for arm in self.design.arms):
            return StudyResult(as_json(self.name, violations, (), {}), plots={self.plot: None})
        claims, tables = self.claims(violations), self.tables(violations)
        arms = self._costs(finished.rows)
        title = f"{self.name}{tables[0].remark}: violations, {means_of(violations.repeats)}"
        return StudyResult(
            as_json(self.name, violations, claims, arms),
            (
                *(table_of_settings(table, f"{self.name}{table.remark}", violations.repeats) for table in tables),
                table_of_claims(claims, f"{self.name}: ratios"),
                table_of_arms(arms, self.compared, self.name),
            ),
            {self.plot: partial(self.figure, tables[0], title)},
        )

    def _costs(self, rows: Sequence[Row]) -> dict[str, ArmFigures]:
        """Return failovers, moves, downtime and tenants not placed of each arm."""
        totals = [
            violations_of(self.design.settings, rows, violations)
            for violations in ("failovers", "moves", "downtime_seconds")
        ]
        costs = {}
        for arm in self.design.arms:
            of_arm = [row for row in rows if row["arm"] == arm.name]
            tenants, refused = (sum(row[total] for row in of_arm) for total in ("tenants", "placement_failures"))
            failovers, moves, downtime = (violations.ratio([arm.name], self.compared) for violations in totals)
            costs[arm.name] = ArmFigures(failovers, moves, downtime, refused / tenants)
        return costs
