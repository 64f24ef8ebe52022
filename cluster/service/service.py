"""The service: events of all clusters are logged together, then applied in the order of the log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias, TypeVar

import attrs
import msgspec

from cluster.service import events
from cluster.service.log import EntryInBrief, Log, LogEntry, LogError, Saved
from cluster.service.replica import ClusterReplica, PlanRecord
from cluster.service.searches import SearchThread
from plb.errors import ConflictError, PlbError, UnknownNameError
from plb.validation import check_known

logger = logging.getLogger(__name__)
Result = TypeVar("Result")

MOST_TOGETHER = 1000
"""Work of the events that are written together, in units of a usual event; one client's may be more."""
MOST_ANSWERS = 64
"""Answers that a cluster keeps."""
AT_ONCE = 64
"""Work of the events that are applied before other requests are answered, in units of a usual event."""
RETRY_SECONDS = 1.0
"""Time after which the service tries again to write."""
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
    """Whether it repeats an earlier event, so that it was not applied again; `sequence` is of the earlier one."""


@attrs.define(eq=False)
class LiveCluster:
    """A cluster that is served."""

    name: str
    reader: ClusterReplica
    """The replica that answers; it has applied all entries of the log."""
    searches: SearchThread
    sequence: int
    """Sequence number of its last entry."""
    changed: asyncio.Event = attrs.field(factory=asyncio.Event)
    """Set, and replaced by a new one, after each entry."""
    _kept: dict[Hashable, Any] = attrs.field(factory=dict, init=False)
    """Answers that were asked for since the last entry, by key."""
    is_removed: bool = attrs.field(default=False, init=False)
    is_ending: bool = attrs.field(default=False, init=False)
    """Whether the service stops, so that nobody may wait for the cluster."""

    def kept(self, key: Hashable, read: Callable[[events.Engine], Result]) -> Result:
        """Return what a function of the engine returns, and keep it under a key until the next entry."""
        if key not in self._kept:
            answer = read(self.reader.engine)
            if len(self._kept) >= MOST_ANSWERS:
                self._kept.clear()
            self._kept[key] = answer
        return self._kept[key]  # type: ignore[no-any-return]

    async def finished(self, plan_id: str) -> PlanRecord:
        """Wait until the search of a plan has ended, and return the plan.

        Raise `UnknownNameError` if the plan is not known, or the cluster is removed; `LogError` if the service stops,
        or the log cannot take the plan.
        """
        while (plan := self.reader.plan(plan_id)).is_searching:
            if self.is_removed:
                raise UnknownNameError("cluster", self.name, ())
            if self.is_ending or plan.error is not None:
                raise LogError(plan.error or f"plan {plan_id} is searched for after a restart: the service stops")
            await self.changed.wait()
        return plan

    def apply(self, entry: LogEntry) -> PlbError | None:
        """Apply an entry; return why it changes nothing, or None."""
        self._kept.clear()
        refusal = self.reader.refusal(entry)
        self.sequence = entry.sequence
        if isinstance(entry.event, events.DiscardPlan) and refusal is None:
            record = self.reader.plan(entry.event.plan)
            if record.document is None:
                self.searches.discard(record.id)
        self.searches.push(entry)
        self.notify()
        return refusal

    def unlogged(self, plan_id: str, error: Exception) -> None:
        """Show with a plan that was found why the log does not have it yet."""
        plan = self.reader.state.plans.get(plan_id)
        if plan is not None:
            plan.error = f"plan {plan_id} is found, and not in the log yet: {error}"
            self.notify()

    def notify(self) -> None:
        """Wake the tasks that wait for a change."""
        self.changed.set()
        self.changed = asyncio.Event()


@attrs.frozen(eq=False)
class Pending:
    """An event that waits to be written."""

    cluster: str
    event: events.LoggedEvent
    actor: str
    data: bytes
    """The event as the log has it."""
    receipt: asyncio.Future[Receipt]
    """The answer, once it is known."""

    @classmethod
    def of(cls, cluster: str, event: events.LoggedEvent, actor: str) -> Pending:
        """Return an event whose receipt is to come; one that the log cannot hold is a `RequestError`."""
        try:
            data = events.ENCODER.encode(event)
        except (OverflowError, ValueError, TypeError, msgspec.MsgspecError) as error:
            problem = f"Expected values that the log can hold, whole numbers of at most 64 bits ({error})"
            raise events.RequestError(event.kind, problem) from None
        return cls(cluster, event, actor, data, asyncio.get_running_loop().create_future())

    def answer(self, receipt: Receipt) -> None:
        """Give a client that still waits the receipt."""
        if not self.receipt.done():
            self.receipt.set_result(receipt)

    def fail(self, error: Exception) -> None:
        """Give a client that still waits an error."""
        if not self.receipt.done():
            self.receipt.set_exception(error)


