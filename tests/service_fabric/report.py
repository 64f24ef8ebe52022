"""Reports the results of scenarios as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from plb.phrasing import listed
from tests.service_fabric.run import Outcome
from tests.service_fabric.scenario import Scenario
from tests.service_fabric.verdicts import Failure

MOST_ACTIONS = 12
"""Number of actions shown for a failure by default."""


def suites_of(scenario: Scenario) -> tuple[str, ...]:
    return (scenario.suite,)


def features_of(scenario: Scenario) -> tuple[str, ...]:
    return scenario.features


def passed_table(kind: str, outcomes: Sequence[Outcome], groups_of: Callable[[Scenario], tuple[str, ...]]) -> str:
    """Return a table of passed and failed scenarios, one row per group of a kind, such as a feature."""
    passed, failed = _counts(outcomes, groups_of, passed=True), _counts(outcomes, groups_of, passed=False)
    names = sorted(passed.keys() | failed.keys())
    width = max(map(len, (kind, *names)))
    rows = [f"{name:{width}}  {passed[name]:6}  {failed[name]:6}" for name in names]
    return "\n".join([f"{kind:{width}}  passed  failed", *rows])


def _counts(
    outcomes: Sequence[Outcome], groups_of: Callable[[Scenario], tuple[str, ...]], *, passed: bool
) -> Counter[str]:
    return Counter(name for outcome in outcomes if outcome.passed is passed for name in groups_of(outcome.scenario))


def failed_text(outcome: Outcome, *, verbose: bool = False) -> str:
    lines = [line for failure in outcome.failures for line in _failure_lines(failure, verbose=verbose)]
    seeds = f" with seeds {listed([*map(str, outcome.failed_seeds)])}" if len(outcome.failed_seeds) > 1 else ""
    return "\n".join([f"FAILED {outcome.scenario.name}{seeds}", *(f"  {line}" for line in lines)])


def _failure_lines(failure: Failure, *, verbose: bool) -> Iterator[str]:
    place = "" if failure.line is None else f"line {failure.line}: "
    yield f"{place}expected {failure.expected}"
    yield f"  actual {failure.actual}"
    yield f"  actions: {_actions(failure.actions, len(failure.actions) if verbose else MOST_ACTIONS)}"
    if verbose:
        yield from failure.traceback.splitlines()


def _actions(texts: Sequence[str], most: int) -> str:
    left = len(texts) - most
    return "; ".join([*texts[:most], f"and {left} more"] if left > 0 else texts) or "none"


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the last line: the numbers of passed and failed scenarios."""
    passed = sum(outcome.passed for outcome in outcomes)
    return f"{passed} passed, {len(outcomes) - passed} failed"
