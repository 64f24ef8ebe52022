"""Valid terms of every kind, and classes with one planted error each."""

from __future__ import annotations

import numpy as np

from plb.array_types import NOWHERE
from plb.extensions.configuration import Configuration, Proposal


class Crowding:
    """Σ over nodes and metrics of the squared load, with kept sums and deltas from them."""

    name = "crowding"
    kind: type = np.float64

    def begin(self, configuration: Configuration) -> None:
        self.load = np.zeros((configuration.nodes, configuration.problem.load.shape[1]), self.kind)
        for row in configuration.rows:
            if configuration.node_of(row) != NOWHERE:
                self.load[configuration.node_of(row)] += configuration.load_of(row)

    def total(self, configuration: Configuration) -> float:
        return float((configuration.loads**2).sum())

    def after(self, configuration: Configuration, proposal: Proposal) -> dict[int, np.ndarray]:
        """Return the load of each changed node after a proposal."""
        load: dict[int, np.ndarray] = {}
        for row, source, target in configuration.relocations(proposal):
            for node, sign in ((source, -1), (target, 1)):
                if node != NOWHERE:
                    load[node] = load.get(node, self.load[node]) + sign * configuration.load_of(row)
        return load

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        after = self.after(configuration, proposal)
        return sum(float((load**2).sum() - (self.load[node] ** 2).sum()) for node, load in after.items())

    def apply(self, configuration: Configuration, proposal: Proposal) -> None:
        for node, load in self.after(configuration, proposal).items():
            self.load[node] = load

    def undo(self, configuration: Configuration, proposal: Proposal) -> None:
        for row, source, target in configuration.relocations(proposal):
            for node, sign in ((source, 1), (target, -1)):
                if node != NOWHERE:
                    self.load[node] += sign * configuration.load_of(row)


class WrongSign(Crowding):
    """A delta with the wrong sign."""

    def delta(self, configuration, proposal):
        return -super().delta(configuration, proposal)


class StaleSums(Crowding):
    """Sums that no proposal changes."""

    def apply(self, configuration, proposal):
        pass

    def undo(self, configuration, proposal):
        pass


class FloatDrift(Crowding):
    """Sums in single precision."""

    kind = np.float32


class ForgottenDeparture(Crowding):
    """Load that arrives, and never leaves."""

    def after(self, configuration, proposal):
        load = {}
        for row, _, target in configuration.relocations(proposal):
            if target != NOWHERE:
                load[target] = load.get(target, self.load[target]) + configuration.load_of(row)
        return load


class DoubleSwap(Crowding):
    """A swap of roles that counts once for each of the two replicas."""

    def delta(self, configuration, proposal):
        change = super().delta(configuration, proposal)
        swaps = proposal.partner != NOWHERE and configuration.partition_of(proposal.row) == configuration.partition_of(
            proposal.partner
        )
        return 2 * change if swaps else change


class IgnoredExchange(Crowding):
    """A delta that leaves out the second replica of an exchange."""

    def delta(self, configuration, proposal):
        return super().delta(configuration, Proposal(proposal.row, proposal.target))


class NodeNumbers(Crowding):
    """Totals and deltas that weigh nodes by their index."""

    def total(self, configuration):
        weight = 1.0 + np.arange(configuration.nodes)
        return float((weight[:, None] * configuration.loads**2).sum())

    def delta(self, configuration, proposal):
        after = self.after(configuration, proposal)
        return sum((1.0 + n) * float((load**2).sum() - (self.load[n] ** 2).sum()) for n, load in after.items())


class ReplicaNumbers:
    """A total that weighs replicas by their row."""

    name = "replica_numbers"

    def total(self, configuration):
        return float(sum(row * configuration.load_of(row).sum() for row in configuration.rows))


class CachedTotal(Crowding):
    """A kept total that undoing a proposal does not restore."""

    def begin(self, configuration):
        super().begin(configuration)
        self.kept = super().total(configuration)

    def total(self, configuration):
        return self.kept

    def apply(self, configuration, proposal):
        self.kept += self.delta(configuration, proposal)
        super().apply(configuration, proposal)


class NowhereIsANode(Crowding):
    """NOWHERE is -1, which NumPy reads as the last node."""

    def after(self, configuration, proposal):
        load = {}
        for row, source, target in configuration.relocations(proposal):
            for node, sign in ((source, -1), (target, 1)):
                load[node] = load.get(node, self.load[node]) + sign * configuration.load_of(row)
        return load


