"""What learning raises beside the family in `plb.errors`."""

from __future__ import annotations

from os import PathLike, fspath

from plb.errors import PlbError


class MissingExtraError(PlbError, ImportError):
    """A package that learning needs is not installed.

    Parameters
    ----------
    package
        Its name, such as ``"torch"``.
    """

    def __init__(self, package: str) -> None:
        super().__init__(package)
        self.package = package
        self._message = f"{package} is not installed; pip install 'plb[learning]' brings it"


class CheckpointError(PlbError):
    """A file holds no policy that can be used here.

    Parameters
    ----------
    path
        The file.
    reason
        What is wrong with it, in words.
    """

    def __init__(self, path: str | PathLike[str], reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason
        self._message = f"checkpoint {fspath(path)}: {reason}"


class DivergedError(PlbError):
    """Training has come to a number that is not finite.

    Parameters
    ----------
    iteration
        In which iteration, the first being 1.
    what
        What is not finite, in words.
    """

    def __init__(self, iteration: int, what: str) -> None:
        super().__init__(iteration, what)
        self.iteration, self.what = iteration, what
        self._message = (
            f"training diverged in iteration {iteration}: {what} not finite; a smaller learning rate may help, "
            "and a game must give finite observations and rewards"
        )
