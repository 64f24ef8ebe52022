"""Reads scenario files: behaviour of the original engine as steps and expectations."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

Step = Mapping[str, Any]
"""One step: its operation in ``op``, and the fields of that operation."""

FIELDS: Mapping[str, type] = {"name": str, "suite": str, "features": list, "steps": list}
"""The fields of every scenario, with their types."""


class ScenarioFileError(ValueError):
    """A scenario file has bad lines, which the message names."""


@attrs.frozen
class Scenario:
    """Steps that describe a cluster and refresh it, and expectations."""

    name: str
    suite: str
    features: tuple[str, ...] = attrs.field(converter=tuple)
    steps: tuple[Step, ...] = attrs.field(converter=tuple)

    def steps_of(self, operation: str) -> tuple[Step, ...]:
        """Return the steps of one operation."""
        return tuple(step for step in self.steps if step["op"] == operation)


def shared_folder() -> Path:
    """Return the folder of the scenarios: in ``PLB_SHARED``, or in ``../shared`` relative to the repository."""
    repository = Path(__file__).parent.parent.parent
    return Path(os.environ.get("PLB_SHARED", repository.parent / "shared")) / "service-fabric"


def scenario_files() -> tuple[Path, ...]:
    """Return the paths of the shared scenario files, which may not exist: the core scenarios, and further ones."""
    return shared_folder() / "scenarios.jsonl", shared_folder() / "scenarios_extended.jsonl"


def read_settings(folder: Path | None = None) -> dict[str, Any]:
    """Return the settings of the scenarios: the defaults, with those of the original tests on top."""
    document = json.loads(((folder or shared_folder()) / "config_defaults.json").read_text())
    return {**document["defaults"], **document["test_overrides"]}


def read_scenarios(path: Path) -> tuple[Scenario, ...]:
    """Return the scenarios of a file with one scenario per line; an error names all lines that are none."""
    scenarios, problems = [], []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            scenarios.append(parse_scenario(line))
        except ValueError as error:
            problems.append(f"{path}:{number}: {error}")
    if problems:
        raise ScenarioFileError("\n".join(problems))
    return tuple(scenarios)


def read_open(path: Path) -> dict[str, str]:
    """Return the reasons of the open scenarios by name, from lines ``NAME: REASON``; those with ``#`` are comments."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {name: reason.strip() for name, _, reason in (line.partition(":") for line in lines)}


def parse_scenario(line: str) -> Scenario:
    """Return the scenario of a line; raise `ValueError` with the reason if there is none."""
    try:
        document = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError(f"a scenario is an object, not {type(document).__name__}")
    _check_fields(document)
    for index, step in enumerate(document["steps"]):
        if not isinstance(step, dict) or not isinstance(step.get("op"), str):
            raise ValueError(f"scenario {document['name']}: step {index} has no op")
    return Scenario(**{field: document[field] for field in FIELDS})


def _check_fields(document: Mapping[str, Any]) -> None:
    for field, kind in FIELDS.items():
        if not isinstance(document.get(field), kind):
            name = document.get("name", "?")
            raise ValueError(f"scenario {name}: {field} is missing or no {kind.__name__}")
