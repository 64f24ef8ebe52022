"""The probability of a violation: demand history, eligible past tenants, Monte Carlo and other estimators.

Begin reading in `plb.risk.interface`.
"""

from plb.risk.counter import replica_key
from plb.risk.demand import DemandHistory
from plb.risk.eligibility import Widening, eligible_traces
from plb.risk.interface import ReplicaForecast, RiskModel
from plb.risk.monte_carlo import (
    Evaluation,
    MonteCarloRisk,
    repetitions_in_violation_peak,
    repetitions_in_violation_timeline,
)
from plb.risk.observed import ObservedRisk
from plb.risk.sampling import TraceDraws, TraceSampler

__all__ = [
    "DemandHistory",
    "Evaluation",
    "MonteCarloRisk",
    "ObservedRisk",
    "ReplicaForecast",
    "RiskModel",
    "TraceDraws",
    "TraceSampler",
    "Widening",
    "eligible_traces",
    "repetitions_in_violation_peak",
    "repetitions_in_violation_timeline",
    "replica_key",
]
