"""The service: events of all clusters are logged together, then applied in the order of the log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias, TypeVar

import attrs

from cluster.service.documents import Document
from cluster.service.events import DiscardPlan, Engine, LoggedEvent, MakeCluster, PlanMade, check_length
from cluster.service.log import EntryInBrief, Log, LogEntry, LogError, Saved
from cluster.service.replica import ClusterReplica
from cluster.service.searches import SearchThread
from plb.errors import ConflictError, PlbError, UnknownNameError
from plb.validation import check_name

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

MOST_TOGETHER = 1000
"""Most events that are written together."""
RETRY_SECONDS = 1.0
"""Time after which the service tries again to write an event of its own."""
SERVICE = "service"
"""Actor of the events of the service itself."""


@attrs.frozen
class Receipt:
    """The answer to an event that is in the log."""

    sequence: int
    """Its sequence number."""
    refusal: PlbError | None = None
    """Why it changed nothing."""
    repeated: bool = False
    """Whether an earlier event has its id, so that it was not applied again; `sequence` is of the earlier one."""


@attrs.define(eq=False)
class LiveCluster:
    """A cluster that is served."""

    reader: ClusterReplica
    """The replica that answers; it has applied all entries of the log."""
    searches: SearchThread
    sequence: int
    """Sequence number of its last entry."""
    changed: asyncio.Event = attrs.field(factory=asyncio.Event)
    """Set, and replaced by a new one, after each entry."""
    _kept: dict[Callable[[Engine], Any], Any] = attrs.field(factory=dict, init=False)
    """Answers that were asked for since the last entry, by function."""

    def kept(self, read: Callable[[Engine], Result]) -> Result:
        """Return what a function of the engine returns, and keep it until the next entry."""
        if read not in self._kept:
            self._kept[read] = read(self.reader.engine)
        return self._kept[read]  # type: ignore[no-any-return]

    async def ask(self, read: Callable[[Engine], Result]) -> Result:
        """Return what a slow function of the engine returns: it is called beside the answers, after running searches.

        It sees all entries up to now.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()

        def question(engine: Engine) -> None:
            try:
                found = read(engine)
            except Exception as error:
                loop.call_soon_threadsafe(_settle, answer, None, error)
            else:
                loop.call_soon_threadsafe(_settle, answer, found, None)

        self.searches.ask(question)
        return await answer

    def apply(self, entry: LogEntry) -> PlbError | None:
        """Apply an entry; return why it changes nothing, or None."""
        self._kept.clear()
        refusal = self.reader.refusal(entry)
        self.sequence = entry.sequence
        if isinstance(entry.event, DiscardPlan) and refusal is None:
            record = self.reader.plan(entry.event.plan)
            if record.document is None:
                self.searches.discard(record.id)
        self.searches.push(entry)
        self.changed.set()
        self.changed = asyncio.Event()
        return refusal


Waiting: TypeAlias = tuple[str, LoggedEvent, str, "asyncio.Future[Receipt]"]
"""An event that waits for the log: cluster, event, actor, and its receipt to come."""


