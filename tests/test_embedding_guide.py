"""The guide to embedding is true: its code prints what it shows, and its table is the face of the engine."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_type_hints

import pytest

import plb
from plb import Metric, Node, Partition, PlacementAndLoadBalancing, Plan, PlbConfig, Role, Service

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "embedding.md").read_text()
CODE = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)
CALL = re.compile(r"`(\w+)(\(.*\))?`")
ERROR = re.compile(r"[A-Z][a-z]+[A-Z]?[a-z]*Error")
SEPARATOR = "=" * 8

MEMBERS = {name: member for name, member in vars(PlacementAndLoadBalancing).items() if not name.startswith("_")}
METHODS = {name: member for name, member in MEMBERS.items() if inspect.isfunction(member)}
UNITS = ("seconds", "user units")


def table_of(guide: str) -> dict[str, tuple[str, set[str]]]:
    """Return the arguments and the errors of each call, as the table of the public interface has them."""
    rows = [
        line.split(" |") for line in guide.split("## The public interface")[1].splitlines() if line.startswith("| `")
    ]
    calls = [(CALL.search(call), errors) for call, _, _, errors, _ in rows]
    return {call[1]: (call[2] or "", set(ERROR.findall(errors))) for call, errors in calls if call}


def takes_numbers(method: object) -> bool:
    """Tell whether a method takes numbers, alone or in a description."""
    kinds = [str(parameter.annotation) for parameter in inspect.signature(method).parameters.values()]  # type: ignore[arg-type]
    return any(word in kind for word in ("float", "ArrayLike", "Node", "Service", "Partition") for kind in kinds)


TABLE = table_of(GUIDE)
QUOTED = re.findall(r"```text\n(.*?)```", CODE.sub("", GUIDE), re.DOTALL)


def printed(blocks: list[str]) -> list[str]:
    """Run the blocks of code one after the other in one fresh interpreter; return what each prints."""
    code = f"print({SEPARATOR!r})\n".join(blocks)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.split(f"{SEPARATOR}\n")


def in_one_line(text: str) -> str:
    """Return a text without its line breaks: the guide breaks long lines."""
    return " ".join(text.split())


def call_of(method: object) -> str:
    """Return the arguments of a method as the guide writes them: without types."""
    parameters = list(inspect.signature(method).parameters.values())[1:]  # type: ignore[arg-type]
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(bare))


def errors_in(docstring: str) -> set[str]:
    """Return the errors that a docstring names, also those of the method that it refers to."""
    referred = re.search(r"errors are as in `(\w+)`", docstring)
    beside = errors_in(inspect.getdoc(METHODS[referred[1]]) or "") if referred else set()
    return set(ERROR.findall(docstring)) | beside


def test_code_of_the_guide_prints_what_stands_below_it():
    """All blocks of code run in order in one program; a block of text below one is what it prints."""
    blocks = CODE.findall(GUIDE)
    for (code, shown), output in zip(blocks, printed([code for code, _ in blocks]), strict=True):
        assert in_one_line(output) == in_one_line(shown), code


def test_guide_begins_with_the_first_example():
    """The loop that it shows is the whole of examples/embedding.py."""
    example = (ROOT / "examples" / "embedding.py").read_text()
    assert CODE.search(GUIDE)[1] == example.split('"""\n\n', 1)[1]


@pytest.mark.parametrize("shown", QUOTED, ids=lambda text: text.splitlines()[0])
def test_guide_quotes_examples_as_they_print(shown):
    """A block of text that is below no code stands in what one of the examples prints."""
    assert any(in_one_line(shown) in in_one_line(path.read_text()) for path in (ROOT / "examples").glob("*.out"))


def test_table_of_the_guide_has_every_public_call_and_none_that_is_gone():
    """It has the methods and properties of the class, and its settings."""
    assert sorted(TABLE) == sorted([*MEMBERS, "config"])


@pytest.mark.parametrize("name", METHODS)
def test_table_of_the_guide_says_what_the_code_says(name):
    """The arguments are those of the method, and the errors those of its docstring."""
    assert TABLE[name] == (call_of(METHODS[name]), errors_in(inspect.getdoc(METHODS[name]) or ""))


@pytest.mark.parametrize("name", [name for name in METHODS if takes_numbers(METHODS[name])])
def test_methods_that_take_numbers_say_units_and_errors(name):
    """In the docstring, or in that of the description that is handed over."""
    docstring = inspect.getdoc(METHODS[name]) or ""
    described = [
        kind
        for kind in (plb.Node, plb.Service, plb.Partition)
        if kind.__name__ in str(inspect.signature(METHODS[name]))
    ]
    told = " ".join([docstring, *(inspect.getdoc(kind) or "" for kind in described)])
    assert any(unit in told for unit in UNITS)
    assert errors_in(docstring)


@pytest.mark.parametrize("name", plb.__all__)
def test_every_exported_name_is_explained(name):
    """It has a docstring of its own, unless it stands for several classes."""
    exported = getattr(plb, name)
    assert not inspect.isclass(exported) or vars(exported)["__doc__"]


@pytest.mark.parametrize("method", METHODS)
def test_names_that_the_interface_needs_are_public(method):
    """The classes of arguments and results are exported by `plb`, or the guide says where they are."""
    hints = get_type_hints(METHODS[method], vars(plb.engine) | {"DemandHistory": object})
    words = set(re.findall(r"plb[.\w]*\.(\w+)", str(hints)))
    assert words - set(plb.__all__) <= set(re.findall(r"`(\w+)`", GUIDE.split("## What is stable")[1]))


def test_engines_in_several_threads_plan_as_alone():
    """Engines share nothing: what each plans does not depend on what others do at the same time."""

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
