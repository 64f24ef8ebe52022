"""Updates of applications in the state; a refused update changes nothing."""

from __future__ import annotations

from plb.errors import UnknownNameError
from plb.model.application import Application
from plb.state.cluster_state import ClusterState


def put_application(state: ClusterState, application: Application) -> None:
    """Add an application, or replace the one of this name; the services that name it belong to it."""
    table, quanta = state.applications, state.quanta.copy()
    before = table.entry_of(application.name)
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
    before = state.applications.entry_of(name)
    state.applications.remove(name)
    _note_change(state, name, before)


def _note_change(state: ClusterState, name: str, before: int) -> None:
    """Note that an application has changed, which had the entry `before`, so that searches know its services."""
    state.services_version += 1
    entry, table = state.applications.entry_of(name), state.service_table
    for service in state.applications.services.get(name, ()):
        state.service_version[service] += 1
        if entry != before:
            table.application[service] = entry
            for record in state.service_partitions[service].values():
                state.rows.changes.note(record.rows)