class PlacementService:
    """Serves the clusters of a log. All methods run on one event loop; searches have threads of their own."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.clusters: dict[str, LiveCluster] = {}
        """The clusters by name."""
        self._waiting: asyncio.Queue[Waiting] = asyncio.Queue()
        self._refusals: dict[int, str] = {}
        """Reasons of refusals by sequence number, for the next writing."""
        self._saved: dict[str, Saved] = {}
        """States to write, by cluster."""
        self._writer = ThreadPoolExecutor(1, "plb log")
        self._next = log.last + 1
        self._task: asyncio.Task[None] | None = None
        self.failure: str | None = None
        """Why the last writing of the log failed; None: it succeeded."""

    async def start(self) -> None:
        """Make all clusters of the log again, and start to accept events."""
        self._loop = asyncio.get_running_loop()
        for name in self._log.clusters():
            await self._loop.run_in_executor(self._writer, self._restore, name)
        self._task = asyncio.create_task(self._write_all())

    async def stop(self) -> None:
        """Write what waits, end the searches, and close the log."""
        if self._task is not None:
            await self._waiting.join()
            self._task.cancel()
        for live in self.clusters.values():
            await self._loop.run_in_executor(None, live.searches.stop)
        self._writer.shutdown()
        if self._refusals and self.failure is None:
            self._log.append([], reasons(self._refusals), [])
        self._log.close()

    def cluster(self, name: str) -> LiveCluster:
        """Return a cluster by name; an unknown one raises `UnknownNameError`."""
        if name not in self.clusters:
            raise UnknownNameError("cluster", name, self.clusters)
        return self.clusters[name]

    async def submit(self, cluster: str, event: LoggedEvent, actor: str) -> Receipt:
        """Log an event of a cluster and apply it.

        Raises
        ------
        PlbError
            If the cluster is not known, or a new one exists already. Events that the cluster refuses have a receipt.
        LogError
            If the log cannot be written; nothing has changed then.
        """
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        if not isinstance(event, MakeCluster):
            self.cluster(cluster)
        elif cluster in self.clusters:
            raise ConflictError(f"cluster {cluster} exists")
        else:
            check_length("cluster", check_name("cluster", cluster))
            event.engine(event.past())
        self._waiting.put_nowait((cluster, event, actor, receipt))
        return await receipt

    async def submit_all(self, cluster: str, events: list[LoggedEvent], actor: str) -> list[Receipt]:
        """Log events of a cluster in their order, and apply each; errors as for `submit`."""
        return await asyncio.gather(*(self.submit(cluster, event, actor) for event in events))

    async def latest(self, cluster: str, before: int | None = None) -> list[EntryInBrief]:
        """Return the latest entries of a cluster in brief, those below the sequence number `before`, the latest first.

        Raises
        ------
        LogError
            If the log cannot be read.
        """
        lines = await asyncio.get_running_loop().run_in_executor(None, self._log.latest, cluster, before)
        for line in lines:
            line.refusal = line.refusal or self._refusals.get(line.sequence)
        return lines

    def _restore(self, name: str) -> None:
        """Make a cluster from its saved state and the entries after it."""
        saved = self._log.saved(name)
        entries = [*self._log.entries(name, 0 if saved is None else saved.sequence)]
        first = next(self._log.entries(name, most=1)).event
        assert isinstance(first, MakeCluster)
        replicas = [ClusterReplica(first) if saved is None else ClusterReplica.of(saved, first) for _ in range(2)]
        live = self._live(name, *replicas)
        for entry in entries:
            refusal = live.reader.refusal(entry)
            if refusal is not None:
                self._refusals[entry.sequence] = str(refusal)
            live.sequence = entry.sequence
        live.searches.start(entries)
        self.clusters[name] = live

    def _live(self, name: str, reader: ClusterReplica, searching: ClusterReplica) -> LiveCluster:
        """Return a cluster of two equal replicas, whose searches have not started."""

        def on_loop(function: partial[None]) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(function)

        searches = SearchThread(
            searching,
            lambda plan, document: on_loop(partial(self._note_plan, name, plan, document)),
            lambda saved: on_loop(partial(self._note_saved, name, saved)),
        )
        return LiveCluster(reader, searches, 0)

    def _note_plan(self, cluster: str, plan: str, document: Document) -> None:
        """Log the plan that a search has made."""
        receipt: asyncio.Future[Receipt] = self._loop.create_future()
        self._waiting.put_nowait((cluster, PlanMade(plan=plan, document=document), SERVICE, receipt))

    def _note_saved(self, cluster: str, saved: Saved) -> None:
        """Write a state with the next entries."""
        self._saved[cluster] = saved

    async def _write_all(self) -> None:
        """Write and apply events, all that wait together, until the service stops."""
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < MOST_TOGETHER and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            try:
                await self._write(batch)
            except Exception as error:  # a defect: the clients hear of it, and the service goes on
                logger.exception("events could not be applied")
                for *_, receipt in batch:
                    _settle(receipt, None, error)
            finally:
                for _ in batch:
                    self._waiting.task_done()

    async def _write(self, batch: list[Waiting]) -> None:
        """Write events and apply them; if they cannot be written, none is applied."""
        fresh: list[tuple[Waiting, LogEntry]] = []
        repeated: list[tuple[Waiting, int]] = []
        now, ids = time.time(), dict[tuple[str, str], int]()
        for waiting in batch:
            cluster, event, actor, _ = waiting
            sequence = self._sequence_of(cluster, event, ids)
            if sequence is not None:
                repeated.append((waiting, sequence))
                continue
            entry = LogEntry(self._next + len(fresh), cluster, now, actor, "", event)
            if event.id is not None:
                ids[cluster, event.id] = entry.sequence
            fresh.append((waiting, entry))
        refusals, saved = self._refusals, self._saved
        self._refusals, self._saved = {}, {}
        entries = [entry for _, entry in fresh]
        try:
            write = partial(self._log.append, entries, reasons(refusals), saved.items())
            await self._loop.run_in_executor(self._writer, write)
        except LogError as error:
            self.failure, self._refusals, self._saved = str(error), refusals, {**saved, **self._saved}
            for waiting in batch:
                if waiting[2] == SERVICE:  # a plan that was made is logged later
                    self._loop.call_later(RETRY_SECONDS, self._waiting.put_nowait, waiting)
                else:
                    _settle(waiting[3], None, error)
            return
        self.failure = None
        self._next += len(entries)
        for (*_, receipt), entry in fresh:
            _settle(receipt, self._apply(entry), None)
        for (cluster, event, _, receipt), sequence in repeated:
            _settle(receipt, self._answer_again(cluster, event, sequence), None)

    def _sequence_of(self, cluster: str, event: LoggedEvent, ids: dict[tuple[str, str], int]) -> int | None:
        """Return the sequence number of an earlier event with the same id, also of this writing (`ids`), or None."""
        if event.id is None:
            return None
        earlier = self._log.earlier(cluster, event.id)
        return ids.get((cluster, event.id)) if earlier is None else earlier[0]

    def _answer_again(self, cluster: str, event: LoggedEvent, sequence: int) -> Receipt:
        """Return the answer to an event that repeats the id of an earlier one."""
        refusal = self._refusals.get(sequence)
        if refusal is None and event.id is not None:
            _, refusal = self._log.earlier(cluster, event.id) or (sequence, None)
        return Receipt(sequence, None if refusal is None else ConflictError(refusal), repeated=True)

    def _apply(self, entry: LogEntry) -> Receipt:
        """Apply an entry that is in the log."""
        if isinstance(entry.event, MakeCluster):
            if entry.cluster in self.clusters:  # two requests at once
                return Receipt(entry.sequence, ConflictError(f"cluster {entry.cluster} exists"))
            live = self._live(entry.cluster, ClusterReplica(entry.event), ClusterReplica(entry.event))
            live.searches.start([])
            self.clusters[entry.cluster] = live
        refusal = self.clusters[entry.cluster].apply(entry)
        if refusal is not None:
            self._refusals[entry.sequence] = str(refusal)
        return Receipt(entry.sequence, refusal)


def _settle(future: asyncio.Future[Any], answer: Any, error: Exception | None) -> None:
    """Give a client that still waits an answer or an error."""
    if future.done():
        return
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)


def reasons(refusals: Mapping[int, str]) -> list[tuple[str, int]]:
    """Return reasons of refusals, each with its sequence number."""
    return [(reason, sequence) for sequence, reason in refusals.items()]