class DepartingLoad(Crowding):
    """Deltas from sums that include leaving replicas."""

    def begin(self, configuration):
        super().begin(configuration)
        for row in np.flatnonzero(configuration.problem.leaving):
            self.load[configuration.node_of(row)] += configuration.load_of(row)


class PathDependent(Crowding):
    """A total of the moves made, not of the placement."""

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
    """Expected number of nodes on which sampled peaks reach the threshold, computed independently."""

    name = "peaks"

    def repetitions(self, configuration):
        return configuration.problem.peak.shape[2]

    def reached(self, configuration, repetitions):
        problem, found = configuration.problem, 0
        for node in range(configuration.nodes):
            peaks = problem.peak[configuration.rows_on(node)].sum(axis=0, dtype=np.int64)
            found += int((peaks >= problem.threshold[node][:, None]).any(axis=0)[:repetitions].sum())
        return found / max(1, self.repetitions(configuration))

    def total(self, configuration):
        return self.reached(configuration, self.repetitions(configuration))

    def delta(self, configuration, proposal):
        return self.predicted(configuration, proposal, self.repetitions(configuration))

    def predicted(self, configuration, proposal, repetitions):
        before = self.reached(configuration, repetitions)
        back = configuration.apply(proposal)
        after = self.reached(configuration, repetitions)
        configuration.apply(back)
        return after - before


class OneDrawLess(Peaks):
    """Deltas without the last repetition."""

    def delta(self, configuration, proposal):
        return self.predicted(configuration, proposal, self.repetitions(configuration) - 1)


class UpgradeDomains:
    """Σ over upgrade domains of the squared number of replicas: a valid term that reads node descriptions."""

    name = "upgrade_domains"

    def counts(self, configuration):
        names = [configuration.node(node).upgrade_domain_name for node in range(configuration.nodes)]
        counts = dict.fromkeys(names, 0)
        for node, name in enumerate(names):
            counts[name] += len(configuration.rows_on(node))
        return counts

    def total(self, configuration):
        return float(sum(count**2 for count in self.counts(configuration).values()))

    def delta(self, configuration, proposal):
        counts = self.counts(configuration)
        before = sum(count**2 for count in counts.values())
        for _, source, target in configuration.relocations(proposal):
            for node, sign in ((source, -1), (target, 1)):
                if node != NOWHERE and self.counts_node(configuration, node):
                    counts[configuration.node(node).upgrade_domain_name] += sign
        return float(sum(count**2 for count in counts.values()) - before)

    def counts_node(self, configuration, node):
        return True


class ForgottenDomain(UpgradeDomains):
    """Deltas without one of the upgrade domains."""

    def counts_node(self, configuration, node):
        return configuration.node(node).upgrade_domain != "ud1"


class IdleNodesThatAreDown(UpgradeDomains):
    """Deltas that ignore replicas on nodes that are down."""

    def counts_node(self, configuration, node):
        return configuration.node(node).up


class ForgottenProperty(UpgradeDomains):
    """Deltas without the nodes that have a property."""

    def counts_node(self, configuration, node):
        return not configuration.node(node).properties


class TrialNotTakenBack(UpgradeDomains):
    """Deltas by a trial that is not undone."""

    def delta(self, configuration, proposal):
        before = self.total(configuration)
        configuration.apply(proposal)
        return self.total(configuration) - before


class LaterMetrics(Crowding):
    """Deltas of two metrics only."""

    def delta(self, configuration, proposal):
        after = self.after(configuration, proposal)
        return sum(float((load[:2] ** 2).sum() - (self.load[node][:2] ** 2).sum()) for node, load in after.items())


class NarrowIntegers(Crowding):
    """Deltas in 32 bits, in which squares of large loads overflow."""

    def delta(self, configuration, proposal):
        after = self.after(configuration, proposal)
        with np.errstate(over="ignore"):
            squares = [
                [int((values.astype(np.int32) ** 2).sum()) for values in (load, self.load[node])]
                for node, load in after.items()
            ]
        return float(sum(new - old for new, old in squares))


class ClassOfTenants(Crowding):
    """Totals in which one class counts twice, and deltas in which it counts once."""

    def total(self, configuration):
        load = configuration.loads
        for row in configuration.rows:
            if configuration.node_of(row) != NOWHERE and configuration.service_of(row).tenant_class == "silver":
                load[configuration.node_of(row)] += configuration.load_of(row)
        return float((load**2).sum())
