"""The probability of a violation: demand history, eligible past tenants, Monte Carlo and other estimators.

Begin reading in `plb.risk.risk_model`.
"""

from plb.risk.counter_based_random import replica_key
from plb.risk.demand_history import DemandHistory
from plb.risk.estimators import Evaluation
from plb.risk.recalibration import Recalibration
from plb.risk.risk_model import ReplicaForecast, RiskModel

__all__ = ["DemandHistory", "Evaluation", "Recalibration", "ReplicaForecast", "RiskModel", "replica_key"]
