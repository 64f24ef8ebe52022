"""Undocumented names of Numba are listed in one place, exist, and are used nowhere else."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from plb.compiler import numba_api
from plb.compiler.numba_api import MEMBERS, NAMES, SUPPORTED, check_members, is_used_by_methods, look_up
from plb.errors import UnsupportedNumbaError
from tests.sources import ROOT, trees

COMPILER = ROOT / "plb" / "compiler"
NOT_OF_NUMBA = {"_fields", "_field_defaults", "_is_announced", "_numba_type_"}
"""Names with a leading underscore that are not private to Numba: of named tuples, of plb, of Numba's protocol."""
LISTED = {member for members in MEMBERS.values() for member in members}


def inside() -> dict[Path, ast.Module]:
    """Return the trees of the compiler's files."""
    return {path: tree for path, tree in trees().items() if path.parent == COMPILER}


def outside() -> dict[Path, ast.Module]:
    """Return the trees of all other files."""
    return {path: tree for path, tree in trees().items() if path.parent != COMPILER}


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the imports of a module at any place; for a package also the names."""
    for one in ast.walk(tree):
        if isinstance(one, ast.Import):
            yield from (alias.name for alias in one.names)
        elif isinstance(one, ast.ImportFrom) and one.module:
            yield from (f"{one.module}.{alias.name}" for alias in one.names)


def is_of_numba(name: str) -> bool:
    """Return whether a name belongs to Numba or llvmlite."""
    return name.partition(".")[0] in ("numba", "llvmlite")


def is_private(name: str) -> bool:
    """Return whether a name of Numba is undocumented."""
    _, *parts = name.split(".")
    return name.startswith("numba.") and (parts[0] == "core" or any(part.startswith("_") for part in parts))


def is_private_member(name: str) -> bool:
    """Return whether a member has a private name."""
    return name.startswith("_") and not name.startswith("__")


def used_of_others(tree: ast.AST) -> set[str]:
    """Return the private members of other objects that a module uses."""
    attributes = (one for one in ast.walk(tree) if isinstance(one, ast.Attribute))
    of_others = {one.attr for one in attributes if getattr(one.value, "id", "") not in ("self", "cls")}
    by_name = {
        argument.value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("getattr", "setattr", "hasattr", "delattr")
        for argument in call.args[1:2]
        if isinstance(argument, ast.Constant)
    }
    return set(filter(is_private_member, of_others | by_name))


def used_of_bases(tree: ast.AST) -> set[str]:
    """Return the private members of Numba's classes that subclasses use on themselves or override."""
    kinds = (numba_api.JITCodeLibrary, numba_api.CPUDispatcher, numba_api.Compiler, numba_api.AttributeTemplate)
    parts = [part for one in ast.walk(tree) if isinstance(one, ast.ClassDef) and one.bases for part in ast.walk(one)]
    used = {one.attr for one in parts if isinstance(one, ast.Attribute) and getattr(one.value, "id", "") == "self"}
    used |= {one.name for one in parts if isinstance(one, ast.FunctionDef)}
    private = filter(is_private_member, used)
    return {
        name
        for name in private
        if any(hasattr(kind, name) or is_used_by_methods(kind, name, "STORE_ATTR") for kind in kinds)
    }


def used_members() -> set[str]:
    """Return the private members of Numba's objects that the compiler uses."""
    return set().union(*(used_of_others(tree) | used_of_bases(tree) for tree in inside().values())) - NOT_OF_NUMBA


def test_no_module_outside_the_compiler_imports_numba():
    """No module imports llvmlite either, at any place."""
    assert len(outside()) > 200
    assert {str(path): name for path, tree in outside().items() for name in imported(tree) if is_of_numba(name)} == {}


def test_within_the_compiler_private_modules_are_named_once():
    """The list of `plb.compiler.numba_api` has them, and gives them to the others."""
    assert sum(is_of_numba(name) for tree in inside().values() for name in imported(tree)) > 5
    found = {str(path): name for path, tree in inside().items() for name in imported(tree) if is_private(name)}
    assert found == {}


def test_every_listed_name_is_used():
    """Every listed name is used."""
    given = {
        name.rpartition(".")[2] for path, tree in inside().items() for name in imported(tree) if "numba_api" in name
    }
    assert given == {name.rpartition(".")[2] for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_listed_names_exist_and_have_a_purpose(name):
    """They are the names that `plb.compiler.numba_api` gives to the others."""
    assert is_private(name)
    assert NAMES[name]
    assert look_up(name) is getattr(numba_api, name.rpartition(".")[2])


def test_listed_members_exist_and_have_a_purpose():
    """They belong to undocumented classes and objects of Numba."""
    for name, members in MEMBERS.items():
        assert is_private(name)
        check_members(name, members)
        assert all(members.values())


def test_every_private_member_that_is_used_is_listed():
    """They are members of Numba's objects, and of its classes in subclasses of plb."""
    assert len(used_members()) > 5
    assert used_members() - LISTED == set()


def test_every_private_member_that_is_listed_is_used():
    """The list has no unused member."""
    assert set(filter(is_private_member, LISTED)) - used_members() == set()


def message_of(error: UnsupportedNumbaError) -> str:
    """Return the sentence of an error."""
    assert "\n" not in str(error)
    return str(error)


@pytest.mark.parametrize("name", ["numba.core.registry.no_such", "numba.no_such.thing", "numba._no_such.thing"])
def test_missing_name_gives_one_sentence(name):
    """The error names the installed version, the missing name and the versions to install."""
    with pytest.raises(UnsupportedNumbaError) as raised:
        look_up(name)
    assert (
        message_of(raised.value) == f"Numba {version('numba')} is not supported (it has no {name}); install {SUPPORTED}"
    )
    assert isinstance(raised.value, ImportError)


def test_missing_member_gives_one_sentence():
    """It is found before any compilation."""
    with pytest.raises(UnsupportedNumbaError, match=r"\(it has no [a-z.]*Compiler\._no_such\); install"):
        check_members("numba.core.compiler.Compiler", {"_no_such": "nothing"})


WITHOUT = """
import sys
from importlib import import_module
from plb.compiler import kernel
from plb.errors import UnsupportedNumbaError

@kernel
def f(x):
    return x

def run():
    import_module({0!r})
    holder, missing = eval({1!r}, {{**sys.modules}}), {2!r}
    delattr(next(one for one in getattr(holder, "__mro__", [holder]) if missing in vars(one)), missing)
    try:
        f(1)
    except UnsupportedNumbaError as error:
        return str(error)
"""


@pytest.mark.parametrize(
    ("holder", "missing"),
    [
        ("numba.core.sigutils", "normalize_signature"),
        ("numba.core.registry.CPUDispatcher", "get_call_template"),
        ("numba.core.codegen.JITCodeLibrary", "_raise_if_finalized"),
    ],
)
def test_kernels_are_refused_if_numba_lacks_a_name(processes, tmp_path, holder, missing):
    """The first call raises the error, for modules and for members."""
    module = ".".join(part for part in holder.split(".") if part.islower())
    (tmp_path / "example.py").write_text(WITHOUT.format(module, holder, missing))
    ran = processes.run("example:run", cache=tmp_path / "cache", path=[tmp_path])
    assert ran.result.startswith(f"Numba {version('numba')} is not supported (it has no {holder}.{missing}); install ")
    assert ran.compiled == []


def test_supported_versions_of_numba_are_bounded():
    """Private names may change with any release; the package requires the versions that it accepts."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (requested,) = [line for line in project["dependencies"] if line.startswith("numba")]
    assert requested == SUPPORTED
