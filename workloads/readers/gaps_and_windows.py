"""Cut series of steps at long gaps, fill short ones, and cut what is too long into windows."""

from __future__ import annotations

import attrs
import numpy as np

from plb.array_types import Bool, Int
from workloads.ragged_arrays import bounds_of, per_row


@attrs.frozen(eq=False)
class Windows:
    """Pieces of series, which may become tenants.

    Parameters
    ----------
    rows
        Rows of the steps, one for each step of a piece; a row is repeated if a gap after it was filled.
    bounds
        Bounds of the pieces in `rows`.
    first_step
        Step at which each piece begins; it may lie in a gap that was filled.
    gaps_filled, gaps_cut
        Gaps that were filled, and those that cut a series.
    """

    rows: Int
    bounds: Int
    first_step: Int
    gaps_filled: int
    gaps_cut: int

    @property
    def lengths(self) -> Int:
        """Steps of each piece."""
        return np.diff(self.bounds)

    def keep(self, pieces: Bool) -> Windows:
        """Return these pieces only."""
        inside = per_row(pieces, self.bounds)
        return attrs.evolve(
            self, rows=self.rows[inside], bounds=bounds_of(self.lengths[pieces]), first_step=self.first_step[pieces]
        )


def cut(owner: Int, step: Int, longest_gap: int, longest: int | None) -> Windows:
    """Cut series into pieces.

    Parameters
    ----------
    owner, step
        Whose each row is, and which step it is, in the order of owner and step, no step of an owner twice.
    longest_gap
        Most missing steps in a row that are filled, with the row before them.
    longest
        Most steps of a piece; None: as long as they are.
    """
    same = np.diff(owner) == 0
    missing = np.diff(step) - 1
    long_gap = same & (missing > longest_gap)
    joined = same & ~long_gap
    repeats = np.append(np.where(joined, missing + 1, 1), 1)
    series = np.concatenate([[0], np.cumsum(~joined)])
    lengths = np.bincount(series, repeats).astype(np.int64)
    rows = np.repeat(np.arange(len(step)), repeats)
    bounds = bounds_of(lengths_of_pieces(lengths, longest)[1])
    begin, row = bounds[:-1], rows[bounds[:-1]]
    return Windows(
        rows=rows,
        bounds=bounds,
        first_step=step[row] + begin - bounds_of(repeats)[row],
        gaps_filled=int((joined & (missing > 0)).sum()),
        gaps_cut=int(long_gap.sum()),
    )


def lengths_of_pieces(lengths: Int, longest: int | None) -> tuple[Int, Int]:
    """Cut series into windows, all of full length but the last of each series.

    Parameters
    ----------
    lengths
        Steps of the series, each at least 1.
    longest
        Most steps of a window; None: the series stay as they are.

    Returns
    -------
    tuple
        Series and steps of each window.
    """
    if longest is None:
        return np.arange(len(lengths)), lengths
    windows = -(-lengths // longest)
    sizes = np.full(int(windows.sum()), longest, np.int64)
    sizes[np.cumsum(windows) - 1] = lengths - (windows - 1) * longest
    return np.repeat(np.arange(len(lengths)), windows), sizes
