"""Ready-made extensions with kernels, which an engine gets as objects, such as ``LeastDomains({"db": 3})``.

docs/terms/ready_made.md and docs/constraints/extensions.md describe them. Begin reading in
`plb.ready_made.capacity_terms`.
"""

from plb.ready_made.capacity_terms import MetricBalance, SafetyCapacity
from plb.ready_made.constraints import LeastDomains, SameDomain
from plb.ready_made.move_terms import MostMovedService, MoveCostBetweenDomains

__all__ = [
    "LeastDomains",
    "MetricBalance",
    "MostMovedService",
    "MoveCostBetweenDomains",
    "SafetyCapacity",
    "SameDomain",
]
