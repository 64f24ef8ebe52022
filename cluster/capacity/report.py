"""The results of a search for nodes or density: the answer of each policy, as a table, in sentences and as a plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from rich.table import Table

from cluster.capacity.question import Question, Searched
from cluster.plots.base import DAY, GREY, new_axes, save_figure, styled, use_open_axes
from cluster.results.intervals import Interval, half_width
from cluster.scenario.scenario import Scenario
from cluster.tables import new_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@attrs.frozen
class Point:
    """The results of a policy at one value."""

    value: float
    """Nodes or density."""
    violations: tuple[float, ...]
    """Violations a day of each repeat: pairs of a node and a metering time with a shortage, after which a failover
    started or was not possible.
    """
    unresolved: float
    """Violations a day without a possible failover, mean over the repeats."""
    failovers: float
    """Failovers a day, mean over the repeats."""
    not_placed: float
    """Tenants that were not placed when they arrived, mean over the repeats."""
    tenants: float
    """Arrived tenants, mean over the repeats."""
    impossible: str
    """The reason why there was no run; empty if there was one."""
    suffices: bool
    """Whether violations and tenants that are not placed are within the limits."""

    @property
    def mean(self) -> float | None:
        """Violations a day, mean over the repeats; None without a run."""
        return float(np.mean(self.violations)) if self.violations else None

    @property
    def half_width(self) -> float | None:
        """Half the width of the 95 % interval of the mean (Student's t); None for fewer than two runs."""
        return half_width(self.violations)

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval, which decides; the violations a day of a single run, and 0 without a run."""
        return _upper_end(self.violations) if self.violations else 0.0

    def verdict(self, question: Question) -> str:
        """Return whether the value suffices, and if not, the reason."""
        if self.suffices:
            return "yes"
        if self.impossible:
            return "no: impossible"
        few = question.suffices(self.high, 0.0)
        return "no: not placed" if few else "no"

    def as_json(self, name: str) -> dict[str, Any]:
        """Return plain JSON values; `name` is the name of the searched quantity."""
        return {
            name: self.value,
            "suffices": self.suffices,
            "violations_a_day": self.mean,
            "half_width": self.half_width,
            "repeats": list(self.violations),
            "unresolved_a_day": self.unresolved,
            "failovers_a_day": self.failovers,
            "placement_failures": self.not_placed,
            "tenants": self.tenants,
            "impossible": self.impossible or None,
        }


def point_of(question: Question, value: float, outcomes: Sequence[Mapping[str, Any]]) -> Point:
    """Return the results at a number of nodes or a density, from the ``totals`` of each repeat, or why it has none."""
    impossible = next((str(outcome["impossible"]) for outcome in outcomes if "impossible" in outcome), "")
    if impossible:
        return Point(value, (), 0.0, 0.0, 0.0, 0.0, impossible, suffices=False)
    totals = [outcome["totals"] for outcome in outcomes]
    days = [run["simulated_seconds"] / DAY for run in totals]
    short = [run["violations"] + run["shortages_unresolved"] for run in totals]
    violations = tuple(count / length for count, length in zip(short, days, strict=True))
    unresolved, failovers = (
        float(np.mean([run[name] / length for run, length in zip(totals, days, strict=True)]))
        for name in ("shortages_unresolved", "failovers")
    )
    not_placed, tenants = (float(np.mean([run[name] for run in totals])) for name in ("placement_failures", "tenants"))
    suffices = question.suffices(_upper_end(violations), not_placed / max(tenants, 1.0))
    return Point(value, violations, unresolved, failovers, not_placed, tenants, "", suffices)


def _upper_end(violations: Sequence[float]) -> float:
    """Return the upper end of the 95 % interval of the mean, or a single value itself."""
    interval = Interval.of(violations)
    return interval.mean + (interval.half_width or 0.0)


Evaluate = Callable[[Sequence[tuple[str, float]]], Sequence[Point]]
"""Returns the results of pairs of a policy and a value, in their order."""


@attrs.frozen
class Answer:
    """The answer for a policy."""

    policy: str
    """Name of the policy."""
    points: tuple[Point, ...] = ()
    """The results at all values that were tried, in their order."""
    found: float | None = None
    """The value that suffices; None if the search has not ended, or no value suffices."""
    complete: bool = False
    """Whether the search has ended."""

    def point(self, value: float | None) -> Point | None:
        """Return the results at a value; None if it was not tried."""
        return next((point for point in self.points if point.value == value), None)

    def failing(self, question: Question) -> Point | None:
        """Return the insufficient point next to the answer; None at the end of the range."""
        if self.found is None:
            return None
        return self.point(question.value(question.place(self.found) - 1))

    def as_json(self, question: Question) -> dict[str, Any]:
        """Return plain JSON values, with the points in the order of their values."""
        failing = self.failing(question)
        return {
            "answer": self.found,
            "complete": self.complete,
            "seen_to_fail": None if failing is None else failing.value,
            "points": [
                tried.as_json(question.searched.value) for tried in sorted(self.points, key=lambda point: point.value)
            ],
        }


def answer(
    question: Question,
    policies: Sequence[str],
    evaluate: Evaluate,
    note: Callable[[Mapping[str, Answer]], None] | None = None,
) -> dict[str, Answer]:
    """Return the answer for each policy.

    Each step calls `evaluate` with a pair of policy and value for each open search, which returns their points, and
    `note` with the answers so far.
    """
    searches = {policy: question.search() for policy in policies}
    answers = {policy: Answer(policy) for policy in policies}
    next_values = {policy: question.value(next(search)) for policy, search in searches.items()}
    while next_values:
        pairs = list(next_values.items())
        for (policy, _), point in zip(pairs, evaluate(pairs), strict=True):
            before = answers[policy]
            answers[policy] = attrs.evolve(before, points=(*before.points, point))
            try:
                next_values[policy] = question.value(searches[policy].send(point.suffices))
            except StopIteration as end:
                del next_values[policy]
                value = None if end.value is None else question.value(end.value)
                answers[policy] = attrs.evolve(answers[policy], found=value, complete=True)
        if note is not None:
            note(answers)
    return answers


def figures(question: Question, answers: Mapping[str, Answer], repeats: int, days: float) -> dict[str, Any]:
    """Return question and answers as plain JSON values."""
    return {
        "question": {**question.as_json(), "repeats": repeats, "days": days},
        "complete": all(answer.complete for answer in answers.values()),
        "policies": {policy: answer.as_json(question) for policy, answer in answers.items()},
    }


def differences(values_by_policy: Mapping[str, Sequence[float | None]]) -> dict[str, dict[str, float]]:
    """Return how far each policy's values lie from the values of the first policy: mean, interval, number of repeats.

    `values_by_policy`: the value that suffices in each repeat. Repeats count in which both policies have one.
    """
    by_policy = {}
    policies = list(values_by_policy)
    for policy in policies[1:]:
        pairs = zip(values_by_policy[policy], values_by_policy[policies[0]], strict=True)
        apart = [value - first_value for value, first_value in pairs if value is not None and first_value is not None]
        if apart:
            by_policy[policy] = {**Interval.of(apart).as_json(), "repeats": float(len(apart))}
    return by_policy


def sentences_of_differences(question: Question, values_by_policy: Mapping[str, Sequence[float | None]]) -> list[str]:
    """Return `differences` in words, with the repeats that have no answer or one at the end of the range."""
    lines = []
    by_policy = differences(values_by_policy)
    for policy in list(values_by_policy)[1:]:
        first = next(iter(values_by_policy))
        doubts = [
            f"{name} has {outcome} in {count} of {len(values)} repeats"
            for name, values in ((first, values_by_policy[first]), (policy, values_by_policy[policy]))
            for outcome, count in (
                ("no answer", values.count(None)),
                ("its answer at the end of the range", values.count(question.hardest)),
            )
            if count
        ]
        doubt = f" {'; '.join(doubts)}, so the difference is not complete." if doubts else ""
        if policy in by_policy:
            lines.append(f"{policy} {_difference_in_words(question, by_policy[policy])} {first}.{doubt}")
        else:
            lines.append(f"{policy} and {first} have no answer in the same repeat.")
    return lines


def _difference_in_words(question: Question, apart: Mapping[str, float]) -> str:
    """Return a result of `differences`, `apart`, as the middle of a sentence, before the name of the other policy."""
    half, repeats = apart["high"] - apart["mean"], round(apart["repeats"])
    amount = f"{abs(apart['mean']):.2f}" + (f" ± {half:.2f}" if repeats > 1 else "")
    repeats_in_words = f"of {repeats} repeats, each searched by itself," if repeats > 1 else "of one repeat"
    more, fewer = ("more", "fewer") if question.searched is Searched.NODES else ("denser", "less dense")
    direction = more if apart["mean"] > 0 else fewer
    if question.searched is Searched.NODES:
        return f"needs in the mean {repeats_in_words} {amount} nodes {direction} than"
    return f"may in the mean {repeats_in_words} be {direction} by {amount} than"


def table_of_points(question: Question, scenario: Scenario, answers: Mapping[str, Answer]) -> Table:
    """Return a row for each policy and value, with the verdict; ``<`` marks the answer."""
    run = scenario.run
    violations = f"{question.violations:g} {'violation' if question.violations == 1 else 'violations'}"
    title = f"{scenario.name}: {question.searched} for at most {violations} a day"
    caption = f"{run.days:g} days, seed {run.seed}"
    if run.repeats > 1:
        caption += f"; means of {run.repeats} repeats with 95 % intervals, of which the upper end decides"
    searches_nodes = question.searched is Searched.NODES
    values = ("nodes", "density") if searches_nodes else ("density",)
    headings = ("policy", *values, "violations a day", "unresolved", "failovers a day", "not placed")
    table = new_table(headings, no_wrap=True, title=title, caption=caption)
    table.add_column("suffices", no_wrap=True)
    for policy, answer in answers.items():
        for point in sorted(answer.points, key=lambda tried: tried.value):
            density_there = question.density(scenario, point.value)
            density = ["-" if density_there is None else f"{density_there:.3g}"] if searches_nodes else []
            verdict = point.verdict(question) + (" <" if point.value == answer.found else "")
            figures = ["-"] * 4
            if not point.impossible:
                counts = (point.unresolved, point.failovers, point.not_placed)
                figures = [violations_of(point), *(f"{count:.3g}" for count in counts)]
            table.add_row(policy, f"{point.value:g}", *density, *figures, verdict)
        table.add_section()
    return table


def violations_of(point: Point) -> str:
    """Return the violations a day with their interval."""
    if point.half_width is None:
        return f"{point.mean:.2f}"
    return f"{point.mean:.2f} ± {point.half_width:.2f}"


def in_words(question: Question, point: Point) -> str:
    """Return the results at a value, in one line."""
    value = _value(question, point.value)
    if point.impossible:
        return f"{value}: impossible: {point.impossible}"
    missing = f", {point.not_placed:g} of {point.tenants:g} tenants not placed" if point.not_placed else ""
    verdict = "suffices" if point.suffices else "does not suffice"
    return f"{value}: {violations_of(point)} violations a day{missing}: {verdict}"


def sentence(question: Question, answer: Answer) -> str:
    """Return the answer of a policy in words, and in a second line the difference to the scenario and the doubts."""
    if not answer.complete:
        return f"{answer.policy}: the search has not ended"
    if answer.found is None:
        easiest = answer.point(question.easiest)
        why = "" if easiest is None else f" ({in_words(question, easiest)})"
        option = "--highest" if question.searched is Searched.NODES else "--lowest"
        return f"{answer.policy}: no value in the range suffices{why}; extend the search with {option}"
    point, failing = answer.point(answer.found), answer.failing(question)
    assert point is not None
    parts = [f"{answer.policy}: {_suffices(question, point)}"]
    if failing is None:
        parts.append("this is the end of the range")
    else:
        parts.append(f"{_value(question, failing.value)} {_fails(question, failing)}")
    more = [_change_in_words(question, answer.found), *_doubts(question, answer, point)]
    return f"{'; '.join(parts)}.\n  {' '.join(more)}"


def _suffices(question: Question, point: Point) -> str:
    """Return in words that the value of a point suffices, and with how many violations a day."""
    value, violations = _value(question, point.value), f"{violations_of(point)} violations a day"
    if question.searched is Searched.NODES:
        return f"{value} {'suffices' if point.value == 1 else 'suffice'}, with {violations}"
    return f"{value} suffices, with {violations}"


def _fails(question: Question, point: Point) -> str:
    """Return that a point does not suffice, and why."""
    does_not = "does not" if question.searched is Searched.DENSITY or point.value == 1 else "do not"
    if point.impossible:
        return f"{does_not}: they cannot hold the tenants, or there are too few tenants"
    if question.suffices(point.high, 0.0):
        return f"{does_not}: {point.not_placed:g} of {point.tenants:g} tenants are not placed"
    return f"{does_not}, with {violations_of(point)}"


def _change_in_words(question: Question, value: float) -> str:
    """Return in words how the nodes or the density of the answer, `value`, differ from the scenario."""
    difference = value - question.scenario_value
    if question.searched is Searched.DENSITY:
        share = abs(difference) / value
        if share < 0.005:
            return "This is the density of the scenario."
        direction = "lower" if difference > 0 else "higher"
        return f"The density of the scenario, {question.scenario_value:g}, is {share:.0%} {direction}."
    scenario_value, nodes = _value(question, question.scenario_value), _value(question, abs(difference))
    if difference == 0:
        return f"The scenario has {scenario_value}: add none."
    return f"The scenario has {scenario_value}: {f'add {nodes}' if difference > 0 else f'{nodes} can be removed'}."


def _doubts(question: Question, answer: Answer, point: Point) -> list[str]:
    """Return the reasons why an answer is uncertain."""
    if point.half_width is None:
        return ["A single repeat has no interval."]
    failing = answer.failing(question)
    if failing is None or failing.mean is None or failing.half_width is None:
        return []
    if failing.mean - failing.half_width > question.violations or question.suffices(failing.high, 0.0):
        return []
    at = f"With {_value(question, failing.value)} the interval contains the limit, {question.violations:g}"
    return [f"{at}: more --repeats can show that it suffices, too."]


def _value(question: Question, value: float) -> str:
    """Return a value in words: a number of nodes or a density."""
    if question.searched is Searched.DENSITY:
        return f"density {value:g}"
    return f"{value:g} {'node' if value == 1 else 'nodes'}"


LINEAR_BELOW = 1.0
"""Least number of violations a day up to which the axis is linear."""
LOGARITHMIC_FROM = 10.0
"""Factor above the end of the linear range from which the axis is logarithmic."""


def plot_capacity(ax: Axes, question: Question, answers: Sequence[Answer]) -> None:
    """Draw the violations a day of each policy at every value that was tried, with 95 % intervals, and the limit.

    Filled points suffice; the largest points are the answers. With very many violations, their axis is logarithmic
    above the limit. `answers`: of the policies, in the order of their colours.
    """
    from matplotlib.ticker import MaxNLocator

    for answer, style in styled(answers):
        points = sorted((tried for tried in answer.points if tried.mean is not None), key=lambda tried: tried.value)
        values, means = [tried.value for tried in points], [tried.mean or 0.0 for tried in points]
        widths = [tried.half_width or 0.0 for tried in points]
        label = "" if answer.found is None else f" ({answer.found:g})"
        below = [min(width, mean) for width, mean in zip(widths, means, strict=True)]
        colour = style["color"]
        ax.plot(values, means, linewidth=1.4, label=f"{answer.policy}{label}", **style)
        ax.errorbar(values, means, yerr=[below, widths], color=colour, fmt="none", elinewidth=1.0, capsize=4, alpha=0.5)
        for tried, mean in zip(points, means, strict=True):
            face, size = colour if tried.suffices else "white", 10 if tried.value == answer.found else 5
            ax.plot(tried.value, mean, "o", color=colour, markerfacecolor=face, markersize=size, zorder=3)
    limit = question.violations
    ax.axhline(limit, color=GREY, linestyle="--", linewidth=1.0, label=f"limit {limit:g}")
    most = max((point.mean or 0.0 for answer in answers for point in answer.points), default=0.0)
    linear = max(limit, LINEAR_BELOW)
    if most > LOGARITHMIC_FROM * linear:
        ax.set_yscale("symlog", linthresh=linear)
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_ylim(bottom=0.0)
    searches_nodes = question.searched is Searched.NODES
    ax.xaxis.set_major_locator(MaxNLocator(integer=searches_nodes))
    ax.set(xlabel="nodes" if searches_nodes else "tenant density", ylabel="violations a day")
    ax.legend(title="policy (answer)", frameon=False)
    use_open_axes(ax)


def save_capacity(path: Path, question: Question, answers: Sequence[Answer], title: str) -> None:
    """Write the plot to a file."""
    figure, ax = new_axes(7.5, 4.2, f"{title}: capacity")
    plot_capacity(ax, question, answers)
    save_figure(figure, path)
