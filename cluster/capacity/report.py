"""The results of a search as a table and in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from cluster.capacity.question import Question, Searched
from cluster.capacity.search_results import Answer, Point
from cluster.console.tables import new_table
from cluster.scenario.scenario import Scenario


def table_of_points(question: Question, scenario: Scenario, answers: Mapping[str, Answer]) -> Table:
    """Return a row for each policy and value, with the verdict; ``<`` marks the answer."""
    run = scenario.run
    violations = f"{question.violations:g} {'violation' if question.violations == 1 else 'violations'}"
    title = f"{scenario.name}: {question.searched} for at most {violations} a day"
    caption = f"{run.days:g} days, seed {run.seed}"
    if run.repeats > 1:
        caption += f"; means of {run.repeats} repeats with 95 % intervals"
    of_nodes = question.searched is Searched.NODES
    values = ("nodes", "density") if of_nodes else ("density",)
    headings = ("policy", *values, "violations a day", "unresolved", "failovers a day", "not placed")
    table = new_table(headings, no_wrap=True, title=title, caption=caption)
    table.add_column("suffices", no_wrap=True)
    for policy, found in answers.items():
        for point in sorted(found.points, key=lambda one: one.value):
            density_there = question.density(scenario, point.value)
            density = ["-" if density_there is None else f"{density_there:.3g}"] if of_nodes else []
            verdict = point.verdict(question) + (" <" if point.value == found.found else "")
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
    more = [_change(question, answer.found), *_doubts(question, answer, point)]
    return f"{'; '.join(parts)}.\n  {' '.join(more)}"


def _suffices(question: Question, point: Point) -> str:
    value, violations = _value(question, point.value), f"{violations_of(point)} violations a day"
    if question.searched is Searched.NODES:
        return f"{value} {'suffices' if point.value == 1 else 'suffice'}, with {violations}"
    return f"{value} suffices, with {violations}"


def _fails(question: Question, point: Point) -> str:
    """Return that a point does not suffice, and why."""
    does_not = "does not" if question.searched is Searched.DENSITY or point.value == 1 else "do not"
    if point.impossible:
        return f"{does_not}: they cannot hold the tenants, or there are too few tenants"
    if question.suffices(point.mean or 0.0, 0.0):
        return f"{does_not}: {point.not_placed:g} of {point.tenants:g} tenants are not placed"
    return f"{does_not}, with {violations_of(point)}"


def _change(question: Question, found: float) -> str:
    """Return the difference between the answer and the scenario."""
    difference = found - question.scenario_value
    if question.searched is Searched.DENSITY:
        share = abs(difference) / found
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
    doubts = []
    failing = answer.failing(question)
    reaches = (point.mean or 0.0) + (point.half_width or 0.0) > question.violations
    below = failing is not None and failing.mean is not None and failing.mean > question.violations
    if failing is not None and below:
        reaches |= (failing.mean or 0.0) - (failing.half_width or 0.0) <= question.violations
    if point.half_width is None:
        doubts.append("A single repeat has no interval.")
    elif reaches:
        doubts.append(f"An interval contains the limit, {question.violations:g}: use more --repeats.")
    return doubts


def _value(question: Question, value: float) -> str:
    if question.searched is Searched.DENSITY:
        return f"density {value:g}"
    return f"{value:g} {'node' if value == 1 else 'nodes'}"
