"""A scenario: a cluster, a workload, a run and the policies to compare. `cluster.scenario.scenario_file` reads one.

Every field has the same name in the scenario file, in the section with the name of the class: ``[cluster]``,
``[workload]``, ``[run]``, ``[faults]``, ``[upgrades]``, ``[applications.NAME]``, ``[scaling.NAME]``, ``[engine]`` and
``[policies.NAME]``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from cluster.errors import refusal
from cluster.scenario.cluster_sections import ClusterSection, Faults, Upgrades
from cluster.scenario.digests import digest_of
from cluster.scenario.sections import LONGEST, Section, check_directory_name, count, nearest, number, span
from cluster.scenario.workload_sections import OF_PLANS, ApplicationsSection, Known, Scaling, Workload
from plb import InvalidValueError, Metric, PlbConfig, PlbError
from plb.engine_extensions import POLICIES, check_extension, path_options
from plb.extensions.policies import PlacementPolicy
from plb.policies import KNOWN as PLACEMENT_POLICIES
from plb.policies import READ_HISTORY
from plb.risk.estimators import MonteCarlo, estimator_of
from plb.settings.config import ANNEALING
from plb.validation import check_known


@cache
def extension_of(reference: str) -> Any:
    """Return the object that a reference ``FILE.py:OBJECT`` names; a class stands for an object of it.

    Each process runs the file, and makes the object, once. Raise `ScenarioError` if that fails, or if the object is no
    extension.
    """
    file, _, name = reference.rpartition(":")
    module = _module_of(file)
    if not hasattr(module, name):
        hint = nearest(name, [known for known in vars(module) if not known.startswith("_")])
        raise refusal(reference, "extensions", f"expected FILE.py:OBJECT; the file has no {name!r}{hint}")
    found = getattr(module, name)
    try:
        extension = found() if isinstance(found, type) else found
        check_extension(name, extension)
    except PlbError as error:
        raise refusal(reference, "extensions", str(error)) from error
    except Exception as error:
        raise refusal(reference, "extensions", f"{type(error).__name__}: {error}") from error
    return extension


def _module_of(file: str) -> ModuleType:
    """Return a file as a module; raise `ScenarioError`, with the file as the scenario names it, if running it fails.

    It can import modules of its folder.
    """
    path = Path(file).resolve()
    name = f"extensions_{path.stem}_{sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise refusal(file, "extensions", "is not a Python file")
    module = sys.modules[name] = module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise refusal(file, "extensions", f"{type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def file_of(reference: str) -> str:
    """Return the file of a reference ``FILE.py:OBJECT``."""
    return reference.rpartition(":")[0]


def placement_policy(name: str, extensions: Iterable[Any]) -> PlacementPolicy | None:
    """Return the built-in placement policy, or the one among `extensions`, with a name; None without any."""
    own = {item.name: item for item in extensions if isinstance(item, PlacementPolicy)}
    return {**own, **POLICIES}.get(name)


def reference_digests(references: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of the file of each reference, by the reference with the last part of the path alone."""
    return {Path(item).name: digest for item in references for digest in digests([file_of(item)]).values()}


