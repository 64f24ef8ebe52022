"""The reasons for the nodes of a tenant's replicas at a time of a recorded run: the data of `plb explain`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from cluster.explanation.replay import RunReplay
from cluster.explanation.tenant_history import Event, Stay, history_of, stay_of, times_to_look
from cluster.results.recorded_run import RecordedRun
from cluster.scenario.times import in_words
from plb import Alternatives, InvalidValueError, PlbConfig
from plb.settings.extensions import ANNEALING


@attrs.frozen(eq=False)
class Explanation:
    """The data of `plb explain`.

    Parameters
    ----------
    run, stay
        The recorded run, and the stay of the tenant in it.
    time_s
        The time in seconds since the start; all events at this time are included.
    events
        Events of the tenant until then.
    replicas
        Node and alternatives of each of its replicas; empty while the tenant is absent.
    leaving
        Nodes that its replicas are leaving.
    shares
        Load of every node by metric, as a share of its capacity; metrics without one are left out.
    config
        The engine's settings; None while the tenant is not there.
    """

    run: RecordedRun
    stay: Stay
    time_s: int
    events: tuple[Event, ...] = ()
    replicas: tuple[Alternatives, ...] = ()
    leaving: tuple[str, ...] = ()
    shares: Mapping[str, Mapping[str, float]] = attrs.field(factory=dict)
    config: PlbConfig | None = None

    @property
    def status(self) -> str:
        """``"not arrived"``, ``"departed"`` or ``"there"``."""
        if self.time_s < self.stay.arrival_s:
            return "not arrived"
        return "departed" if self.stay.departure_s <= self.time_s else "there"

    @property
    def decided_by(self) -> str | None:
        """The placement policy that decides instead of the energy; None if the energy decides."""
        return None if self.config is None or self.config.policy == ANNEALING else self.config.policy


def question(run: RecordedRun, tenant: str, time_s: int) -> Explanation:
    """Return an explanation with tenant and time only.

    Parameters
    ----------
    time_s
        Seconds since the start.

    Raises
    ------
    UnknownNameError
        If no such tenant arrives in the run.
    InvalidValueError
        If the time lies after the run's end.
    """
    if not 0 <= time_s <= run.seconds:
        allowed = f"a time from 0 to the end of the run, {in_words(run.seconds)} ({run.seconds} s)"
        raise InvalidValueError("time", "T", time_s, allowed)
    return Explanation(run, stay_of(run, tenant), time_s)


def answer(asked: Explanation, progress: Callable[[float], None] | None = None) -> Explanation:
    """Return a `question` with its answer: the run is played again up to its time, unless the tenant comes later.

    Parameters
    ----------
    progress
        Called with the simulated time in seconds.

    Raises
    ------
    PlbError
        The run cannot be replayed as it was recorded.
    """
    run, stay = asked.run, asked.stay
    if asked.status == "not arrived":
        RunReplay(run).check_stays()
        return asked
    until = min(asked.time_s, stay.departure_s)
    replay = RunReplay(run, progress)
    looks = replay.look_at(stay.tenant, times_to_look(run, stay, until), until)
    found = attrs.evolve(asked, events=history_of(run, stay, looks, until))
    if found.status == "departed":
        return found
    engine = replay.engine
    return attrs.evolve(
        found,
        replicas=engine.alternatives(stay.tenant, now=found.time_s),
        leaving=tuple(str(one.node) for one in engine.replicas(stay.tenant) if one.leaving),
        shares=_shares(replay),
        config=engine.config,
    )


def _shares(replay: RunReplay) -> dict[str, dict[str, float]]:
    """Return the load of every node relative to its capacity, by metric."""
    recorder = replay.simulation.recorder
    found: dict[str, dict[str, float]] = {}
    for (node, loads), capacities in zip(replay.engine.node_loads().items(), recorder.capacity, strict=True):
        limits: dict[str, Any] = dict(zip(recorder.metric_names, capacities.tolist(), strict=True))
        found[node] = {name: load / limits[name] for name, load in loads.items() if 0 < limits[name] < float("inf")}
    return found
