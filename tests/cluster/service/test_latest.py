"""The latest entries of the log, in brief."""

from __future__ import annotations

from pathlib import Path

from cluster.service.events import ApplyPlan, DrainNode, PutNode, RequestPlan, Vacate
from cluster.service.log import EntryInBrief
from cluster.service.service import PlacementService
from tests.cluster.service.served import CLIENT, CLUSTER, make, planned, send, with_service


def brief(line: EntryInBrief) -> tuple[str, str, str, bool]:
    return line.actor, line.kind, line.item, line.refusal is not None


def test_the_latest_entries_name_actor_kind_item_and_refusal(tmp_path: Path) -> None:
    async def story(service: PlacementService) -> list[EntryInBrief]:
        await make(service)
        plan = await planned(service, RequestPlan(now=10.0))
        await send(service, ApplyPlan(plan=plan.id))
        await send(service, ApplyPlan(plan=plan.id))
        await send(service, Vacate(partition="db/0", node="nowhere"))
        await send(service, PutNode(node={"name": "n9", "capacities": {"cpu": 8}}))
        await send(service, DrainNode(name="n3"))
        return await service.latest(CLUSTER)

    lines = with_service(tmp_path, story)
    assert [brief(line) for line in lines[:7]] == [
        (CLIENT, "drain_node", "n3", False),
        (CLIENT, "node", "n9", False),
        (CLIENT, "vacate", "db/0 nowhere", True),
        (CLIENT, "apply", "p10", True),
        (CLIENT, "apply", "p10", False),
        ("service", "made", "p10", False),
        (CLIENT, "plan", "", False),
    ]
    assert [line.sequence for line in lines] == list(range(len(lines), 0, -1))
    assert "p10 is applied" in str(lines[3].refusal)

    async def older(service: PlacementService) -> list[EntryInBrief]:
        return await service.latest(CLUSTER, before=3)

    assert [line.sequence for line in with_service(tmp_path, older)] == [2, 1]
