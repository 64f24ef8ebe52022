"""Temporary growth of demand beyond the traces."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

import numpy as np

from cluster.scenario.workload_section import Growth
from plb import UnknownNameError
from plb.array_types import Float
from workloads.trace import TraceSet


def check_classes(growths: Iterable[Growth], traces: TraceSet) -> None:
    """Raise `UnknownNameError` if no tenant has the class of a growth."""
    for growth in growths:
        if not any(fnmatchcase(name, growth.tenant_class) for name in traces.classes):
            raise UnknownNameError("tenant class", growth.tenant_class, traces.classes, "workload.growth")


def factors(growths: Iterable[Growth], traces: TraceSet) -> Float:
    """Return the factor on the demand of each tenant, (T,), while all of `growths` are active."""
    of_class = np.ones(len(traces.classes))
    for growth in growths:
        matches = [fnmatchcase(name, growth.tenant_class) for name in traces.classes]
        of_class[matches] *= growth.factor
    return np.asarray(of_class[traces.class_code])
