"""Energy terms that are ready to use: extension terms with kernels, which an engine gets as objects.

docs/terms/ready_made.md describes them. Begin reading in `plb.terms.safety_capacity`.
"""

from plb.terms.metric_balance import MetricBalance
from plb.terms.most_moved_service import MostMovedService
from plb.terms.move_costs import MoveCostBetweenDomains
from plb.terms.safety_capacity import SafetyCapacity

__all__ = ["MetricBalance", "MostMovedService", "MoveCostBetweenDomains", "SafetyCapacity"]
