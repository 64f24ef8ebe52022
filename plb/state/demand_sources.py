"""The source of the expected demand that the settings choose: sampled traces, or reports of the replicas."""

from __future__ import annotations

from plb.risk.demand_history import DemandHistory
from plb.risk.estimators import HistoricalSimulation, MonteCarlo, estimator_of
from plb.settings.config import PlbConfig
from plb.state.demand_forecast import DemandForecast, Forecast
from plb.state.historical_forecast import HistoricalForecast
from plb.state.observed_forecast import ObservedDemandForecast


def demand_forecast_of(config: PlbConfig, history: DemandHistory | None, seed: int) -> Forecast:
    """Return the source of the expected demand of replicas; `history`: past tenants for sampling, with `seed`."""
    estimator = estimator_of(config.estimator)
    if isinstance(estimator, MonteCarlo):
        return DemandForecast(config, estimator, history, seed)
    if not config.reads_probabilities:
        return DemandForecast(config, MonteCarlo(), history, seed)
    if isinstance(estimator, HistoricalSimulation):
        return HistoricalForecast(config, estimator, history, seed)
    return ObservedDemandForecast(config, estimator)


def settings_of_forecast(config: PlbConfig) -> tuple[object, ...]:
    """Return the settings that a source depends on; where they change, another one is needed."""
    trends = tuple(metric.trend for metric in config.metrics)
    return config.estimator, config.repetitions, config.replay, config.reads_probabilities, trends
