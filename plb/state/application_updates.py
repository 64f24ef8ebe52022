"""Updates of applications in the state; a refused update changes nothing."""

from __future__ import annotations

from plb.errors import UnknownNameError
from plb.model.application import Application
from plb.state.cluster_state import ClusterState


def put_application(state: ClusterState, application: Application) -> None:
    """Add an application, or replace the one of this name; the services that name it belong to it."""
    table, quanta = state.applications, state.quanta.copy()
    before = _described(state, application.name)
    table.put(application, quanta)
    state.quanta = quanta
    _note_change(state, application.name, before)


def application_named(state: ClusterState, name: str) -> Application:
    """Return an application."""
    known = state.applications.applications
    if not isinstance(name, str) or name not in known:
        raise UnknownNameError("application", name, known)
    return known[name]


def remove_application(state: ClusterState, name: str) -> None:
    """Remove an application; its services keep its name, without limits."""
    application_named(state, name)
    before = _described(state, name)
    state.applications.remove(name)
    _note_change(state, name, before)


def _described(state: ClusterState, name: str) -> tuple[int, bool]:
    """Return what arrays of replicas have of an application: its entry, and whether upgraded domains attract them."""
    application = state.applications.applications.get(name)
    return state.applications.entry_of(name), application is not None and bool(application.upgraded_domains)


def _note_change(state: ClusterState, name: str, before: tuple[int, bool]) -> None:
    """Note that an application has changed, which was `_described` as `before`, so that searches know its services."""
    state.services_version += 1
    after, table = _described(state, name), state.service_table
    for service in state.applications.services.get(name, ()):
        state.service_version[service] += 1
        if after != before:
            table.application[service] = after[0]
            for record in state.service_partitions[service].values():
                state.rows.changes.note(record.rows)
