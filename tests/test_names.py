"""Names of the three packages: one meaning a word, and only the field's words."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.sources import name_of, trees

RETIRED = {
    "additions": "extensions",
    "carried": "extension state",
    "carrying": "extension state",
    "correcting": "spread moves",
    "drawing": "move generation",
    "elimination": "diagnosis",
    "gathering": "packing",
    "guiding": "biased sampling",
    "inspection": "audit",
    "judge": "evaluation",
    "judges": "estimators",
    "mend": "repair",
    "mending": "repair moves",
    "motives": "move reasons",
    "narrowing": "candidate filter",
    "outlook": "demand forecast",
    "room": "capacity, or eviction",
    "suit": "feasibility class",
    "survey": "what-if",
    "telling": "queries",
    "wholly": "all-or-nothing",
}
"""Words that no name may have, each with the word that takes its place."""


def names(tree: ast.Module) -> Iterator[str]:
    """Yield what a module defines: classes, functions, arguments, variables and attributes."""
    for one in ast.walk(tree):
        match one:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def words(name: str) -> set[str]:
    """Return the words of a name in snake case or in capitalised words."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_retired_words_are_in_no_name() -> None:
    """Neither a module nor anything that it defines has one; the comparison is by whole words."""
    assert words("carried_by_none") & RETIRED.keys() == {"carried"}
    found = []
    for path, tree in trees().items():
        for name in {name_of(path), *names(tree)}:
            found += [f"{name_of(path)}: {name}, say {RETIRED[word]}" for word in words(name) & RETIRED.keys()]
    assert found == []


def test_names_of_classes_are_unique() -> None:
    modules = defaultdict(list)
    for path, tree in trees().items():
        for one in ast.walk(tree):
            if isinstance(one, ast.ClassDef):
                modules[one.name].append(name_of(path))
    assert len(modules) > 100
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}
