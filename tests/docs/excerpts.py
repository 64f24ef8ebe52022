"""Comparison of excerpts with their source: equal statements, some of which may be omitted."""

from __future__ import annotations

import ast
from collections.abc import Sequence

BODIES = ("body", "orelse", "finalbody", "handlers")


class _Bare(ast.NodeTransformer):
    """Removes docstrings and the types of arguments."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
            argument.annotation = None
        return self._without_docstring(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._without_docstring(node)

    def visit_Module(self, node: ast.Module) -> ast.AST:
        return self._without_docstring(node)

    def _without_docstring(self, node: ast.FunctionDef | ast.ClassDef | ast.Module) -> ast.AST:
        if ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        return self.generic_visit(node)


def missing(code: str, sources: Sequence[str]) -> list[str]:
    """Return the statements of a piece of code that are in none of the sources.

    A compound statement, such as a loop, is in a source if its head is there and contains the other statements in their
    order. Docstrings and types of arguments do not count.
    """
    known = [one for source in sources for one in ast.walk(_bare(source)) if isinstance(one, ast.stmt)]
    return [ast.unparse(one) for one in _bare(code).body if not any(_is_part(one, other) for other in known)]


def _bare(code: str) -> ast.Module:
    tree = _Bare().visit(ast.parse(code))
    assert isinstance(tree, ast.Module)
    return tree


def _is_part(part: ast.AST, whole: ast.AST) -> bool:
    if type(part) is not type(whole):
        return False
    for name in BODIES:
        others = iter(getattr(whole, name, ()))
        if not all(any(_is_part(one, other) for other in others) for one in getattr(part, name, ())):
            return False
    return _head(part) == _head(whole)


def _head(node: ast.AST) -> list[str]:
    """Return a statement without the statements in it."""
    return [
        ast.dump(one)
        if isinstance(one, ast.AST)
        else repr([ast.dump(o) if isinstance(o, ast.AST) else o for o in one])
        if isinstance(one, list)
        else repr(one)
        for name, one in ast.iter_fields(node)
        if name not in BODIES
    ]
