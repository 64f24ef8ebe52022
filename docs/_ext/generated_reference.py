"""Directives whose content is made from the sources when the site is built, so that it is never out of date.

``{scenario-keys}``, ``{learning-keys}``, ``{command-line}``, ``{result-tables}``, ``{errors}``, and
``{public-interface} MODULE [NAME ...]``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from command_line import command_line
from configuration_keys import learning_keys, scenario_keys
from docutils import nodes
from public_interface import errors, interface, result_tables
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

DIRECTIVES: dict[str, Callable[..., str]] = {
    "scenario-keys": scenario_keys,
    "learning-keys": learning_keys,
    "command-line": command_line,
    "result-tables": result_tables,
    "errors": errors,
    "public-interface": interface,
}


class Generated(SphinxDirective):
    """Puts the Markdown that a function returns in its place."""

    optional_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the parsed Markdown."""
        words = self.arguments[0].split() if self.arguments else []
        return self.parse_text_to_nodes(DIRECTIVES[self.name](*words), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    for name in DIRECTIVES:
        app.add_directive(name, Generated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