class PlacementService:
    """Serves the clusters of a log. All methods run on one event loop; searches have threads of their own."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.clusters: dict[str, LiveCluster] = {}
        """The clusters by name."""
        self._unreadable: dict[str, str] = {}
        """Why the log of a cluster cannot be applied, by cluster; such a cluster can only be removed."""
        self._waiting: asyncio.Queue[Sequence[Pending]] = asyncio.Queue()
        """Groups of events to write, each all or none; an empty group asks to write refusals and states only."""
        self._refusals: dict[int, str] = {}
        """Reasons of refusals by sequence number, for the next writing."""
        self._saved: dict[str, Saved] = {}
        """States to write, by cluster."""
        self._writer = ThreadPoolExecutor(1, "plb log")
        self._next = 1
        self._task: asyncio.Task[None] | None = None
        self._ends: set[asyncio.Future[None]] = set()
        """Ends of the searches of removed clusters."""
        self.failure: str | None = None
        """Why the last writing of the log failed; None: it succeeded."""

    async def start(self) -> None:
        """Make the clusters of the log that can be read, and accept events; after an error the log is closed."""
        self._loop = asyncio.get_running_loop()
        try:
            self._next = self._log.last + 1
            for name in self._log.clusters():
                try:
                    await self._loop.run_in_executor(self._writer, self._restore, name)
                except PlbError as error:
                    logger.error("cluster %s is not served: %s", name, error)
                    self._unreadable[name] = f"cluster {name} is not served: {error}"
        except BaseException as error:
            self.failure = str(error)
            await self.stop()
            raise
        self._task = asyncio.create_task(self._write_all())

    async def stop(self) -> None:
        """Write what waits, end the searches, and close the log."""
        if self._task is not None:
            await self._waiting.join()
            self._task.cancel()
        for live in self.clusters.values():
            await self._loop.run_in_executor(None, live.searches.stop)
        await asyncio.gather(*self._ends)
        await asyncio.sleep(0)  # states that the searches have saved arrive
        self._writer.shutdown()
        if (self._refusals or self._saved) and self.failure is None:
            self._log.append([], self._refusals, self._saved)
        self._log.close()

    def cluster(self, name: str) -> LiveCluster:
        """Return a cluster by name; an unknown one raises `UnknownNameError`, an unreadable one `LogError`."""
        if name in self._unreadable:
            raise LogError(self._unreadable[name])
        check_known("cluster", name, self.clusters)
        return self.clusters[name]

    async def submit(self, cluster: str, event: events.LoggedEvent, actor: str) -> Receipt:
        """Log an event of a cluster and apply it.

        Raise `PlbError` if the cluster is not known, or a new one exists already; `LogError` if the log cannot be
        written, and nothing has changed then. Events that the cluster refuses have a receipt.
        """
        (receipt,) = await self.submit_all(cluster, [event], actor)
        return receipt

    async def submit_all(self, cluster: str, batch: Sequence[events.LoggedEvent], actor: str) -> list[Receipt]:
        """Log events of a cluster together, and apply each in their order; errors as for `submit`."""
        for event in batch:
            event.admit()
            if isinstance(event, events.RemoveCluster):
                continue
            if not isinstance(event, events.MakeCluster) or cluster in self._unreadable:
                self.cluster(cluster)
            elif cluster not in self.clusters:
                events.check_cluster_name(cluster)
                event.engine(event.past())
        waiting: list[Pending] = []
        for event in batch:
            if event.weight >= AT_ONCE:
                await asyncio.sleep(0)  # reads are answered meanwhile
            waiting.append(Pending.of(cluster, event, actor))
        self._waiting.put_nowait(waiting)
        return await asyncio.gather(*(pending.receipt for pending in waiting))

    async def latest(self, cluster: str, before: int | None = None) -> list[EntryInBrief]:
        """Return the latest entries of a cluster below the sequence number `before`, in brief, the latest first.

        Raise `LogError` if the log cannot be read.
        """
        lines = await asyncio.get_running_loop().run_in_executor(None, self._log.latest, cluster, before)
        for line in lines:
            line.refusal = line.refusal or self._refusals.get(line.sequence)
        return lines

    def _restore(self, name: str) -> None:
        """Make a cluster from its saved state and the entries after it, unless it was removed."""
        removed = self._log.removed(name)
        first = next(self._log.entries(name, removed, most=1), None)
        if first is None:
            return
        if not isinstance(first.event, events.MakeCluster):
            raise LogError(f"{self._log.path}: the log of cluster {name} does not begin with its settings")
        live = self._from_saved(name, first.event) or self._live(name, first.event, removed)
        entries = [*self._log.entries(name, live.sequence)]
        for entry in entries:
            refusal = live.reader.refusal(entry)
            if refusal is not None:
                self._refusals[entry.sequence] = str(refusal)
            live.sequence = entry.sequence
        live.searches.start(entries)
        self.clusters[name] = live

    def _from_saved(self, name: str, first: events.MakeCluster) -> LiveCluster | None:
        """Return a cluster as its saved state is; None: there is none that can be read."""
        try:
            saved = self._log.saved(name)
            return None if saved is None else self._live(name, first, saved.sequence, saved)
        except Exception as error:  # damaged bytes raise errors without a common class
            text = "%s: the saved state of cluster %s is damaged; it is made again from the log: %s"
            logger.warning(text, self._log.path, name, error)
            return None

    def _live(self, name: str, first: events.MakeCluster, sequence: int, saved: Saved | None = None) -> LiveCluster:
        """Return a cluster after the entry `sequence`, of two equal replicas, whose searches have not started."""

        def found(result: events.PlanMade | Saved) -> None:
            """Note a result of the thread of searches in the event loop."""
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._note, live, result)

        searches = SearchThread(ClusterReplica(first, saved=saved), found)
        live = LiveCluster(name, ClusterReplica(first, saved=saved), searches, sequence)
        return live

    def _note(self, live: LiveCluster, result: events.PlanMade | Saved) -> None:
        """Log the plan that a search has made, or write a state, unless its cluster is removed."""
        if live.is_removed:
            return
        if isinstance(result, Saved):
            self._saved[live.name] = result
        own = [] if isinstance(result, Saved) else [Pending.of(live.name, result, SERVICE)]
        self._waiting.put_nowait(own)

    async def _write_all(self) -> None:
        """Write and apply events, what waits together up to some work, until the service stops."""
        while True:
            groups = [await self._waiting.get()]
            work = work_of(groups[0])
            while work < MOST_TOGETHER and not self._waiting.empty():
                groups.append(self._waiting.get_nowait())
                work += work_of(groups[-1])
            waiting = [pending for group in groups for pending in group]
            try:
                await self._write(waiting)
            except Exception as error:
                if not isinstance(error, LogError):  # a defect: the clients hear of it, and the service goes on
                    logger.exception("events could not be written")
                self._fail(waiting, error)
            finally:
                for _ in groups:
                    self._waiting.task_done()

    def _fail(self, waiting: Sequence[Pending], error: Exception) -> None:
        """Answer events of clients that could not be written, and try again to write events of the service."""
        self.failure = str(error)
        for pending in waiting:
            if pending.actor != SERVICE:
                pending.fail(error)
        own = [pending for pending in waiting if pending.actor == SERVICE]
        for pending in own:
            if isinstance(pending.event, events.PlanMade) and pending.cluster in self.clusters:
                self.clusters[pending.cluster].unlogged(pending.event.plan, error)
        self._loop.call_later(RETRY_SECONDS, self._waiting.put_nowait, own)

    async def _write(self, waiting: Sequence[Pending]) -> None:
        """Write events and apply them; if they cannot be written, none is applied."""
        fresh, repeated = self._numbered(waiting)
        refusals, saved = self._refusals, self._saved
        if fresh or refusals or saved or self.failure:
            self._refusals, self._saved = {}, {}
            entries = [(entry, pending.data) for entry, pending in fresh]
            try:
                write = partial(self._log.append, entries, refusals, saved)
                await self._loop.run_in_executor(self._writer, write)
            except BaseException:
                self._refusals, self._saved = {**refusals, **self._refusals}, {**saved, **self._saved}
                raise
            self.failure = None
            self._next += len(entries)
            await self._apply_all(fresh)
        self._answer_repeated(repeated)
        if self._refusals:
            self._waiting.put_nowait([])

    async def _apply_all(self, entries: Sequence[tuple[LogEntry, Pending]]) -> None:
        """Apply entries that are in the log; reads are answered meanwhile."""
        work = 0
        for entry, pending in entries:
            work += entry.event.weight
            if work >= AT_ONCE:
                entry.event.prepare()
                await asyncio.sleep(0)
                work = 0
            pending.answer(self._apply(entry))

    def _numbered(self, waiting: Sequence[Pending]) -> tuple[list[tuple[LogEntry, Pending]], list[Repeated]]:
        """Return new events as entries, and repeated events.

        Making a cluster that exists, and events of a cluster that does not exist, are refused.
        """
        fresh: list[tuple[LogEntry, Pending]] = []
        repeated: list[Repeated] = []
        unwritten: dict[tuple[str, str | None], tuple[int, bytes]] = {}
        now, names, removed = time.time(), {*self.clusters, *self._unreadable}, set[str]()
        for pending in waiting:
            cluster, event = pending.cluster, pending.event
            earlier = unwritten.get((cluster, event.id))
            if earlier is None and event.id is not None and cluster not in removed:
                earlier = self._log.earlier(cluster, event.id)
            if earlier is not None:
                repeated.append((pending, *earlier))
            elif isinstance(event, events.MakeCluster) and cluster in names:
                pending.fail(ConflictError(f"cluster {cluster} exists"))
            elif not isinstance(event, events.MakeCluster) and cluster not in names:
                pending.fail(UnknownNameError("cluster", cluster, names))
            else:
                names.add(cluster)
                entry = LogEntry(self._next + len(fresh), cluster, now, pending.actor, "", event)
                fresh.append((entry, pending))
                if isinstance(event, events.RemoveCluster):  # the ids of its events are forgotten
                    names.discard(cluster)
                    removed.add(cluster)
                    unwritten = {key: earlier for key, earlier in unwritten.items() if key[0] != cluster}
                if event.id is not None:
                    unwritten[cluster, event.id] = entry.sequence, pending.data
        return fresh, repeated

    def _answer_repeated(self, repeated: Sequence[Repeated]) -> None:
        """Answer events with the ids of earlier events: with the earlier answer, or an error if the content differs."""
        for pending, sequence, earlier in repeated:
            event = pending.event
            if pending.data == earlier or is_repetition(event, self._log.event(sequence, earlier)):
                refusal = self._refusals.get(sequence) or self._log.refusal(sequence)
                answer = Receipt(sequence, None if refusal is None else ConflictError(refusal), repeated=True)
            else:
                text = f"{event.kind}: the event {sequence} has the id {event.id!r}, and another content"
                answer = Receipt(sequence, ConflictError(text))
            pending.answer(answer)

    def _apply(self, entry: LogEntry) -> Receipt:
        """Apply an entry that is in the log."""
        if isinstance(entry.event, events.RemoveCluster):
            return self._remove(entry)
        if isinstance(entry.event, events.MakeCluster):
            live = self._live(entry.cluster, entry.event, 0)
            live.searches.start([])
            self.clusters[entry.cluster] = live
        refusal = self.clusters[entry.cluster].apply(entry)
        if refusal is not None:
            self._refusals[entry.sequence] = str(refusal)
        return Receipt(entry.sequence, refusal)

    def _remove(self, entry: LogEntry) -> Receipt:
        """Remove the cluster of an entry: its searches, its streams and whatever else waits for it end."""
        if self._unreadable.pop(entry.cluster, None) is not None:
            return Receipt(entry.sequence)
        live = self.clusters.pop(entry.cluster)
        self._saved.pop(entry.cluster, None)
        live.is_removed = True
        live.changed.set()  # whoever waits for it is told
        end = self._loop.run_in_executor(None, live.searches.stop)
        self._ends.add(end)
        end.add_done_callback(self._ends.discard)
        return Receipt(entry.sequence)


Repeated: TypeAlias = tuple[Pending, int, bytes]
"""An event, and the sequence number and the MessagePack of the earlier one of its id."""


def is_repetition(event: events.LoggedEvent, earlier: events.LoggedEvent) -> bool:
    """Return whether an event says the same as an earlier one of its id."""
    # making becomes new settings if the cluster exists
    if isinstance(earlier, events.MakeCluster) and isinstance(event, events.Configure):
        earlier = events.Configure(settings=earlier.settings, now=earlier.now, id=earlier.id)
    return event == earlier


def work_of(waiting: Sequence[Pending]) -> int:
    """Return the work to apply events, in units of a usual event."""
    return sum(pending.event.weight for pending in waiting)
