"""Readers of public traces (`READERS`, by the name of their format) and of tables of users; `convert` for all of them.

Begin reading in `workloads.readers.convert`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from workloads.readers.alibaba import ALIBABA2018, TIANCHI2018
from workloads.readers.azure import AZURE2017, AZURE2019, AZURE_PACKING2020
from workloads.readers.base import Options, Reader
from workloads.readers.bitbrains import BITBRAINS
from workloads.readers.convert import convert, read_public
from workloads.readers.external_sort import ConversionReport
from workloads.readers.google import GOOGLE2011, GOOGLE2019
from workloads.readers.planetlab import PLANETLAB
from workloads.readers.table_columns import TableColumns
from workloads.readers.tables import from_frame, table_reader

__all__ = [
    "READERS",
    "ConversionReport",
    "Options",
    "Reader",
    "TableColumns",
    "convert",
    "from_frame",
    "read_public",
    "table_reader",
]

READERS: Mapping[str, Reader] = MappingProxyType(
    {
        reader.name: reader
        for reader in (
            PLANETLAB,
            BITBRAINS,
            GOOGLE2011,
            GOOGLE2019,
            TIANCHI2018,
            AZURE2017,
            AZURE2019,
            AZURE_PACKING2020,
            ALIBABA2018,
        )
    }
)
"""The readers, by the name of their format."""
