"""The extensions of one plan: terms, constraints, neighbourhoods and the placement policy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.energy.from_scratch import solution_from_scratch
from plb.energy.terms import energy_of_solution
from plb.engine_extensions import EngineExtensions, copied
from plb.errors import ExtensionError, InvalidValueError
from plb.extensions.configuration import Configuration, Proposal
from plb.extensions.constraints import CompiledConstraint, Constraint, sums_from_scratch
from plb.extensions.energy_terms import CompiledTerm, EnergyTerm
from plb.extensions.kernel_data import CONSTRAINT, NEIGHBOURHOOD, TERM, WithKernels, errors_of, named
from plb.extensions.neighbourhoods import AnyNeighbourhood, CompiledNeighbourhood, what_is_wrong
from plb.extensions.policies import PlacementPolicy
from plb.model.outcome import Proposals
from plb.model.plan import Energy
from plb.policies import KNOWN as KNOWN_POLICIES
from plb.risk.demand_history import DemandHistory
from plb.search.extension_kernels import APPLY, CHANGE, COUNT, NODE_COST, NOTHING, OUT_OF_RANGE, PROPOSE, TEST
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState, Description, describe

JOURNAL = 1024
"""Moves that a solution notes for the sums of constraints; more of them between two tests are seldom."""
KERNELS = {
    CHANGE: "change",
    APPLY: "keep",
    NODE_COST: "node_cost",
    TEST: "test",
    COUNT: "count",
    PROPOSE: "propose",
    OUT_OF_RANGE: "propose",
}
"""The kernels of extensions by what they answer."""


@attrs.frozen(eq=False)
class Extensions:
    """Terms with their weights, constraints, neighbourhoods, a policy, and counts of refused and rejected proposals."""

    weights: Mapping[str, float]
    """Weight of each term by name."""
    terms: tuple[EnergyTerm, ...]
    """The terms, in the order of the weights; chains work on copies."""
    constraints: tuple[Constraint, ...]
    """The constraints, all of them hard."""
    description: Description
    """Names and models behind the arrays."""
    policy: PlacementPolicy | None = None
    """Placement policy that decides in place of the search, or None."""
    neighbourhoods: tuple[AnyNeighbourhood, ...] = ()
    """In the order of the settings; chains work on copies."""
    refused: Counter[str] = attrs.field(factory=Counter)
    """Number of proposals refused by each constraint, by name."""
    rejected: Counter[str] = attrs.field(factory=Counter)
    """Number of proposals rejected because of each term, by name."""
    declined: set[int] = attrs.field(factory=set)
    """Rows that the policy declined to place."""
    running: list[Int] = attrs.field(factory=list)
    """The `running` of every chain (`plb.search.extension_kernels.ExtensionState`)."""
    _data: dict[str, tuple[Problem, Any]] = attrs.field(factory=dict)
    """Data of extensions with kernels, and for which problem they are, by kind and name."""

    @property
    def proposals(self) -> Proposals:
        """Counts of refused and rejected proposals, to be added to the counts of built-in rules and terms."""
        return Proposals(refused_by_rule=dict(self.refused), rejected_by_term=dict(self.rejected))

    @property
    def may_leave_changes(self) -> bool:
        """Whether code of users is called, which may fail to undo what it tries in a solution."""
        extensions_of_users = self.terms or self.constraints or self.neighbourhoods
        return bool(extensions_of_users or type(self.policy) not in map(type, KNOWN_POLICIES))

    @property
    def has_python(self) -> bool:
        """Whether an extension is plain Python, so that its chains run in one thread."""
        everything = (*self.terms, *self.constraints, *self.neighbourhoods)
        return not all(
            isinstance(extension, CompiledTerm | CompiledConstraint | CompiledNeighbourhood) for extension in everything
        )

    @contextmanager
    def kernel_errors(self) -> Iterator[None]:
        """Return a context that turns an error of an extension's kernel into one that names the extension."""
        try:
            yield
        except Exception as error:
            failed = next((running.tolist() for running in self.running if running[0] != NOTHING), None)
            if failed is None:
                raise
            failure = self._failure(error, *failed)
            if failure is error:
                raise
            raise failure from error

    def _failure(self, error: Exception, question: int, index: int, *moves: int) -> BaseException:
        """Return an error of a kernel as one that names the extension whose kernel was running.

        `question`, `index`, `moves`: see `ExtensionState.running`.
        """
        if question == OUT_OF_RANGE:
            name = self.neighbourhoods[index].name
            return ExtensionError(NEIGHBOURHOOD, name, KERNELS[question], what_is_wrong(*moves))
        if question == PROPOSE:
            return named(error, NEIGHBOURHOOD, self.neighbourhoods[index].name, KERNELS[question])
        if question in (TEST, COUNT):
            return named(error, CONSTRAINT, self.constraints[index].name, KERNELS[question])
        return named(error, TERM, self.terms[index].name, KERNELS[question])

    def configuration(self, problem: Problem, solution: Solution) -> Configuration:
        """Return a configuration of these arrays."""
        return Configuration(problem, solution, self.description)

    def new_terms(self) -> tuple[EnergyTerm, ...]:
        """Return copies of the terms, because a chain changes their sums."""
        return tuple(copied(TERM, term) for term in self.terms)

    def new_neighbourhoods(self) -> tuple[AnyNeighbourhood, ...]:
        """Return copies of the neighbourhoods, because a chain may change what they keep."""
        return tuple(copied(NEIGHBOURHOOD, neighbourhood) for neighbourhood in self.neighbourhoods)

    def data_of(self, extension: WithKernels, configuration: Configuration) -> Any:
        """Return the data of an extension with kernels; they are computed once for all chains of a problem."""
        problem, key = configuration.problem, f"{extension.kind} {extension.name}"
        problem_and_data = self._data.get(key)
        if problem_and_data is None or problem_and_data[0] is not problem:
            with errors_of(extension.kind, extension.name, "new_data"):
                problem_and_data = self._data[key] = problem, extension.checked_data(configuration)
        return problem_and_data[1]

    def sums_of(self, index: int, configuration: Configuration) -> Any:
        """Return the sums of the constraint with this index from scratch; no values for one without kernels."""
        constraint = self.constraints[index]
        with errors_of(CONSTRAINT, constraint.name, "new_sums"):
            return sums_from_scratch(constraint, configuration)

    def journalled(self, solution: Solution) -> Solution:
        """Return the solution with a journal of its moves if a constraint follows them; all other arrays are shared."""
        follows = any(
            isinstance(constraint, CompiledConstraint) and constraint.has_sums for constraint in self.constraints
        )
        return solution._replace(journal=np.zeros((JOURNAL + 1, 3), np.int64)) if follows else solution

    def totals(self, problem: Problem, solution: Solution) -> dict[str, float]:
        """Return the unweighted values of the terms of a solution by name, computed from scratch."""
        configuration = self.configuration(problem, solution)
        return {term.name: _total(term, configuration) for term in self.terms}

    def weighted(self, values: Mapping[str, float]) -> float:
        """Return the weighted sum of `values`, terms by name: their contribution to the energy."""
        return sum(weight * values[name] for name, weight in self.weights.items())

    def refusal(self, configuration: Configuration, proposal: Proposal) -> str | None:
        """Return the name of the first constraint that refuses a proposal, or None."""
        with_source = configuration.from_its_node(proposal)
        return next(
            (constraint.name for constraint in self.constraints if _refuses(constraint, configuration, with_source)),
            None,
        )

    def refuse(self, configuration: Configuration, proposal: Proposal) -> str | None:
        """Return the name of the first constraint that refuses a proposal, or None, and count the refusal."""
        name = self.refusal(configuration, proposal)
        if name is not None:
            self.refused[name] += 1
        return name

    def allows_promotion(self, before: Problem, after: Problem, solution: Solution, row: int) -> bool:
        """Return whether the constraints allow replica `row` to become a primary on its node; count a refusal.

        No constraint may refuse the primary there, and none may become violated. `before`, `after`: with the old and
        the new role of the replica.
        """
        node = solution.node.copy()
        node[row] = NOWHERE
        configuration = self.configuration(after, solution_from_scratch(after, node))
        if self.refuse(configuration, Proposal(row, int(solution.node[row]))) is not None:
            return False
        promoted = self.configuration(after, solution_from_scratch(after, solution.node.copy()))
        newly_broken = self._newly_broken(self.configuration(before, solution), promoted)
        self.refused.update(newly_broken[:1])
        return not newly_broken

    def broken(self, configuration: Configuration) -> dict[int, str]:
        """Return the placed rows that violate a constraint, each with the name of the first such constraint."""
        names: dict[int, str] = {}
        for name, row in self.broken_by_name(configuration):
            names.setdefault(row, name)
        return names

    def broken_by_name(self, configuration: Configuration) -> Iterator[tuple[str, int]]:
        """Yield the name of each constraint with every placed row that violates it."""
        for constraint in self.constraints:
            with errors_of(CONSTRAINT, constraint.name, "broken"):
                rows = sorted({_row(configuration, row) for row in constraint.broken(configuration)})
            yield from ((constraint.name, row) for row in rows if configuration.node_of(row) != NOWHERE)

    def _newly_broken(self, before: Configuration, after: Configuration) -> list[str]:
        """Return the names of the constraints that a row violates in `after` and not in `before`, once for each row."""
        broken_before = set(self.broken_by_name(before))
        return [name for name, row in self.broken_by_name(after) if (name, row) not in broken_before]

    def refused_nodes(self, problem: Problem, solution: Solution, row: int, nodes: Int) -> dict[int, str]:
        """Return the `nodes`, (n,), that a constraint refuses to replica `row`, each with the name of the first one."""
        configuration = self.configuration(problem, solution)
        names = {node: self.refusal(configuration, Proposal(row, node)) for node in nodes.tolist()}
        return {node: name for node, name in names.items() if name is not None}


