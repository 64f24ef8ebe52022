"""What a scenario says: a cluster, a workload, a run and the policies to compare.

`cluster.scenario.scenario_file` reads one.

Every field stands in the scenario file under the same name, in the section named like the class: ``[cluster]``,
``[workload]``, ``[run]``, ``[faults]``, ``[upgrades]``, ``[engine]`` and ``[policies.NAME]``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from cluster.scenario.cluster_section import ClusterSection
from cluster.scenario.digests import digest_of
from cluster.scenario.faults_section import Faults
from cluster.scenario.imports import digests, import_files
from cluster.scenario.sections import LONGEST, Section, check_directory_name, count, number, span
from cluster.scenario.upgrades_section import Upgrades
from cluster.scenario.workload_section import OF_PLANS, Workload
from plb import InvalidValueError, Metric, PlbConfig, UnknownNameError
from plb.policies import KNOWN as PLACEMENT_POLICIES
from plb.policies import READ_HISTORY
from plb.policies.options import path_options
from plb.registry import policies
from plb.settings.extensions import ANNEALING

MOST_REPEATS = 10_000
"""Of each policy in a scenario."""
WITHOUT_RISK: Mapping[str, Any] = MappingProxyType({"w_failovers": 0.0, "w_overload": 0.0})
AS_IN_PAPER: Mapping[str, Any] = MappingProxyType({"w_failovers": 0.10, "w_overload": 0.0})
WITH_OVERLOAD: Mapping[str, Any] = MappingProxyType({"w_failovers": 0.10, "w_overload": 100.0})
BUILT_IN_POLICIES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "original": WITHOUT_RISK,
        "modified": AS_IN_PAPER,
        "expected_overload": WITH_OVERLOAD,
        **{
            one.name: MappingProxyType(
                {"policy": one.name, **(AS_IN_PAPER if one.name in READ_HISTORY else WITHOUT_RISK)}
            )
            for one in PLACEMENT_POLICIES
        },
    }
)
"""The two arms of [1] section 8.2, which differ in `w_failovers` alone; the default energy, which differs from the
second in `w_overload` alone; and each placement policy of `plb.policies`.

