"""The thread that searches plans of a cluster, on a separate replica, so that reads are answered meanwhile."""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from cluster.service.events import DiscardPlan, Engine, PlanMade
from cluster.service.log import LogEntry, Saved
from cluster.service.replica import ClusterReplica, PlanRecord, plan_for
from plb.errors import PlbError
from plb.model.documents import Document
from plb.model.plan import Plan, of_plan

logger = logging.getLogger(__name__)

SAVED_EVERY = 20_000
"""Work after which the state of a cluster is saved, in units of an event: about a second to repeat."""
INSTRUCTIONS = 100_000
"""Steps of a loop within which an interrupt that was sent arrives."""
PROPOSALS_OF_AN_EVENT = 50
"""Proposals of a search that take as long as an event."""


class SearchThread:
    """Applies the entries of a cluster to a replica in their order, and searches the plans that they ask for.

    `replica`: the replica; only this thread uses it; `report`: called on this thread with each plan that it has made,
    and with each state to write to the log.
    """

    def __init__(self, replica: ClusterReplica, report: Callable[[PlanMade | Saved], None]) -> None:
        self._replica, self._report = replica, report
        replica.search = self._search
        self._entries: SimpleQueue[LogEntry | None] = SimpleQueue()
        self._current: str | None = None
        """The plan that is searched for now."""
        self._interrupts = False
        """Whether another thread is about to interrupt the search."""
        self._is_interrupted = False
        """Whether an interrupt was sent that the search has not taken yet."""
        self._stops = False
        """Whether the thread is to end; a restart does the remaining work."""
        self._discarded: set[str] = set()
        """Plans that were discarded before they were made: they are not searched for."""
        self._logged: dict[str, Document] = {}
        """Plans that the log has already, by id."""
        self._plan: Plan | None = None
        """The plan that was found last."""
        self._thread = threading.Thread(target=self._run, name="plb search", daemon=True)

    def start(self, entries: list[LogEntry]) -> None:
        """Start with entries that the log has already."""
        events = [entry.event for entry in entries]
        self._logged = {event.plan: event.document for event in events if isinstance(event, PlanMade)}
        discarded = {entry.event.plan for entry in entries if isinstance(entry.event, DiscardPlan)}
        self._discarded = discarded - self._logged.keys()
        for entry in entries:
            self.push(entry)
        for record in self._replica.state.plans.values():
            if record.document is not None and record.is_searching and record.id not in self._logged:
                self._report(PlanMade(plan=record.id, document=record.document))
        self._thread.start()

    def push(self, entry: LogEntry) -> None:
        """Let the thread apply an entry after all earlier ones."""
        self._entries.put(entry)

    def stop(self) -> None:
        """End the thread and the search that it makes."""
        self._stops = True
        self._entries.put(None)
        self._interrupt(self._current)
        self._thread.join()

    def discard(self, plan_id: str) -> None:
        """Do not search for a plan that is not made yet, or end its search."""
        self._discarded.add(plan_id)
        self._interrupt(plan_id)

    def _interrupt(self, plan_id: str | None) -> None:
        """Raise an interrupt in the thread if it searches for a plan; the engine is then as before the search."""
        self._interrupts = True  # from here until it is False the thread does not leave its search
        is_searched = plan_id is not None and self._current == plan_id
        if is_searched and not self._is_interrupted and self._thread.ident is not None:
            self._is_interrupted = True
            raise_in(self._thread.ident, KeyboardInterrupt)
        self._interrupts = False

    def _run(self) -> None:
        """Apply entries until `stop`."""
        while (entry := self._entries.get()) is not None and not self._stops:
            self._replica.refusal(entry)  # the replica that answers reports a refusal
            if self._replica.state.weight >= SAVED_EVERY and not self._stops:
                self._report(self._replica.saved(entry.sequence))

    def _search(self, engine: Engine, record: PlanRecord) -> None:
        """Make the plan of a record, unless it was discarded, or a time limit ended it and the log has it."""
        logged = self._logged.get(record.id)
        if logged is not None and not logged.get("reproducible", True):
            record.document = logged
        else:
            record.document = self._searched(engine, record)
        self._discarded.discard(record.id)
        if record.document is None:
            return
        self._replica.state.weight += work_to_repeat(record.document)
        if logged is None:
            self._report(PlanMade(plan=record.id, document=record.document))

    def _searched(self, engine: Engine, record: PlanRecord) -> Document | None:
        """Return the document of a plan, or of the error that ended its search; None if it was discarded before."""
        self._plan = None
        error: str | None = None
        try:
            error = self._make_plan(engine, record)
            self._leave_search()
            for _ in range(INSTRUCTIONS if self._is_interrupted else 0):
                pass  # an interrupt that is pending comes here, as it would slow all of Python down
        except KeyboardInterrupt:
            logger.info("the search of plan %s was stopped", record.id)
            self._leave_search()
        self._is_interrupted = False
        return self._document(error)

    def _document(self, error: str | None) -> Document | None:
        """Return the document of the plan that was found, also if an interrupt came after it, or of an error."""
        if self._plan is not None:
            return of_plan(self._plan)
        return None if error is None else {"error": error}

    def _make_plan(self, engine: Engine, record: PlanRecord) -> str | None:
        """Make the plan of a record, unless it was discarded; return the error that ended its search, or None.

        An interrupt may end this at any point; the engine is then as before the search.
        """
        self._current = record.id
        if record.id in self._discarded or self._stops:
            return None
        try:
            self._plan = plan_for(engine, record)
        except PlbError as error:
            return str(error)
        except Exception as error:
            logger.exception("the search of plan %s met a defect", record.id)
            return f"a defect of plb: {error!r}"
        return None

    def _leave_search(self) -> None:
        """End the part in which an interrupt may be sent: wait for one that is under way."""
        self._current = None
        while self._interrupts:
            time.sleep(0)


def work_to_repeat(document: Document) -> int:
    """Return the work to make a plan again, in units of an event: so much that the state is saved if it cannot be."""
    if not document.get("reproducible", True):
        return SAVED_EVERY
    return int(document.get("proposals", 0)) // PROPOSALS_OF_AN_EVENT


def raise_in(thread: int, error: type[BaseException]) -> None:
    """Raise an error in a thread at its next instruction of Python."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))
