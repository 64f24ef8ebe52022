"""The thread that searches plans of a cluster, on a replica of its own, so that reads are answered meanwhile."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

from cluster.service.documents import Document
from cluster.service.events import DiscardPlan, Engine, PlanMade
from cluster.service.log import Entry, Saved
from cluster.service.replica import ClusterReplica, PlanRecord, plan_document
from plb.errors import PlbError

logger = logging.getLogger(__name__)

SAVED_EVERY = 20_000
"""Work after which the state of a cluster is saved, in units of an event: about a second to repeat."""
PROPOSALS_OF_AN_EVENT = 50
"""Proposals of a search that take as long as an event."""


class SearchThread:
    """Applies the entries of a cluster to a replica in their order, and searches the plans that they ask for.

    Parameters
    ----------
    replica
        The replica; only this thread uses it.
    made, saved
        Called on this thread with the id and the document of a plan, and with a state to write to the log.
    """

    def __init__(
        self, replica: ClusterReplica, made: Callable[[str, Document], None], saved: Callable[[Saved], None]
    ) -> None:
        self._replica, self._made, self._saved = replica, made, saved
        replica.search = self._search
        self._entries: SimpleQueue[Entry | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._current: str | None = None
        """The plan that is searched for now."""
        self._discarded: set[str] = set()
        """Plans that were discarded before they were made: they are not searched for."""
        self._known: set[str] = set()
        """Plans that the log has already."""
        self._thread = threading.Thread(target=self._run, name="plb search", daemon=True)

    def start(self, entries: list[Entry]) -> None:
        """Start with entries that the log has already."""
        self._known = {entry.event.plan for entry in entries if isinstance(entry.event, PlanMade)}
        for entry in entries:
            self.push(entry)
        for record in self._replica.state.plans.values():
            if record.document is not None and record.is_searching and record.id not in self._known:
                self._made(record.id, record.document)
        self._thread.start()

    def push(self, entry: Entry) -> None:
        """Add an entry; one that discards a plan ends its search."""
        if isinstance(entry.event, DiscardPlan) and entry.refusal is None:
            self._discard(entry.event.plan)
        self._entries.put(entry)

    def stop(self) -> None:
        """End the thread and the search that it makes."""
        self._entries.put(None)
        with self._lock:
            self._interrupt()
        self._thread.join()

    def _discard(self, plan_id: str) -> None:
        """Do not search for a plan, or end its search."""
        with self._lock:
            if plan_id not in self._known:
                self._discarded.add(plan_id)
            if self._current == plan_id:
                self._interrupt()

    def _interrupt(self) -> None:
        """Raise an interrupt in the thread if it searches; the engine is then as before the search."""
        if self._current is not None and self._thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread.ident), ctypes.py_object(KeyboardInterrupt)
            )

    def _run(self) -> None:
        """Apply entries until `stop`."""
        while (entry := self._entries.get()) is not None:
            try:
                self._replica.apply(entry)
            except PlbError:
                continue  # the replica that answers has refused it, too
            except KeyboardInterrupt:
                return
            if self._replica.state.weight >= SAVED_EVERY:
                self._saved(self._replica.saved(entry.sequence))

    def _search(self, engine: Engine, record: PlanRecord) -> None:
        """Make the plan of a record, unless it was discarded."""
        document: Document | None = None
        try:
            with self._lock:
                if record.id in self._discarded:
                    return
                self._current = record.id
            document = plan_document(engine, record)
        except KeyboardInterrupt:
            logger.info("the search of plan %s was stopped", record.id)
        except PlbError as error:
            document = {"error": str(error)}
        finally:
            with self._lock:
                self._current = None
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), None)
        if document is None:
            return
        is_repeatable = document.get("reproducible", True)
        work = document.get("proposals", 0) // PROPOSALS_OF_AN_EVENT if is_repeatable else SAVED_EVERY
        self._replica.state.weight += work
        record.document = document
        if record.id not in self._known:
            self._made(record.id, document)
