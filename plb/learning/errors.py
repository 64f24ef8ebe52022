"""What can go wrong with learning that is not a refused value."""

from __future__ import annotations

from plb.errors import PlbError


class MissingExtraError(PlbError, ImportError):
    """A package that only learning needs is not installed.

    Parameters
    ----------
    package
        Its name, such as ``"torch"``.
    """

    def __init__(self, package: str) -> None:
        super().__init__(package)
        self.package = package
        self._message = f"{package} is not installed; pip install 'plb[learning]' brings it"
