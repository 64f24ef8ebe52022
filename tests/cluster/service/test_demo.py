"""The demonstration: the same events in every run, plans that are applied, and nothing that is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cluster.service.demo import NAME, PLAN_EVERY, WAIT, Demo
from cluster.service.replica import Status
from cluster.service.service import PlacementService
from tests.cluster.service.served import with_service


async def story(service: PlacementService) -> tuple[dict[str, dict[str, float]], int]:
    """Let time pass until the second plan is applied; return the loads of the nodes and the moves of both plans."""
    demo = Demo(service)
    await demo.begin()
    live = service.cluster(NAME)
    for _ in range(PLAN_EVERY + WAIT + 1):
        await demo.step()
        while any(plan.is_searching for plan in live.reader.state.plans.values()):
            await asyncio.sleep(0.01)
    plans = live.reader.state.plans.values()
    assert [plan.status for plan in plans] == [Status.APPLIED] * 2
    assert all(line.refusal is None for line in await service.latest(NAME))
    assert not live.reader.engine.violations()
    return live.reader.engine.node_loads(), sum(len((plan.document or {})["moves"]) for plan in plans)


def test_it_is_the_same_in_every_run(tmp_path: Path) -> None:
    first, again = (with_service(tmp_path / name, story) for name in ("a", "b"))
    assert first == again
    loads, moves = first
    assert len(loads) == 40
    assert moves > 150