def extensions_of(
    state: ClusterState, engine_extensions: EngineExtensions, now: float, history: DemandHistory | None
) -> Extensions | None:
    """Return the extensions of an engine for a plan at `now`, seconds, copied but for the policy; None without any."""
    if not engine_extensions.is_any and not engine_extensions.config.soft_capacity:
        return None
    return Extensions(
        dict(engine_extensions.config.extension_terms),
        tuple(copied(TERM, term) for term in engine_extensions.terms),
        tuple(copied(CONSTRAINT, constraint) for constraint in engine_extensions.constraints),
        describe(state, now, history),
        engine_extensions.policy,
        tuple(copied(NEIGHBOURHOOD, neighbourhood) for neighbourhood in engine_extensions.neighbourhoods),
    )


def energy_with(extensions: Extensions | None, problem: Problem, solution: Solution) -> Energy:
    """Return the energy of a solution with the weighted extension terms, and all terms; None: no extensions."""
    energy = energy_of_solution(problem, solution)
    if extensions is None or not extensions.terms:
        return energy
    extension_terms = extensions.totals(problem, solution)
    return attrs.evolve(
        energy, total=energy.total + extensions.weighted(extension_terms), extension_terms=extension_terms
    )


def _row(configuration: Configuration, row: int) -> int:
    """Return `row`, which an extension returned, as a whole number; raise `ValueError` if no replica has it."""
    index, count = int(row), len(configuration.solution.node)
    if index != row or not 0 <= index < count:
        raise ValueError(f"{row} is no row, a whole number from 0 to {count - 1}")
    return index


def _refuses(constraint: Constraint, configuration: Configuration, proposal: Proposal) -> bool:
    """Return whether a constraint refuses a proposal."""
    with errors_of(CONSTRAINT, constraint.name, "refuses"):
        return bool(constraint.refuses(configuration, proposal))


def _total(term: EnergyTerm, configuration: Configuration) -> float:
    """Return the total of a term as a float; raise `InvalidValueError` unless it is a finite number."""
    with errors_of(TERM, term.name, "total"):
        total: object = term.total(configuration)
    try:
        value = float(total)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise InvalidValueError(f"energy term {term.name}", "total", total, "a finite number")
    return value
