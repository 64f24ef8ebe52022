"""SHA-256 of configurations and of files, which identify the inputs of results."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import workloads
from plb.compiler.source_code import digest_of_modules, imported_by, modules_in

MAKES_TENANTS = "workloads.regions"
"""The module that makes the tenants of a region."""
TENANTS_CODE = "tenants_code"
"""Key of the digest of the code that makes tenants, beside the digest of the parameters of a region."""
PART = 1 << 20
"""Bytes of a file in memory at a time."""


def digest_of(values: Mapping[str, Any]) -> str:
    """Return the digest of plain JSON values as canonical JSON, in hexadecimal digits; the order of keys is ignored."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode()).hexdigest()


def digest_of_files(path: Path) -> str:
    """Return the digest of a file, or of all files of a directory with their names."""
    digest = sha256()
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(os.fsencode(f"{file.name}\n"))
            with file.open("rb") as content:
                while part := content.read(PART):
                    digest.update(part)
    return digest.hexdigest()


@cache
def code_of_tenants() -> str:
    """Return the digest of all modules of workloads that make the tenants of regions; read once a process."""
    assert workloads.__file__ is not None
    return digest_of_modules(imported_by(MAKES_TENANTS, modules_in(Path(workloads.__file__).parent)))


def code_of_tenants_in(kind: str) -> dict[str, str]:
    """Return the digest of the code that makes the tenants of a kind of workload, by the key `TENANTS_CODE`.

    It is empty for kinds whose tenants are read from files.
    """
    return {TENANTS_CODE: code_of_tenants()} if kind == "region" else {}
