"""A rule is a file and a line in a list; elsewhere kernels name it, and features that are about this rule."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from plb.constraints.rules import REASONS_IN_ORDER, RULES_IN_ORDER
from plb.model.rules import BUDGETS, Rule
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
    "plb.planning.phases": {"affinity", "domains", "move_budgets", "scale_out"},  # relaxed placement, light checks
    "plb.planning.live.replica_arrays": {"affinity"},  # ties children to parents
    "plb.planning.rule_priorities": {"domains"},  # light checks
    "plb.planning.explanations.diagnosis": {"move_budgets", "node"},  # what stays on nodes that have to be emptied
    "plb.planning.upgrades": {
        "affinity",
        "capacity",
        "domains",
        "placement",
        "preferred_location",
    },  # swaps for an upgrade may break these
    "plb.policies.repacking": {"capacity"},  # makes room for a replica
    "plb.search.repair.breaches": {
        "application_capacity",
        "capacity",
        "scale_out",
    },  # applications and nodes break these, the others are broken by rows
    "plb.search.repair.eviction": {"affinity"},  # makes room for a replica
    "plb.search.annealing.overload_price": {"capacity"},  # which has a price there
    "plb.search.policy_search": {
        "application_capacity",
        "capacity",
        "domains",
        "scale_out",
    },  # the order in which a policy repairs
    "plb.state.topology": {"domains"},  # the rule of each level
}
"""Modules with a feature of a rule in plain Python, by the name of its file."""


def file_of(name: str) -> str | None:
    """Return the name of the rule's file that a module, or a member of one, belongs to."""
    found = [file for file in FILES.values() if name == file or name.startswith(f"{file}.")]
    return found[0].rpartition(".")[2] if found else None


def named_in(tree: ast.AST) -> set[str]:
    """Return the files of the rules of which the members of `Rule` occur in a tree."""
    members = {
        one.attr
        for one in ast.walk(tree)
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "Rule"
    }
    return {FILES[Rule[name]].rpartition(".")[2] for name in members & set(Rule.__members__)}


def aliases_of(tree: ast.Module) -> dict[str, set[str]]:
    """Return the names at the top of a module that stand for part of a rule, with the files of these rules."""
    found: dict[str, set[str]] = {}
    for one in ast.walk(tree):
        if isinstance(one, ast.ImportFrom) and one.module:
            for alias in one.names:
                file = file_of(f"{one.module}.{alias.name}")
                if file is not None:
                    found[alias.asname or alias.name] = {file}
    for one in tree.body:
        if (
            isinstance(one, ast.Assign | ast.AnnAssign)
            and one.value
            and (rules := named_in(one.value) | used_in(one.value, found))
        ):
            found |= {
                name.id: rules
                for name in ast.walk(one)
                if isinstance(name, ast.Name) and name.id != "Rule" and isinstance(name.ctx, ast.Store)
            }
    return found


def used_in(tree: ast.AST, aliases: dict[str, set[str]]) -> set[str]:
    """Return the files of the rules whose aliases occur in a tree."""
    names = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}
    return set().union(*(aliases[name] for name in names & aliases.keys()))


def is_kernel(function: ast.FunctionDef) -> bool:
    """Return whether a function is decorated as a kernel."""
    return any("kernel" in ast.unparse(one) for one in function.decorator_list)


def outside_of_kernels(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the functions of a module that are not kernels, and its classes."""
    for one in tree.body:
        if isinstance(one, ast.ClassDef) or (isinstance(one, ast.FunctionDef) and not is_kernel(one)):
            yield one


def rules_in_python(name: str, tree: ast.Module) -> set[str]:
    """Return the files of the rules that a module names outside of kernels."""
    aliases = aliases_of(tree)
    found = {rule for part in outside_of_kernels(tree) for rule in named_in(part) | used_in(part, aliases)}
    if name == "plb":  # it imports to export
        found |= set().union(*aliases.values())
    return found


def test_list_has_every_rule_in_order():
    """The place of a description is the number of its rule; each reason in the list of reasons can be given."""
    assert [one.rule for one in RULES_IN_ORDER] == list(Rule)
    assert {one.rule for one in REASONS_IN_ORDER} == {one.rule for one in RULES_IN_ORDER if one.reason is not None}


def test_every_rule_is_described_in_its_own_file():
    """No other module calls `RuleDescription` with it."""
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
    """By a member of `Rule`, an import, and a constant made of either; kernels do not count."""
    tree = ast.parse(
        "from plb.constraints.capacity import RULE\n"
        "from plb.constraints import range as peak_range\n"
        "_NODE = int(Rule.NODE)\n"
        "_WITHOUT = ~(1 << RULE)\n"
        "@kernel(inline=True)\n"
        "def refusal():\n    return Rule.AFFINITY\n"
        "def node():\n    return _NODE\n"
        "class Room:\n    def mask(self):\n        return _WITHOUT, peak_range.refuses, Rule.MOVES\n"
    )
    assert rules_in_python("plb.any", tree) == {"node", "capacity", "range", "move_budgets"}
