"""Pages that show the example files, so that links to them stay within the site.

On a page of Markdown a link leads to the file itself (``../examples/embedding.py``), which is right where the page is
read beside the files. In the site it leads to a page that shows the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from os.path import relpath
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.highlighting import PygmentsBridge
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).parents[2]
LEXERS = {".py": "python", ".toml": "toml", ".csv": "text", ".out": "text"}
FOLDERS = ("examples", "benchmarks")


def shown_files() -> list[Path]:
    """Return the files that have a page, from the root of the repository."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in LEXERS]
    return sorted(path.relative_to(ROOT) for path in found if "__pycache__" not in path.parts)


def page_of(file: Path) -> str:
    """Return the name of the page that shows a file."""
    return f"sources/{file.as_posix()}"


class LinksToSources(SphinxTransform):
    """Lets links to files that have a page lead to that page."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """Replace what would be a download."""
        shown = set(shown_files())
        here = Path(self.env.doc2path(self.env.docname)).parent
        for node in list(self.document.findall(addnodes.download_reference)):
            file = Path(node["reftarget"])
            place = (file if file.is_absolute() else here / file).resolve()
            if not place.is_relative_to(ROOT) or place.relative_to(ROOT) not in shown:
                continue
            page = f"{page_of(place.relative_to(ROOT))}.html"
            target = relpath(page, Path(self.env.docname).parent.as_posix())
            node.replace_self(nodes.reference("", "", *node.children, internal=True, refuri=target))


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the pages."""
    bridge = PygmentsBridge("html", app.config.pygments_style or "default")
    for file in shown_files():
        code = bridge.highlight_block((ROOT / file).read_text(), LEXERS[file.suffix])
        title = escape(file.as_posix())
        yield page_of(file), {"title": title, "parents": [], "body": f"<h1>{title}</h1>{code}"}, "page.html"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the transform and the pages."""
    app.add_transform(LinksToSources)
    app.connect("html-collect-pages", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
