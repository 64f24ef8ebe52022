"""State machines that apply random events to a term, a constraint or a risk model, and shrink failures."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from plb.errors import InvalidValueError
from plb.extensions.constraints import Constraint
from plb.extensions.energy_terms import EnergyTerm, missing_methods
from plb.risk.risk_model import RiskModel
from plb.testing.cluster import Cluster
from plb.testing.invariants import OF_CONSTRAINTS, OF_RISK_MODELS, OF_TERMS, Invariant
from plb.testing.small_clusters import small_clusters
from plb.testing.state_machines import ConfigurationMachine, ConstraintMachine, RiskMachine, TermMachine
from plb.validation import check_names

KINDS: tuple[tuple[type, type[RuleBasedStateMachine], tuple[Invariant, ...]], ...] = (
    (EnergyTerm, TermMachine, OF_TERMS),
    (Constraint, ConstraintMachine, OF_CONSTRAINTS),
    (RiskModel, RiskMachine, OF_RISK_MODELS),
)
"""The kinds of subjects, their machines, and their invariants."""
SETTINGS = settings(
    deadline=None,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)
"""The first example compiles kernels, so a deadline would measure the compiler."""
REPEATABLE = settings(SETTINGS, derandomize=True, database=None, print_blob=False)


def machine_of(
    subject: EnergyTerm | Constraint | RiskModel,
    *,
    without: Iterable[Invariant] = (),
    metrics: Iterable[str] = ("cpu", "disk"),
    clusters: st.SearchStrategy[Cluster] | None = None,
    made_for: Callable[[Cluster], EnergyTerm | Constraint] | None = None,
) -> type[unittest.TestCase]:
    """Return a test case for a term, a constraint or a risk model: ``TestMyTerm = machine_of(MyTerm())``.

    Parameters
    ----------
    subject
        The subject; every example uses a copy.
    without
        Invariants that do not apply to it, such as `Invariant.SCALE` for a term in units of load.
    metrics
        For a risk model: names of its metrics.
    clusters
        For a term or a constraint: the strategy of its clusters, such as ``small_clusters(nodes=...)`` with the fields
        of nodes that its data are about. None: `small_clusters`.
    made_for
        For a term or a constraint: makes the subject of an example from its cluster, so that its data are about the
        nodes, services and partitions that are drawn. None: a copy of `subject`.

    Raises
    ------
    InvalidValueError
        `subject` is of another kind, or a term with only some of the methods for sums, or `metrics` is not a
        collection of names, or a risk model is to have clusters.
    """
    base, invariants = _kind_of(subject)
    if issubclass(base, ConfigurationMachine):
        begin = base.begins_with(small_clusters() if clusters is None else clusters)
    elif clusters is not None or made_for is not None:
        given = clusters if made_for is None else made_for
        raise InvalidValueError("machine_of", "clusters or made_for", given, "None for a risk model")
    else:
        begin = {}
    left = frozenset(invariants) - frozenset(without)
    fields: dict[str, Any] = {
        "subject": subject,
        "asked": left,
        "metrics": check_names("machine_of", "metrics", metrics),
        "made_for": None if made_for is None else (made_for,),
        **begin,
    }
    made: Any = type(f"{type(subject).__name__}Machine", (base,), {**fields, "__doc__": base.__doc__})
    case: Any = made.TestCase
    case.settings, case.machine = SETTINGS, made
    return case  # type: ignore[no-any-return]


def counterexample(
    subject: EnergyTerm | Constraint | RiskModel,
    *,
    without: Iterable[Invariant] = (),
    clusters: st.SearchStrategy[Cluster] | None = None,
    made_for: Callable[[Cluster], EnergyTerm | Constraint] | None = None,
) -> str | None:
    """Return the shortest story found in which an invariant does not hold, or None; the same at every call.

    The parameters are those of `machine_of`.
    """
    case: Any = machine_of(subject, without=without, clusters=clusters, made_for=made_for)
    try:
        run_state_machine_as_test(case.machine, settings=REPEATABLE)
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", []))
        steps = [line.strip() for line in notes.splitlines() if line.strip() and "teardown" not in line]
        return "\n".join([*steps[1:], f"{type(error).__name__}: {error}"])
    return None


def _kind_of(subject: object) -> tuple[type[RuleBasedStateMachine], tuple[Invariant, ...]]:
    for kind, machine, invariants in KINDS:
        if isinstance(subject, kind):
            if missing := missing_methods(subject) if kind is EnergyTerm else []:  # type: ignore[arg-type]
                raise InvalidValueError("machine_of", "subject", subject, f"one that also has {', '.join(missing)}")
            return machine, invariants
    raise InvalidValueError("machine_of", "subject", subject, "an energy term, a constraint or a risk model")
