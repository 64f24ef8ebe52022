"""Write the tables of the pages anew from the figures in docs/data: ``make pages``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from docs.tables.pages import PAGES, page_with_tables

for page in PAGES:
    text = page.read_text(encoding="utf-8")
    renewed = page_with_tables(page)
    if renewed != text:
        page.write_text(renewed, encoding="utf-8")
        print(f"{page}: written")
