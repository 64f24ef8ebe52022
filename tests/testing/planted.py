"""A right term of every kind, and errors planted into each of them, one a class."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE
from plb.extensions.configuration import Configuration, Proposal


class Crowding:
    """Σ over nodes and metrics of the squared load: with sums of its own, and increments from them."""

    name = "crowding"
    kind: type = np.float64

    def begin(self, configuration: Configuration) -> None:
        """Add up the load of every node."""
        self.load = np.zeros((configuration.nodes, configuration.problem.load.shape[1]), self.kind)
        for row in configuration.rows:
            if configuration.node_of(row) != NOWHERE:
                self.load[configuration.node_of(row)] += configuration.load_of(row)

    def total(self, configuration: Configuration) -> float:
        """Return the sum over all nodes."""
        return float((configuration.loads**2).sum())

    def after(self, configuration: Configuration, proposal: Proposal) -> dict[int, np.ndarray]:
        """Return the load of each node concerned after a proposal."""
        load: dict[int, np.ndarray] = {}
        for row, source, target in configuration.relocations(proposal):
            for node, sign in ((source, -1), (target, 1)):
                if node != NOWHERE:
                    load[node] = load.get(node, self.load[node]) + sign * configuration.load_of(row)
        return load

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        """Return the change on the nodes concerned."""
        after = self.after(configuration, proposal)
        return sum(float((load**2).sum() - (self.load[node] ** 2).sum()) for node, load in after.items())

    def apply(self, configuration: Configuration, proposal: Proposal) -> None:
        """Change the sums of the nodes concerned."""
        for node, load in self.after(configuration, proposal).items():
            self.load[node] = load

    def undo(self, configuration: Configuration, proposal: Proposal) -> None:
        """Change them back."""
        for row, source, target in configuration.relocations(proposal):
            for node, sign in ((source, 1), (target, -1)):
                if node != NOWHERE:
                    self.load[node] += sign * configuration.load_of(row)


class WrongSign(Crowding):
    """A change with the wrong sign."""

    def delta(self, configuration, proposal):
        return -super().delta(configuration, proposal)


class StaleSums(Crowding):
    """Sums that no proposal changes."""

    def apply(self, configuration, proposal):
        pass

    def undo(self, configuration, proposal):
        pass


class ForgottenMetric(Crowding):
    """Increments that know the first metric only."""

    def delta(self, configuration, proposal):
        after = self.after(configuration, proposal)
        return sum(float(load[0] ** 2 - self.load[node][0] ** 2) for node, load in after.items())


class FloatDrift(Crowding):
    """Sums of shares in single precision."""

    kind = np.float32

    def begin(self, configuration):
        super().begin(configuration)
        self.load /= 7

    def delta(self, configuration, proposal):
        self.load *= 7
        change = super().delta(configuration, proposal)
        self.load /= 7
        return change

    def apply(self, configuration, proposal):
        for row, source, target in configuration.relocations(proposal):
            for node, sign in ((source, -1), (target, 1)):
                if node != NOWHERE:
                    self.load[node] += sign * configuration.load_of(row) / 7

    def undo(self, configuration, proposal):
        for row, source, target in configuration.relocations(proposal):
            for node, sign in ((source, 1), (target, -1)):
                if node != NOWHERE:
                    self.load[node] += sign * configuration.load_of(row) / 7


class ForgottenDeparture(Crowding):
    """Load that arrives, and never leaves."""

    def after(self, configuration, proposal):
        load = {}
        for row, _, target in configuration.relocations(proposal):
            if target != NOWHERE:
                load[target] = load.get(target, self.load[target]) + configuration.load_of(row)
        return load


class DoubleSwap(Crowding):
    """A swap of roles that counts once for each of the two."""

    def delta(self, configuration, proposal):
        change = super().delta(configuration, proposal)
        swaps = proposal.partner != NOWHERE and configuration.partition_of(proposal.row) == configuration.partition_of(
            proposal.partner
        )
        return 2 * change if swaps else change


class IgnoredExchange(Crowding):
    """The second replica of an exchange stays where it was."""

    def delta(self, configuration, proposal):
        return super().delta(configuration, Proposal(proposal.row, proposal.target))


class NodeNumbers(Crowding):
    """Nodes that count by their number, both in totals and in increments."""

    def total(self, configuration):
        weight = 1.0 + np.arange(configuration.nodes)
        return float((weight[:, None] * configuration.loads**2).sum())

    def delta(self, configuration, proposal):
        after = self.after(configuration, proposal)
        return sum((1.0 + n) * float((load**2).sum() - (self.load[n] ** 2).sum()) for n, load in after.items())


class ReplicaNumbers:
    """Replicas that count by their row."""

    name = "replica_numbers"

    def total(self, configuration):
        return float(sum(row * configuration.load_of(row).sum() for row in configuration.rows))


class CachedTotal(Crowding):
    """A total that is kept, and that taking a proposal back does not restore."""

    def begin(self, configuration):
        super().begin(configuration)
        self.kept = super().total(configuration)

    def total(self, configuration):
        return self.kept

    def apply(self, configuration, proposal):
        self.kept += self.delta(configuration, proposal)
        super().apply(configuration, proposal)


class NowhereIsANode(Crowding):
    """NOWHERE is -1, which numpy takes for the last node."""

    def after(self, configuration, proposal):
        load = {}
        for row, source, target in configuration.relocations(proposal):
            for node, sign in ((source, -1), (target, 1)):
                load[node] = load.get(node, self.load[node]) + sign * configuration.load_of(row)
        return load


class DepartingLoad(Crowding):
    """Increments that start from sums in which departing ends count."""

    def begin(self, configuration):
        super().begin(configuration)
        for row in np.flatnonzero(configuration.problem.leaving):
            self.load[configuration.node_of(row)] += configuration.load_of(row)


class PathDependent(Crowding):
    """A total of the moves made, not of where they lead."""

    def begin(self, configuration):
        super().begin(configuration)
        self.moves = 0

    def total(self, configuration):
        return super().total(configuration) + self.moves

    def delta(self, configuration, proposal):
        return super().delta(configuration, proposal) + 1

    def apply(self, configuration, proposal):
        super().apply(configuration, proposal)
        self.moves += 1


class Peaks:
    """Expected number of nodes on which the sampled peaks reach the threshold: the expected failovers, by hand."""

    name = "peaks"

    def draws(self, configuration):
        return configuration.problem.peak.shape[2]

    def reached(self, configuration, draws):
        problem, found = configuration.problem, 0
        for node in range(configuration.nodes):
            peaks = problem.peak[configuration.rows_on(node)].sum(axis=0, dtype=np.int64)
            found += int((peaks >= problem.threshold[node][:, None]).any(axis=0)[:draws].sum())
        return found / max(1, self.draws(configuration))

    def total(self, configuration):
        return self.reached(configuration, self.draws(configuration))

    def delta(self, configuration, proposal):
        return self.predicted(configuration, proposal, self.draws(configuration))

    def predicted(self, configuration, proposal, draws):
        before = self.reached(configuration, draws)
        back = configuration.apply(proposal)
        after = self.reached(configuration, draws)
        configuration.apply(back)
        return after - before


class OneDrawLess(Peaks):
    """Increments that miss the last repetition."""

    def delta(self, configuration, proposal):
        return self.predicted(configuration, proposal, self.draws(configuration) - 1)


class UpgradeDomains:
    """Σ over upgrade domains of the squared number of replicas: a right term that looks at nodes in words."""

    name = "upgrade_domains"

    def counts(self, configuration):
        """Return the number of replicas in each domain."""
        names = [configuration.node(node).upgrade_domain_name for node in range(configuration.nodes)]
        counts = dict.fromkeys(names, 0)
        for node, name in enumerate(names):
            counts[name] += len(configuration.rows_on(node))
        return counts

    def total(self, configuration):
        """Return the sum over all domains."""
        return float(sum(count**2 for count in self.counts(configuration).values()))

    def delta(self, configuration, proposal):
        """Return the change in the domains concerned."""
        counts = self.counts(configuration)
        before = sum(count**2 for count in counts.values())
        for _, source, target in configuration.relocations(proposal):
            for node, sign in ((source, -1), (target, 1)):
                if node != NOWHERE and self.knows(configuration, node):
                    counts[configuration.node(node).upgrade_domain_name] += sign
        return float(sum(count**2 for count in counts.values()) - before)

    def knows(self, configuration, node):
        """Tell whether a node counts: all do."""
        return True


class ForgottenDomain(UpgradeDomains):
    """Increments that do not know one of the upgrade domains."""

    def knows(self, configuration, node):
        return configuration.node(node).upgrade_domain != "ud1"


class IdleNodesThatAreDown(UpgradeDomains):
    """Increments for which nothing stands on nodes that are down."""

    def knows(self, configuration, node):
        return configuration.node(node).up


class ForgottenProperty(UpgradeDomains):
    """Increments that leave nodes with a property out."""

    def knows(self, configuration, node):
        return not configuration.node(node).properties


class TrialNotTakenBack(UpgradeDomains):
    """Increments by trial, after which the replica stays where it was tried."""

    def delta(self, configuration, proposal):
        before = self.total(configuration)
        configuration.apply(proposal)
        return self.total(configuration) - before


class LaterMetrics(Crowding):
    """Increments that know two metrics only."""

    def delta(self, configuration, proposal):
        after = self.after(configuration, proposal)
        return sum(float((load[:2] ** 2).sum() - (self.load[node][:2] ** 2).sum()) for node, load in after.items())


class NarrowIntegers(Crowding):
    """Increments in 32 bits, in which squares of large loads do not fit."""

    def delta(self, configuration, proposal):
        after = self.after(configuration, proposal)
        with np.errstate(over="ignore"):
            squares = [
                [int((values.astype(np.int32) ** 2).sum()) for values in (load, self.load[node])]
                for node, load in after.items()
            ]
        return float(sum(new - old for new, old in squares))


class ClassOfTenants(Crowding):
    """Totals in which one class counts twice, and increments in which it does not."""

    def total(self, configuration):
        load = configuration.loads
        for row in configuration.rows:
            if configuration.node_of(row) != NOWHERE and configuration.service_of(row).tenant_class == "silver":
                load[configuration.node_of(row)] += configuration.load_of(row)
        return float((load**2).sum())
