"""What this project imports of Numba beyond its documented interface.

Such names may change with any release, so only tested versions of Numba are accepted.
"""
# ruff: noqa: E402  # the version is checked before anything is imported

from __future__ import annotations

import re
from importlib.metadata import version

from plb.errors import UnsupportedNumbaError

__all__ = [
    "AttributeTemplate",
    "CPUDispatcher",
    "Compiler",
    "JITCodeLibrary",
    "NumbaError",
    "OpaqueModel",
    "builtin_registry",
    "cgutils",
    "compute_fingerprint",
    "cpu_target",
    "global_compiler_lock",
    "make_function",
    "normalize_signature",
    "stream_list",
]
SUPPORTED = "numba>=0.68,<0.69"
"""The tested versions, as in ``pyproject.toml``."""
_FROM, _BELOW = (0, 68), (0, 69)


def check_version(installed: str) -> None:
    """Raise `UnsupportedNumbaError` for a version that is not tested."""
    numbers = re.match(r"(\d+)\.(\d+)", installed)
    if numbers is None or not _FROM <= (int(numbers[1]), int(numbers[2])) < _BELOW:
        raise UnsupportedNumbaError(installed, SUPPORTED)


check_version(version("numba"))

from numba._dispatcher import compute_fingerprint
from numba._dynfunc import make_function
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.datamodel.models import OpaqueModel
from numba.core.errors import NumbaError
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.sigutils import normalize_signature
from numba.core.typing.templates import AttributeTemplate, builtin_registry
from numba.core.utils import stream_list
