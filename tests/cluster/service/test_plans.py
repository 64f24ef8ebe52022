"""Plans of a served cluster: made for a generation, carried out exactly, discarded, taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.service.events import (
    ApplyPlan,
    DiscardPlan,
    DrainNode,
    PutNode,
    ReportLoads,
    ReportOutcomes,
    RequestPlan,
    UndrainNode,
    Vacate,
)
from cluster.service.log import Log, LogError
from cluster.service.replica import DefectError, StaleError, Status
from cluster.service.service import PlacementService, Receipt
from plb import PlacementAndLoadBalancing
from plb.errors import ConflictError, UnknownNameError
from plb.model.plan import moves_of
from tests.cluster.service.served import CLUSTER, make, planned, send, with_service


def test_a_plan_changes_nothing_until_it_is_applied_and_then_exactly_its_moves(tmp_path: Path) -> None:
    async def story(service: PlacementService) -> None:
        await make(service)
        plan = await planned(service, RequestPlan(now=10.0))
        engine = service.cluster(CLUSTER).reader.engine
        assert plan.status is Status.READY
        assert plan.document is not None
        assert len(plan.document["moves"]) == 9
        assert {replica.node for replica in engine.replicas("db/0")} == {None}
        assert (await send(service, ApplyPlan(plan=plan.id))).refusal is None
        places = {(move.partition, move.target) for move in moves_of(plan.document)}
        assert places == {(f"db/{index}", one.node) for index in range(3) for one in engine.replicas(f"db/{index}")}

    with_service(tmp_path, story)


def test_a_name_that_is_unknown_among_those_to_place_is_refused_and_all_known_ones_are_placed(tmp_path: Path) -> None:
    async def story(service: PlacementService) -> None:
        await make(service)
        for names in (["db/0", "db/1", "nothing"], ["nothing", "db/0"]):
            receipt = await send(service, RequestPlan(now=10.0, call="place", partitions=names))
            assert isinstance(receipt.refusal, UnknownNameError)
            assert (receipt.refusal.kind, receipt.refusal.name) == ("partition", "nothing")
        assert not service.cluster(CLUSTER).reader.state.plans
        plan = await planned(service, RequestPlan(now=10.0, call="place", partitions=["db/2", "db/0"]))
        assert plan.document is not None
        assert {move.partition for move in moves_of(plan.document)} == {"db/0", "db/2"}

    with_service(tmp_path, story)


def test_a_plan_is_stale_after_the_cluster_has_changed_but_not_after_loads(tmp_path: Path) -> None:
    async def story(service: PlacementService) -> None:
        await make(service)
        plan = await planned(service, RequestPlan(now=10.0))
        await send(service, ApplyPlan(plan=plan.id))
        node = service.cluster(CLUSTER).reader.engine.replicas("db/0")[0].node
        stale, fresh = await planned(service, RequestPlan(now=20.0)), None
        await send(service, DrainNode(name="n0"))
        assert isinstance((await send(service, ApplyPlan(plan=stale.id))).refusal, StaleError)
        fresh = await planned(service, RequestPlan(now=30.0))
        await send(service, ReportLoads(partitions=["db/0"], nodes=[str(node)], loads=[[5.0]]))
        assert (await send(service, ApplyPlan(plan=fresh.id))).refusal is None
        assert isinstance((await send(service, ApplyPlan(plan=fresh.id))).refusal, ConflictError)

    with_service(tmp_path, story)


def test_a_discarded_search_ends_and_leaves_the_next_plan_as_it_would_be(tmp_path: Path) -> None:
    async def story(service: PlacementService, long_search: bool) -> object:
        await make(service)
        await send(service, ApplyPlan(plan=(await planned(service, RequestPlan(now=10.0))).id))
        if long_search:
            receipt = await send(service, RequestPlan(now=20.0, call="balance", proposals=2**40))
            assert (await send(service, DiscardPlan(plan=f"p{receipt.sequence}"))).refusal is None
        plan = await planned(service, RequestPlan(now=20.0, call="balance", proposals=5000))
        return plan.document

    documents = [
        with_service(tmp_path / str(stops), lambda service, stops=stops: story(service, stops)) for stops in (0, 1)
    ]
    assert documents[0] == documents[1]


def test_failed_moves_are_taken_back(tmp_path: Path) -> None:
    async def story(service: PlacementService) -> None:
        await make(service)
        plan = await planned(service, RequestPlan(now=10.0))
        await send(service, ApplyPlan(plan=plan.id))
        engine = service.cluster(CLUSTER).reader.engine
        assert plan.document is not None
        move = moves_of(plan.document)[4]
        assert (await send(service, ReportOutcomes(plan=plan.id, failed=[4]))).refusal is None
        assert move.target not in {replica.node for replica in engine.replicas(move.partition)}
        await send(service, DrainNode(name="n1"))
        plan = await planned(service, RequestPlan(now=20.0, call="repair"))
        assert plan.document is not None
        moves = moves_of(plan.document)
        before = {name: {one.node for one in engine.replicas(name)} for name in ("db/0", "db/1", "db/2")}
        await send(service, ApplyPlan(plan=plan.id))
        assert (await send(service, ReportOutcomes(plan=plan.id, failed=[*range(len(moves))]))).refusal is None
        assert before == {name: {one.node for one in engine.replicas(name)} for name in before}

    with_service(tmp_path, story)


def test_begun_moves_that_failed_have_not_begun_and_the_others_go_on(tmp_path: Path) -> None:
    """One end is vacated, the other ones are the replicas again; nothing is taken back that has ended."""

    async def story(service: PlacementService) -> None:
        await make(service)
        await send(service, ApplyPlan(plan=(await planned(service, RequestPlan(now=10.0))).id))
        engine = service.cluster(CLUSTER).reader.engine
        before = {name: engine.replicas(name) for name in ("db/0", "db/1", "db/2")}
        await send(service, DrainNode(name="n1"))
        plan = await planned(service, RequestPlan(now=20.0, call="repair"))
        moves = moves_of(plan.document or {})
        assert len(moves) > 1
        assert (await send(service, ApplyPlan(plan=plan.id, leaving=True))).refusal is None
        ended, *failed = moves
        await send(service, Vacate(partition=ended.partition, node=str(ended.source)))
        refusal = (await send(service, ReportOutcomes(plan=plan.id, failed=[*range(len(moves))]))).refusal
        assert f"no replica is leaving {ended.source}" in str(refusal)
        assert (await send(service, ReportOutcomes(plan=plan.id, failed=[*range(1, len(moves))]))).refusal is None
        assert [name for name in before if engine.replicas(name) != before[name]] == [ended.partition]
        assert ended.partition not in {move.partition for move in failed}
        again = await planned(service, RequestPlan(now=20.0, call="repair"))
        assert {move.partition for move in moves_of(again.document or {})} == {move.partition for move in failed}

    with_service(tmp_path, story)


def test_a_move_that_has_ended_does_not_take_back_a_later_one_from_the_same_node(tmp_path: Path) -> None:
    async def story(service: PlacementService) -> None:
        await make(service)
        await send(service, ApplyPlan(plan=(await planned(service, RequestPlan(now=10.0))).id))
        await send(service, DrainNode(name="n1"))
        plans = []
        for node in ("n1", "n3", "n1"):
            other = next(name for name in ("n1", "n3") if name != node)
            await send(service, UndrainNode(name=other))
            await send(service, DrainNode(name=node))
            plan = await planned(service, RequestPlan(now=20.0, call="repair"))
            assert (await send(service, ApplyPlan(plan=plan.id, leaving=True))).refusal is None
            moves = moves_of(plan.document or {})
            assert {move.source for move in moves} == {node}
            if len(plans) < 2:
                for move in moves:
                    assert (await send(service, Vacate(partition=move.partition, node=node))).refusal is None
            plans.append((plan, moves))
        (first, moves), _, (last, later) = plans
        assert {(move.partition, move.target) for move in moves} & {(move.partition, move.target) for move in later}
        generation = service.cluster(CLUSTER).reader.state.generation
        for position in range(len(moves)):
            refusal = (await send(service, ReportOutcomes(plan=first.id, failed=[position]))).refusal
            assert f"plan {last.id} has begun another one" in str(refusal)
        assert (await send(service, ReportOutcomes(plan=last.id, failed=[]))).refusal is None
        assert service.cluster(CLUSTER).reader.state.generation == generation
        assert (await send(service, ReportOutcomes(plan=last.id, failed=[*range(len(later))]))).refusal is None

    with_service(tmp_path, story)


def test_an_event_with_an_earlier_id_is_answered_as_before_and_not_applied_again(tmp_path: Path) -> None:
    """Also if both are written together, and after a restart."""
    drain = DrainNode(name="n0", id="first")
    unknown = DrainNode(name="n9", id="second")

    async def story(service: PlacementService) -> None:
        await make(service)
        one, other, refused = await service.submit_all(CLUSTER, [drain, drain, unknown], "a test")
        generation = service.cluster(CLUSTER).reader.state.generation
        assert (one.repeated, other.repeated, other.sequence) == (False, True, one.sequence)
        await again(service, generation, refused)

    async def again(service: PlacementService, generation: int, refused: Receipt) -> None:
        receipt = await send(service, unknown)
        assert (receipt.repeated, receipt.sequence, str(receipt.refusal)) == (
            True,
            refused.sequence,
            str(refused.refusal),
        )
        assert service.cluster(CLUSTER).reader.state.generation == generation

    with_service(tmp_path, story)

    async def restarted(service: PlacementService) -> None:
        refused = (await send(service, unknown)).sequence
        live = service.cluster(CLUSTER)
        await again(service, live.reader.state.generation, Receipt(refused, (await send(service, unknown)).refusal))
        assert (await send(service, unknown)).refusal is not None

    with_service(tmp_path, restarted)


def test_an_earlier_id_with_another_content_is_a_conflict(tmp_path: Path) -> None:
    """Whether both are written together, one after the other, or with a restart between them."""
    drain, undrain = DrainNode(name="n0", id="first"), UndrainNode(name="n0", id="first")
    first = PutNode(node={"name": "n7", "capacities": {"cpu": 8}, "up": True}, id="second")
    again = PutNode(node={"up": True, "capacities": {"cpu": 8.0}, "name": "n7"}, id="second")

    async def conflicts(service: PlacementService, sequence: int) -> None:
        generation = service.cluster(CLUSTER).reader.state.generation
        receipt = await send(service, undrain)
        assert isinstance(receipt.refusal, ConflictError)
        assert str(receipt.refusal) == f"undrain_node: the event {sequence} has the id 'first', and another content"
        assert service.cluster(CLUSTER).reader.state.generation == generation

    async def story(service: PlacementService) -> int:
        await make(service)
        receipts = await service.submit_all(CLUSTER, [drain, undrain, first, again], "a test")
        assert isinstance(receipts[1].refusal, ConflictError)
        assert (receipts[3].refusal, receipts[3].repeated) == (None, True)
        await conflicts(service, receipts[0].sequence)
        return receipts[0].sequence

    sequence = with_service(tmp_path, story)
    with_service(tmp_path, lambda service: conflicts(service, sequence))


def test_nothing_is_applied_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a full disk a client hears of it, the cluster stays as it was, and a plan that is made is kept."""

    async def story(service: PlacementService) -> None:
        await make(service)
        live = service.cluster(CLUSTER)
        receipt = await send(service, RequestPlan(now=5.0))
        with monkeypatch.context() as patch:
            patch.setattr(Log, "append", full)
            with pytest.raises(LogError, match="disk is full"):
                await send(service, DrainNode(name="n0"))
            assert service.failure is not None
            generation = live.reader.state.generation
        assert (await send(service, DrainNode(name="n0"))).refusal is None
        assert live.reader.state.generation == generation + 1
        while live.reader.plan(f"p{receipt.sequence}").is_searching:
            await live.changed.wait()
        assert service.failure is None

    def full(*_: object) -> None:
        raise LogError("the log cannot be written: database or disk is full")

    with_service(tmp_path, story)


def test_a_defect_is_an_answer_and_the_events_after_it_take_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both replicas go on, so that plans are made as before."""
    undrain = PlacementAndLoadBalancing.undrain_node

    def broken(engine: PlacementAndLoadBalancing, name: str, *, now: float | None = None) -> None:
        if name == "n1":
            raise RuntimeError("planted")
        undrain(engine, name, now=now)

    monkeypatch.setattr(PlacementAndLoadBalancing, "undrain_node", broken)

    async def story(service: PlacementService) -> None:
        await make(service)
        events = [UndrainNode(name="n1"), UndrainNode(name="n0"), DrainNode(name="n2")]
        refusals = [receipt.refusal for receipt in await service.submit_all(CLUSTER, events, "a test")]
        assert isinstance(refusals[0], DefectError)
        assert refusals[1:] == [None, None]
        assert (await planned(service, RequestPlan(now=10.0))).status is Status.READY

    with_service(tmp_path, story)
