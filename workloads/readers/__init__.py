"""Readers of public traces: `READERS` by the name of their format, `convert` for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from workloads.readers.base import Options, Reader
from workloads.readers.bitbrains import BITBRAINS
from workloads.readers.convert import convert, read_public
from workloads.readers.google2019 import GOOGLE2019
from workloads.readers.planetlab import PLANETLAB
from workloads.readers.report import Report

__all__ = ["READERS", "Options", "Reader", "Report", "convert", "read_public"]

READERS: Mapping[str, Reader] = MappingProxyType({reader.name: reader for reader in (BITBRAINS, PLANETLAB, GOOGLE2019)})
"""The readers, by the name of their format."""
