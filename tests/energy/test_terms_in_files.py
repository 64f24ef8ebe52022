"""A term is a file and lines in one list; elsewhere the combination names it, and features that are about this term."""

from __future__ import annotations

import ast

import attrs

from plb.energy.score import TermValues
from plb.energy.terms import TERMS_IN_ORDER
from plb.model.plan import Energy
from tests.sources import modules

FILES = {term.name: f"plb.energy.{term.name}" for term in TERMS_IN_ORDER}
COMBINATION = {"plb.energy.terms", "plb.energy.score"}
"""The list of the terms with the kernels that have a line for each, and the score."""
FEATURES = {
    "cluster.bench.kernels": {"expected_failovers"},  # how fast repetitions are evaluated
    "plb.evaluation.proposals": {"movement"},  # moves count in the budgets
    "plb.extensions.configuration": {"expected_failovers"},  # answers with probabilities of violations
    "plb.planning.live.live_state": {"fragmentation", "imbalance"},  # held-out nodes, and other nodes that are counted
    "plb.planning.live.problem": {"fragmentation", "imbalance"},  # held-out nodes, how loads are counted
    "plb.planning.live.replica_arrays": {"movement"},  # settings of move costs
    "plb.search.risk_relief": {"movement"},  # what a move that avoids violations costs
    "plb.planning.explanations.what_if": {"expected_failovers"},  # answers with probabilities of violations
    "plb.search.annealing.move_generation": {"imbalance"},  # proposals that even out a metric
    "plb.search.balancing": {"imbalance"},  # which metrics are uneven
}
"""Modules with a feature of a term, by the name of its file."""


def terms_in(tree: ast.Module) -> set[str]:
    """Return the terms whose files a module imports, or imports from, or whose values it reads or combines."""
    found = set()
    for one in ast.walk(tree):
        if isinstance(one, ast.ImportFrom) and one.module:
            names = {one.module, *(f"{one.module}.{alias.name}" for alias in one.names)}
            found |= {name for name, file in FILES.items() if file in names}
        elif isinstance(one, ast.Attribute) and ast.unparse(one.value).endswith("values"):
            found |= {one.attr} & FILES.keys()
    return found


def test_list_values_and_energy_have_the_same_terms():
    """The place of a description is the place of the value, and a plan has a field for it."""
    names = [term.name for term in TERMS_IN_ORDER]
    assert names == list(TermValues._fields)
    assert {*names, "total", "extension_terms"} == {field.name for field in attrs.fields(Energy)}


def test_every_term_is_described_in_its_own_file():
    described = {
        name
        for name, tree in modules().items()
        for one in ast.walk(tree)
        if isinstance(one, ast.Call) and ast.unparse(one.func) == "TermDescription"
    }
    assert described == set(FILES.values())


def test_terms_are_named_only_in_their_files_in_the_list_and_by_their_features():
    """What combines or reports terms loops over the list; a term that spreads needs an entry above."""
    found = {
        name: terms
        for name, tree in modules().items()
        if name not in COMBINATION | set(FILES.values()) and (terms := terms_in(tree))
    }
    assert found == FEATURES


def test_mentions_are_found():
    tree = ast.parse(
        "from plb.energy import movement\n"
        "from plb.energy.imbalance import after\n"
        "def of(values, problem):\n    return values.fragmentation, problem.expected_overload\n"
    )
    assert terms_in(tree) == {"movement", "imbalance", "fragmentation"}
