"""The probability of a violation: demand history, eligible past tenants, Monte Carlo and other estimators.

Begin reading in `plb.risk.risk_model`.
"""

from plb.risk.counter_based_random import replica_key
from plb.risk.demand_history import DemandHistory
from plb.risk.eligibility import Widening, eligible_traces
from plb.risk.monte_carlo import (
    Evaluation,
    MonteCarloRisk,
    repetitions_in_violation_peak,
    repetitions_in_violation_timeline,
)
from plb.risk.observed_risk import ObservedRisk
from plb.risk.recalibration import Recalibration
from plb.risk.risk_model import ReplicaForecast, RiskModel
from plb.risk.trace_sampling import TraceDraws, TraceSampler

__all__ = [
    "DemandHistory",
    "Evaluation",
    "MonteCarloRisk",
    "ObservedRisk",
    "Recalibration",
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
