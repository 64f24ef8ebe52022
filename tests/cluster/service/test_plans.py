"""Plans of a served cluster: made for a generation, carried out exactly, discarded, taken back."""

from __future__ import annotations

from pathlib import Path

from cluster.service.documents import moves_of
from cluster.service.events import ApplyPlan, DiscardPlan, DrainNode, ReportLoads, ReportOutcomes, RequestPlan
from cluster.service.replica import StaleError, Status
from cluster.service.service import Service
from plb.errors import ConflictError
from tests.cluster.service.served import CLUSTER, make, planned, send, with_service


def test_a_plan_changes_nothing_until_it_is_applied_and_then_exactly_its_moves(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
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


def test_a_plan_is_stale_after_the_cluster_has_changed_but_not_after_loads(tmp_path: Path) -> None:
    async def story(service: Service) -> None:
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
    async def story(service: Service, long_search: bool) -> object:
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
    async def story(service: Service) -> None:
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