For policies that do not read the demand history, no demand is sampled.
"""
ENGINE_DEFAULTS: Mapping[str, Any] = MappingProxyType({"min_load_balancing_interval": None})
"""Where scenarios differ from `PlbConfig`: [1] section 3.3 lets a replica move only on admission, when fragmentation
keeps another one out, or on a violation; so balancing is off unless ``[engine]`` gives it an interval."""
FIXED_METRIC_FIELDS = ("name", "trend", "quantum", "violation_threshold")
"""Fields of `plb.Metric` that follow from the workload and the cluster."""


@attrs.frozen(kw_only=True)
class RunSection(Section):
    """How long, how often and which policies.

    Parameters
    ----------
    days
        Simulated days.
    seed
        Seed of the first repeat; repeat i uses stream i of it.
    repeats
        Number of runs of each policy, each with tenants of its own; all policies see the same ones.
    policies
        Names of the policies: ``"original"``, ``"modified"``, ``"expected_overload"``, placement policies, or sections
        ``[policies.NAME]``.
    fill_hours
        Time over which the first tenants arrive; 0: all at once.
    """

    days: float = number(10.0, high=LONGEST / 24, low_open=True)
    seed: int = count(0)
    repeats: int = count(1, low=1, high=MOST_REPEATS)
    policies: tuple[str, ...] = ("original", "modified")
    fill_hours: float = span(0.0)


@attrs.frozen(kw_only=True)
class Scenario:
    """All that a run depends on.

    Parameters
    ----------
    name
        Name of the scenario, for tables and plots.
    imports
        Python files that register energy terms, constraints and placement policies (`plb.registry`) which `engine` and
        `policies` name.
    cluster, workload, run, faults, upgrades
        The sections.
    metrics
        Fields of `plb.Metric` by metric of the workload, apart from those that follow from workload and cluster.
    engine
        Fields of `plb.PlbConfig` for every policy, apart from `metrics`. Its `policy_options` are those of its own
        `policy`: where a section of `policies` names another one, they do not hold.
    policies
        By name, the fields of `plb.PlbConfig` in which a policy differs from `engine`, and under ``metrics`` those of
        metrics. The built-in ones are in here too; a section of that name changes further fields of it.
    """

    name: str = "scenario"
    imports: tuple[str, ...] = ()
    cluster: ClusterSection = attrs.field(factory=ClusterSection)
    workload: Workload = attrs.field(factory=Workload)
    run: RunSection = attrs.field(factory=RunSection)
    faults: Faults = attrs.field(factory=Faults)
    upgrades: Upgrades = attrs.field(factory=Upgrades)
    metrics: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    engine: Mapping[str, Any] = attrs.field(factory=dict)
    policies: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        names = dict.fromkeys([*BUILT_IN_POLICIES, *self.policies])
        known = {name: {**BUILT_IN_POLICIES.get(name, {}), **self.policies.get(name, {})} for name in names}
        object.__setattr__(self, "policies", known)
        if len({Path(file).name for file in self.imports}) < len(self.imports):  # results tell them by their names
            raise InvalidValueError("scenario", "imports", list(self.imports), "files of different names")
        if not self.run.policies:
            raise InvalidValueError("run", "policies", (), "at least one policy")
        if len(set(self.run.policies)) < len(self.run.policies):
            raise InvalidValueError("run", "policies", list(self.run.policies), "every policy once")
        if self.run.days * 1440 < self.cluster.metering_minutes:
            allowed = f"at least one metering interval, {self.cluster.metering_minutes} minutes"
            raise InvalidValueError("run", "days", self.run.days, allowed)
        if self.run.fill_hours > 24 * self.run.days:
            raise InvalidValueError("run", "fill_hours", self.run.fill_hours, f"at most the {self.run.days:g} days")
        if self.run.fill_hours and self.workload.kind == "plan":
            raise InvalidValueError("run", "fill_hours", self.run.fill_hours, '0 with kind = "plan": all stand at once')
        for name in (self.name, *known):
            check_directory_name("scenario", name)
        for name in self.run.policies:
            if name not in known:
                raise UnknownNameError("policy", name, known, "run.policies")
            search, options = self._search(name)
            for option in path_options(policies().get(search)):
                if not options.get(option):
                    item, allowed = f"policies.{name}", f"the name of a file: policy {search} cannot do without"
                    raise InvalidValueError(item, f"policy_options.{option}", options.get(option, ""), allowed)

    def _search(self, policy: str) -> tuple[str, Mapping[str, Any]]:
        """Return which search or placement policy of the engine decides under a policy, and its options."""
        of_policy, of_engine = self.policies[policy], self.engine
        search = of_policy.get("policy", of_engine.get("policy", ANNEALING))
        shared = of_engine.get("policy_options", {}) if search == of_engine.get("policy", ANNEALING) else {}
        return search, of_policy.get("policy_options", shared)

    def config(self, policy: str, metrics: tuple[Metric, ...]) -> PlbConfig:
        """Return the engine's settings under a policy; what it says of metrics prevails over `metrics`.

        The files of `imports` are run first.
        """
        import_files(self.imports)
        of_engine = {**ENGINE_DEFAULTS, **self.engine}
        fields = {**of_engine, **self.policies[policy]}
        fields["policy"], fields["policy_options"] = self._search(policy)
        of_policy = fields.pop("metrics", {})
        return PlbConfig(metrics=[attrs.evolve(one, **of_policy.get(one.name, {})) for one in metrics], **fields)

    def as_json(self) -> dict[str, Any]:
        """Return the scenario as plain JSON values, with the policies that run."""
        plain = attrs.asdict(self)
        del plain["imports"]
        if self.workload.kind != "plan":
            for name in OF_PLANS:
                del plain["workload"][name]
        if self.imports:
            plain["imports"] = digests(self.imports)
        plain["policies"] = {
            name: with_digests(self.policies[name], self._search(name)[0]) for name in self.run.policies
        }
        plain["metrics"] = {name: dict(fields) for name, fields in self.metrics.items()}
        plain["engine"] = {**ENGINE_DEFAULTS, **with_digests(self.engine, self.engine.get("policy", ANNEALING))}
        return json.loads(json.dumps(plain))  # type: ignore[no-any-return]

    def digest(self) -> str:
        """Return the SHA-256 of the scenario as canonical JSON, in hex."""
        return digest_of(self.as_json())


def with_digests(settings: Mapping[str, Any], search: str) -> dict[str, Any]:
    """Return settings of an engine with the files that policy options name told by their content, not their place.

    Parameters
    ----------
    settings
        Fields of `plb.PlbConfig`.
    search
        The placement policy whose options they have.
    """
    options = settings.get("policy_options", {})
    files = {name: digests([options[name]]) for name in path_options(policies().get(search)) if name in options}
    return {**settings, "policy_options": {**options, **files}} if files else dict(settings)
