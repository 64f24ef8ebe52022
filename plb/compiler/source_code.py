"""Digests of source code, which change with what the code does: not with comments, docstrings or formatting.

A digest is of the syntax trees, in a form that is the same for all versions of Python, and of the names of the modules;
the place of the files does not count.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from plb.errors import PlbError

NOT_OF_MEANING = frozenset({"ctx", "kind", "type_comment"})
"""Fields of a tree that follow from others, or do not change what the code does."""


def modules_in(folder: Path) -> dict[str, Path]:
    """Return the files of all modules of a package by module name; raise an error if it has no source code."""
    files = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    if not files:
        raise PlbError(f"{folder}: has no source code, which identifies finished runs; install plb with its sources")
    return files


def imported_by(module: str, modules: Mapping[str, Path]) -> dict[str, Path]:
    """Return which of some modules a module imports, directly or not, and the module itself.

    Imports in functions and for types count, and so do the packages around a module.
    """
    names = [module]
    for importer in names:  # grows
        tree = _parsed(modules[importer].read_bytes(), modules[importer])
        imported = dict.fromkeys(_names_imported(tree))
        names += [name for name in imported if name in modules and name not in names]
    return {name: modules[name] for name in names}


def _names_imported(tree: ast.Module) -> Iterable[str]:
    """Yield whatever a module imports that may be a module, with the packages around it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            inside = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""  # no module is imported relatively
            for alias in node.names:
                parts = f"{inside}{alias.name}".split(".")
                yield from (".".join(parts[: end + 1]) for end in range(len(parts)))


def digest_of_modules(files: Mapping[str, Path]) -> str:
    """Return the SHA-256 of modules by name, in hexadecimal digits; their order does not count."""
    hashed = hashlib.sha256()
    for name, path in sorted(files.items()):
        hashed.update(f"{name} {digest_of_source(path.read_bytes(), path)}\n".encode())
    return hashed.hexdigest()


def digest_of_source(source: bytes | str, file: str | Path = "source code") -> str:
    """Return the SHA-256 of what the source code of a module does, in hexadecimal digits; errors name the file."""
    words: list[str] = []
    _describe(_parsed(source, file), words)
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def _parsed(source: bytes | str, file: str | Path) -> ast.Module:
    """Return the syntax tree of a source; the error of an invalid one names the file."""
    try:
        return ast.parse(source)
    except SyntaxError as error:
        where = "" if error.lineno is None else f", line {error.lineno}"
        raise PlbError(f"{file}{where}: cannot be parsed ({error.msg}), so the code of runs is unknown") from None


def _describe(node: ast.AST, words: list[str]) -> None:
    """Append a description of a tree to `words`, none of which has a line break.

    Empty fields are left out, as each version of Python has further ones.
    """
    words.append(type(node).__name__)
    for name in node._fields:
        value = getattr(node, name, None)
        if value is None or value == [] or name in NOT_OF_MEANING:
            continue
        words.append(name)
        for part in value if isinstance(value, list) else (value,):
            if not isinstance(part, ast.AST):
                words.append(repr(part))
            elif not _is_comment(part):
                _describe(part, words)
        words.append(";")
    words.append(")")


def _is_comment(node: ast.AST) -> bool:
    """Return whether a node is a text as a statement, such as a docstring, which does nothing."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
