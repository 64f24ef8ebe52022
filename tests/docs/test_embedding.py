"""The guide to embedding begins with the first example, and the table of calls covers the engine's public interface."""

from __future__ import annotations

import inspect
import re
from concurrent.futures import ThreadPoolExecutor
from typing import get_type_hints

import pytest

import plb
import plb.described_cluster
from plb import Metric, Node, Partition, PlacementAndLoadBalancing, Plan, PlbConfig, Role, Service
from tests.docs.pages import ROOT, blocks_of

PAGE = "docs/embedding.md"
CALLS = (ROOT / "docs" / "reference" / "engine.md").read_text()
CALL = re.compile(r"`(\w+)(\(.*\))?`")
ERROR = re.compile(r"[A-Z][a-z]+[A-Z]?[a-z]*Error")

MEMBERS = {
    name: inspect.getattr_static(PlacementAndLoadBalancing, name)
    for name in dir(PlacementAndLoadBalancing)
    if not name.startswith("_")
}
METHODS = {name: member for name, member in MEMBERS.items() if inspect.isfunction(member)}
UNITS = ("seconds", "user units", "units of the cost")


def table_of(guide: str) -> dict[str, tuple[str, set[str]]]:
    """Return the arguments and errors of each call in the table of the public interface."""
    rows = [
        line.split(" |") for line in guide.split("## The public interface")[1].splitlines() if line.startswith("| `")
    ]
    calls = [(CALL.search(call), errors) for call, _, errors, _ in rows]
    return {call[1]: (call[2] or "", set(ERROR.findall(errors))) for call, errors in calls if call}


def takes_numbers(method: object) -> bool:
    """Return whether a method takes numbers, as arguments or in a description."""
    kinds = [str(parameter.annotation) for parameter in inspect.signature(method).parameters.values()]  # type: ignore[arg-type]
    return any(word in kind for word in ("float", "ArrayLike", "Node", "Service", "Partition") for kind in kinds)


TABLE = table_of(CALLS)


def call_of(method: object) -> str:
    """Return the arguments of a method as in the guide, without types."""
    parameters = list(inspect.signature(method).parameters.values())[1:]  # type: ignore[arg-type]
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(bare))


def docstring_of(name: str) -> str:
    """Return the docstring of a method, with that of the class for `now` and `budget` if it takes one of them."""
    docstring = inspect.getdoc(METHODS[name]) or ""
    if {"now", "budget"} & set(inspect.signature(METHODS[name]).parameters):
        of_class = inspect.getdoc(PlacementAndLoadBalancing) or ""
        docstring += next(part for part in of_class.split("\n\n") if part.startswith("In all methods"))
    return docstring


def test_guide_begins_with_the_first_example():
    """The loop of the guide is the whole of examples/embedding.py."""
    example = (ROOT / "examples" / "embedding.py").read_text()
    first = next(block for block in blocks_of(PAGE) if block.language == "python")
    assert first.content == example.split('"""\n\n', 1)[1]


def test_table_of_the_guide_has_exactly_the_public_calls():
    """It lists the methods and properties of the class, and the settings."""
    assert sorted(TABLE) == sorted(MEMBERS)


@pytest.mark.parametrize("name", METHODS)
def test_table_of_the_guide_agrees_with_the_code(name):
    """The arguments are those of the method, and the errors are those of its docstring."""
    assert TABLE[name] == (call_of(METHODS[name]), set(ERROR.findall(docstring_of(name))))


@pytest.mark.parametrize("name", [name for name in METHODS if takes_numbers(METHODS[name])])
def test_methods_with_numbers_document_units_and_errors(name):
    """The docstring of the method or of the description states them."""
    docstring = docstring_of(name)
    described = [
        kind
        for kind in (plb.Node, plb.Service, plb.Partition)
        if kind.__name__ in str(inspect.signature(METHODS[name]))
    ]
    text = " ".join([docstring, *(inspect.getsource(kind) for kind in described)])
    assert any(unit in text for unit in UNITS)
    assert ERROR.findall(docstring)


@pytest.mark.parametrize("method", METHODS)
def test_names_that_the_interface_needs_are_public(method):
    """`plb` exports the classes of arguments and results, or the guide names their module."""
    hints = get_type_hints(METHODS[method], vars(plb.engine) | vars(plb.described_cluster) | {"DemandHistory": object})
    words = set(re.findall(r"plb[.\w]*\.(\w+)", str(hints)))
    assert words - set(plb.__all__) <= set(re.findall(r"`(\w+)`", CALLS.split("## What is stable")[1]))


def test_engines_in_several_threads_are_independent():
    """Engines share no state, so the plans of one do not depend on simultaneous calls of others."""

    def plans(seed: int) -> list[Plan]:
        engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]), seed=seed)
        for index in range(4):
            engine.update_node(Node(f"n{index}", capacities={"cpu": 10}))
        engine.update_service(Service("web", stateful=False, target_replicas=3))
        for index in range(6):
            engine.update_partition(Partition(f"web/{index}", service="web"))
        found = []
        for now in range(3):
            found.append(engine.refresh(now))
            engine.apply(found[-1])
            engine.report_role_load("web/0", Role.INSTANCE, {"cpu": now})
        return found

    alone = [plans(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(plans, range(4))) == alone
