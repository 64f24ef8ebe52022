"""How the documentation is built: `make docs`. Pages are Markdown, and are read on their own as well."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent)]

logging.getLogger("sphinx.sphinx.directives.other").addFilter(
    lambda record: getattr(record, "subtype", "") != "empty_glob"  # folders of the contents may be empty
)

project = "plb"
author = "the authors of plb"
project_copyright = "the authors of plb"
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "plain_attributes",
    "source_pages",
    "generated_reference",
]
exclude_patterns = ["_ext", "_static", "images"]

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block"]

default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
napoleon_google_docstring = False
napoleon_use_rtype = False
toc_object_entries = False

html_theme = "furo"
html_title = "plb"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
