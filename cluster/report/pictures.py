"""Draws a plot into a picture that stands in the page itself, the same on every machine."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from cluster.report.blocks import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DOTS_PER_INCH = 150
"""Sharp on screens with small dots, too."""
PIXELS_PER_INCH = 100
"""At which the letters of a picture are about as large as those of the page."""
WIDE, HIGH = 6.0, 3.2
"""Inches of a picture, unless it is given others."""


def picture(
    draw: Callable[[Axes], object], caption: str, alternative: str, *, width: float = WIDE, height: float = HIGH
) -> Picture:
    """Return what `draw` draws into the axes that it is given; if it returns a map of loads, that gets a colour bar.

    Names in the plots are never read as formulas; letters that the font lacks are drawn as boxes, and what long names
    leave no room for is cut.
    """
    from matplotlib import rc_context
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

    target = io.BytesIO()
    with rc_context({"text.parse_math": False, "font.family": "DejaVu Sans"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)
        figure = Figure(figsize=(width, height), layout="constrained")
        ax = figure.subplots()
        drawn = draw(ax)
        if isinstance(drawn, QuadMesh):
            figure.colorbar(drawn, ax=ax, extend="max").set_label("load (% of capacity)")
        figure.savefig(target, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    source = "data:image/png;base64," + base64.b64encode(target.getvalue()).decode("ascii")
    return Picture(source, caption, alternative, round(PIXELS_PER_INCH * width), round(PIXELS_PER_INCH * height))
