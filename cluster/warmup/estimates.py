"""Tasks of `plb warmup` that estimate: risk models by themselves, and peaks of machines."""

from __future__ import annotations

from plb import Role
from plb.risk import DemandHistory, Evaluation, MonteCarloRisk, ObservedRisk, ReplicaForecast, eligible_traces
from plb.risk.peaks import MachinePeak, TaskSamples, parse, predict

PREDICTORS = ("max(n-sigma;rc-like)", "n-sigma:form=paper", "per-machine-percentile", "oracle")
STREAMED = ("rc-like:warmup=2", "n-sigma:form=paper,warmup=2", "n-sigma:warmup=2")
USAGE = ([1.0], [2.0], [3.0])
"""Of one task, step by step."""


def replay_past_tenants() -> None:
    """Ask for the probability of a violation by past tenants, at their peaks and at departures."""
    history = DemandHistory.from_columns(
        ("cpu",),
        tenant_class=["a"],
        role=[Role.INSTANCE.value],
        lifetime=[1e6],
        level=[[5.0]],
        initial=[[1.0]],
        growth=[[600.0]],
        maximum=[[9.0]],
    )
    eligible_traces(history, tenant_class="a", role=Role.INSTANCE, age=0.0, largest_demand=[1.0])
    model = MonteCarloRisk(history, repetitions=2, quanta={"cpu": 1.0})
    replicas = [ReplicaForecast("a", Role.INSTANCE, 0.0, {}, 0)]
    for evaluation in Evaluation:
        model.probability_of_violation(replicas, thresholds={"cpu": 4.0}, now=1.0, evaluation=evaluation)


def go_by_samples() -> None:
    """Ask risk models that go by samples."""
    replica = ReplicaForecast(None, Role.INSTANCE, 0.0, {}, 0, samples={"cpu": [1.0] * 3})
    ObservedRisk("rc-like:warmup=2", quanta={"cpu": 1.0}).predicted_peaks([replica])


def predict_peaks() -> None:
    """Predict the peaks of machines from whole columns."""
    steps = len(USAGE)
    samples = TaskSamples.from_columns(
        machine=[0] * steps, task=[0] * steps, time=range(steps), usage=[one[0] for one in USAGE], limit=[4.0] * steps
    )
    predict(samples, [parse(text) for text in PREDICTORS], threads=1)


def predict_a_machine() -> None:
    """Predict the peak of one machine, step by step."""
    for text in STREAMED:
        machine = MachinePeak(parse(text))
        for usage in USAGE:
            machine.update(["task"], usage, [4.0])