def digests(files: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of each file by the last part of its path, to record its version in results."""
    return {Path(file).name: sha256(Path(file).read_bytes()).hexdigest() for file in files}


MOST_REPEATS = 10_000
"""Maximum number of repeats of each policy."""
WITHOUT_RISK: Mapping[str, Any] = {"w_failovers": 0.0, "w_overload": 0.0}
AS_IN_PAPER: Mapping[str, Any] = {"w_failovers": 0.10, "w_overload": 0.0}
WITH_OVERLOAD: Mapping[str, Any] = {"w_failovers": 0.10, "w_overload": 100.0}
BUILT_IN_POLICIES: Mapping[str, Mapping[str, Any]] = {
    "original": WITHOUT_RISK,
    "modified": AS_IN_PAPER,
    "expected_overload": WITH_OVERLOAD,
    **{
        policy.name: {"policy": policy.name, **(AS_IN_PAPER if policy.name in READ_HISTORY else WITHOUT_RISK)}
        for policy in PLACEMENT_POLICIES
    },
}
"""The two arms of [1] section 8.2, which differ only in `w_failovers`; the default energy, which differs from the
second only in `w_overload`; and each placement policy of `plb.policies`.

Policies that do not read the demand history sample no demand.
"""
ENGINE_DEFAULTS: Mapping[str, Any] = {"min_load_balancing_interval": None}
"""Differences of scenarios from the defaults of `PlbConfig`. In [1] section 3.3 a replica moves only on admission, when
fragmentation prevents a placement, or on a violation; so balancing is off unless ``[engine]`` sets its interval."""
FIXED_METRIC_FIELDS = ("name", "trend", "quantum", "violation_threshold")
"""Fields of `plb.Metric` that the workload and the cluster determine."""


@attrs.frozen(kw_only=True)
class RunSection(Section):
    """Length and repeats of the run, and its policies."""

    days: float = number(10.0, high=LONGEST / 24, low_open=True)
    """Simulated days."""
    seed: int = count(0)
    """Seed of the first repeat; repeat i uses stream i of it."""
    repeats: int = count(1, low=1, high=MOST_REPEATS)
    """Number of runs of each policy, each with its own tenants; all policies have the same tenants."""
    policies: tuple[str, ...] = ("original", "modified")
    """Names of the policies: ``"original"``, ``"modified"``, ``"expected_overload"``, placement policies, or sections
    ``[policies.NAME]``.
    """
    fill_hours: float = span(0.0)
    """Time over which the first tenants arrive; 0: all at the start."""


@attrs.frozen(kw_only=True)
class Scenario:
    """All inputs of a run."""

    name: str = "scenario"
    """Name of the scenario, for tables and plots."""
    extensions: tuple[str, ...] = ()
    """The energy terms, constraints, neighbourhoods and placement policies that `engine` and `policies` name, each as
    ``FILE.py:OBJECT``; a class stands for an object of it.
    """
    cluster: ClusterSection = attrs.field(factory=ClusterSection)
    workload: Workload = attrs.field(factory=Workload)
    run: RunSection = attrs.field(factory=RunSection)
    faults: Faults = attrs.field(factory=Faults)
    upgrades: Upgrades = attrs.field(factory=Upgrades)
    """The sections of these names in the file."""
    applications: Mapping[str, ApplicationsSection] = attrs.field(factory=dict)
    """The sections of applications by name."""
    scaling: Mapping[str, Scaling] = attrs.field(factory=dict)
    """Auto scaling of tenants, by name."""
    metrics: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    """Fields of `plb.Metric` by metric of the workload, except what workload and cluster determine."""
    engine: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields of `plb.PlbConfig` for every policy, except `metrics`. `policy_options` apply to the `policy` given here,
    not to another `policy` in a section of `policies`.
    """
    policies: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    """By name, the fields of `plb.PlbConfig` in which a policy differs from `engine`, and under ``metrics`` the fields
    of metrics in which it differs; ``applications`` is what the engine of a policy knows of these: a value of `Known`.
    Built-in policies are included; a section with the name of one changes further fields.
    """

    def __attrs_post_init__(self) -> None:
        """Add the built-in policies, and raise an error if fields do not agree."""
        names = dict.fromkeys([*BUILT_IN_POLICIES, *self.policies])
        fields_by_policy = {name: {**BUILT_IN_POLICIES.get(name, {}), **self.policies.get(name, {})} for name in names}
        object.__setattr__(self, "policies", fields_by_policy)
        if len({Path(item).name for item in self.extensions}) < len(self.extensions):  # results identify them by name
            raise InvalidValueError(
                "scenario",
                "extensions",
                list(self.extensions),
                "every FILE.py:OBJECT once, by the last part of its path",
            )
        for is_refused, section, field, allowed in self._refused_fields():
            if is_refused:
                raise InvalidValueError(section, field, getattr(getattr(self, section), field), allowed)
        check_directory_name("scenario", self.name)
        self._check_names()
        for name in self.run.policies:
            if {**self.engine, **self.policies[name]}.get("allow_chained_moves"):
                allowed = "false: all moves of a plan start together, and a replica is copied before another can follow"
                raise InvalidValueError(f"policies.{name}", "allow_chained_moves", True, allowed)

    def _refused_fields(self) -> Iterator[tuple[bool, str, str, str]]:
        """Yield, for each agreement between fields, whether it is broken, then section, field and allowed values."""
        run, workload, metering = self.run, self.workload, self.cluster.metering_minutes
        yield not run.policies, "run", "policies", "at least one policy"
        yield len(set(run.policies)) < len(run.policies), "run", "policies", "every policy once"
        yield run.days * 1440 < metering, "run", "days", f"at least one metering interval, {metering} minutes"
        yield run.fill_hours > 24 * run.days, "run", "fill_hours", f"at most the {run.days:g} days"
        if run.fill_hours:
            yield workload.kind == "plan", "run", "fill_hours", '0 with kind = "plan": all start placed'
            yield workload.arrivals == "recorded", "run", "fill_hours", '0 with arrivals = "recorded"'
        if self.scaling:
            yield workload.kind == "plan", "workload", "kind", "another kind with [scaling]"
            yield workload.pair_share > 0.0, "workload", "pair_share", "0 with [scaling]"

    def _check_names(self) -> None:
        """Raise an error for invalid names of applications or policies, or a policy without a file that it needs."""
        for name in self.applications:
            if not name.strip() or "/" in name:  # the applications of a section are NAME/1, NAME/2 and so on
                raise InvalidValueError("applications", "NAME", name, "a name without /")
        for name in self.policies:
            check_directory_name("policies", name)
        for name in self.run.policies:
            check_known("policy", name, self.policies, "run.policies")
            search, options = self._search(name)
            for option in path_options(placement_policy(search, self.extension_objects)):
                if not options.get(option):
                    item, allowed = f"policies.{name}", f"the name of a file: policy {search} requires it"
                    raise InvalidValueError(item, f"policy_options.{option}", options.get(option, ""), allowed)

    def check_history(self) -> None:
        """Raise `ScenarioError` if a policy of the run samples past tenants and there are none.

        The command line can still choose other policies, so a new scenario does not check this.
        """
        defaults = attrs.fields_dict(PlbConfig)
        for policy in () if self.workload.has_history else self.run.policies:
            settings = {**self.engine, **self.policies[policy]}
            estimator = estimator_of(settings.get("estimator", defaults["estimator"].default))
            weights = [settings.get(name, defaults[name].default) for name in WITHOUT_RISK]
            if isinstance(estimator, MonteCarlo) and any(weights):
                message = (
                    f"there is no history, but the estimator {estimator.kind} of policy {policy} samples past tenants. "
                    'Use a value above 0 or another history; or estimator = "historical-simulation"; or w_failovers = '
                    "0 and w_overload = 0; or other policies"
                )
                raise refusal(self.name, "workload.history_share", message)

    def _search(self, policy: str) -> tuple[str, Mapping[str, Any]]:
        """Return the search or placement policy that the engine uses for a policy, and its options."""
        policy_fields, engine_fields = self.policies[policy], self.engine
        search = policy_fields.get("policy", engine_fields.get("policy", ANNEALING))
        # options belong to one search: another one must not get the engine's
        engine_options = (
            engine_fields.get("policy_options", {}) if search == engine_fields.get("policy", ANNEALING) else {}
        )
        return search, policy_fields.get("policy_options", engine_options)

    def config(self, policy: str, metrics: tuple[Metric, ...]) -> PlbConfig:
        """Return the engine's settings for a policy; its settings of metrics override `metrics`."""
        fields = {**ENGINE_DEFAULTS, **self.engine, **self.policies[policy]}
        fields["policy"], fields["policy_options"] = self._search(policy)
        policy_metrics = fields.pop("metrics", {})
        fields.pop("applications", None)
        return PlbConfig(
            metrics=[attrs.evolve(metric, **policy_metrics.get(metric.name, {})) for metric in metrics], **fields
        )

    @property
    def extension_objects(self) -> tuple[Any, ...]:
        """The objects of `extensions`, which engines copy."""
        return tuple(map(extension_of, self.extensions))

    def extension_names(self, kind: str, policy: str) -> tuple[str, ...]:
        """Return the names of the extension terms or constraints (`kind`) of a policy."""
        return tuple({**self.engine, **self.policies[policy]}.get(f"extension_{kind}", ()))

    def applications_of(self, policy: str) -> Known:
        """Return what the engine of a policy knows of the applications."""
        return Known(self.policies[policy].get("applications", Known.ALL))

    def as_json(self) -> dict[str, Any]:
        """Return the scenario as plain JSON values with the selected policies; fields without effect are left out."""
        plain = attrs.asdict(self)
        del plain["extensions"]
        if not self.scaling:
            del plain["scaling"]
        if self.workload.kind != "plan":
            for name in OF_PLANS:
                del plain["workload"][name]
        for name in self.workload.without_effect:
            del plain["workload"][name]
        if not self.applications:
            del plain["applications"]
        if self.extensions:
            plain["extensions"] = reference_digests(self.extensions)
        plain["policies"] = {
            name: self._with_digests(self.policies[name], self._search(name)[0]) for name in self.run.policies
        }
        plain["metrics"] = {name: dict(fields) for name, fields in self.metrics.items()}
        plain["engine"] = {**ENGINE_DEFAULTS, **self._with_digests(self.engine, self.engine.get("policy", ANNEALING))}
        return json.loads(json.dumps(plain))  # type: ignore[no-any-return]

    def digest(self) -> str:
        """Return the SHA-256 of the scenario as canonical JSON, in hex."""
        return digest_of(self.as_json())

    def _with_digests(self, settings: Mapping[str, Any], search: str) -> dict[str, Any]:
        """Return fields of `plb.PlbConfig` with digests in place of the paths of files in `policy_options`.

        `search`: the placement policy that the options belong to.
        """
        options = settings.get("policy_options", {})
        names = path_options(placement_policy(search, self.extension_objects))
        files = {name: digests([options[name]]) for name in names if name in options}
        return {**settings, "policy_options": {**options, **files}} if files else dict(settings)
