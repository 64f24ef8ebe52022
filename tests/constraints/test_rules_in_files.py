"""A rule is a file and a line in a list; elsewhere kernels name it, and features that are about this rule."""

from __future__ import annotations

import ast

import pytest

from plb.constraints.rules import REASONS_IN_ORDER, RULES_IN_ORDER
from plb.model.rules import ALL_RULES, BUDGETS, JOINING, Rule
from tests.sources import modules

FILES = {rule: f"plb.constraints.{rule.name.lower()}" for rule in Rule}
FILES |= dict.fromkeys((Rule.FAULT_DOMAIN, Rule.UPGRADE_DOMAIN), "plb.constraints.domains")
FILES |= dict.fromkeys(BUDGETS, "plb.constraints.move_budgets")
"""The file of each rule: it has its name, or that of its kind."""
LISTS = {"plb.model.rules", "plb.constraints.rules"}
"""The numbers of the rules, and their descriptions in order."""
FEATURES = {
    # their verdicts are part of the interface
    "plb": {"affinity", "application_capacity", "capacity", "domains", "exclusion", "placement", "scale_out"},
    "plb.planning.dropping": {"affinity", "domains", "preferred_location"},  # which surplus replicas may go
    "plb.planning.live.domain_limits": {"domains"},  # how many replicas of a partition a domain may have
    "plb.planning.live.live_state": {"range"},  # the sums that it keeps have to fit
    "plb.planning.phase_state": {"throttling"},  # limits by phase
    "plb.planning.phases": {"domains", "move_budgets", "scale_out"},  # relaxed placement, light checks
    "plb.planning.live.replica_arrays": {"affinity"},  # ties children to parents
    "plb.planning.rule_priorities": {"domains"},  # light checks
    "plb.planning.explanations.diagnosis": {"move_budgets", "node"},  # what stays on nodes that have to be emptied
    # swaps for an upgrade may break these
    "plb.planning.upgrades": {"capacity", "domains", "placement", "preferred_location"},
    "plb.policies.repacking": {"capacity"},  # makes room for a replica
    # applications and nodes break these, the others are broken by rows
    "plb.search.repair.breaches": {"application_capacity", "capacity", "scale_out"},
    "plb.search.repair.eviction": {"affinity"},  # makes room for a replica
    "plb.search.annealing.overload_price": {"capacity"},  # which has a price there
    # the order in which a policy repairs
    "plb.search.policy_search": {"application_capacity", "capacity", "domains", "scale_out"},
    "plb.state.topology": {"domains"},  # the rule of each level
}
"""Modules with a feature of a rule in plain Python, by the name of its file."""


def files_by_name(tree: ast.Module) -> dict[str, str]:
    """Return the names that a module imports of the files of rules, with these files."""
    imported = [
        (alias.asname or alias.name, f"{one.module}.{alias.name}.")
        for one in ast.walk(tree)
        if isinstance(one, ast.ImportFrom)
        for alias in one.names
    ]
    return {
        name: file.rpartition(".")[2]
        for name, path in imported
        for file in FILES.values()
        if path.startswith(f"{file}.")
    }


def rules_in_python(name: str, tree: ast.Module) -> set[str]:
    """Return the files of the rules that the classes and the functions of a module name, but for kernels."""
    files = files_by_name(tree)
    if name == "plb":  # it imports to export
        return set(files.values())
    kinds = ast.ClassDef | ast.FunctionDef
    parts = [one for one in tree.body if isinstance(one, kinds) and not any(map(is_kernel, one.decorator_list))]
    nodes = [node for part in parts for node in ast.walk(part)]
    members = {ast.unparse(node).removeprefix("Rule.") for node in nodes if isinstance(node, ast.Attribute)}
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    of_members = {FILES[Rule[member]].rpartition(".")[2] for member in members & set(Rule.__members__)}
    return of_members | {files[name] for name in names & files.keys()}


def is_kernel(decorator: ast.expr) -> bool:
    return "kernel" in ast.unparse(decorator)


@pytest.mark.kernels
def test_list_has_every_rule_in_order():
    """The place of a description is the number of its rule; each reason in the list of reasons can be given."""
    assert [one.rule for one in RULES_IN_ORDER] == list(Rule)
    assert (sum(1 << rule for rule in Rule), 1 << len(RULES_IN_ORDER)) == (ALL_RULES, JOINING)
    assert {one.rule for one in REASONS_IN_ORDER} == {one.rule for one in RULES_IN_ORDER if one.reason is not None}


def test_every_rule_is_described_in_its_own_file():
    described = {
        name
        for name, tree in modules().items()
        for one in ast.walk(tree)
        if isinstance(one, ast.Call) and ast.unparse(one.func) == "RuleDescription"
    }
    assert described == set(FILES.values())


def test_rules_are_named_only_in_their_files_in_kernels_and_by_their_features():
    """What reports on rules loops over the list; a rule that spreads into another module needs an entry above."""
    found = {
        name: rules
        for name, tree in modules().items()
        if name not in LISTS and not name.startswith("plb.constraints.") and (rules := rules_in_python(name, tree))
    }
    assert found == FEATURES


def test_mentions_are_found():
    tree = ast.parse(
        "from plb.constraints.capacity import RULE\n"
        "from plb.constraints import range as peak_range\n"
        "@kernel(inline=True)\n"
        "def refusal():\n    return Rule.AFFINITY\n"
        "def node():\n    return RULE\n"
        "class Room:\n    def mask(self):\n        return peak_range.refuses, Rule.MOVES\n"
    )
    assert rules_in_python("plb.any", tree) == {"capacity", "range", "move_budgets"}
