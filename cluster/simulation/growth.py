"""Demand that grows for a while beyond what the traces say."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

import numpy as np

from cluster.scenario.workload_section import Growth
from cluster.simulation.ledger import Floats
from plb import UnknownNameError
from workloads.trace import TraceSet


def check_classes(growths: Iterable[Growth], traces: TraceSet) -> None:
    """Raise `UnknownNameError` if a growth is for a class that no tenant has."""
    for growth in growths:
        if not any(fnmatchcase(name, growth.tenant_class) for name in traces.classes):
            raise UnknownNameError("tenant class", growth.tenant_class, traces.classes, "workload.growth")


def factors(growths: Iterable[Growth], traces: TraceSet) -> Floats:
    """Return what the demand of each tenant is multiplied by, (T,), while all of `growths` go on."""
    of_class = np.ones(len(traces.classes))
    for growth in growths:
        matches = [fnmatchcase(name, growth.tenant_class) for name in traces.classes]
        of_class[matches] *= growth.factor
    return np.asarray(of_class[traces.class_code])
