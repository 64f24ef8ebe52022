"""The demonstration: the same events in every run, plans that are applied, and nothing that is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cluster.service.demo import NAME, PLAN_EVERY, SECONDS, WAIT, Demo
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


def test_a_later_run_goes_on_where_an_earlier_one_has_ended(tmp_path: Path) -> None:
    """The cluster is then that of a run without a break."""

    async def pass_time(service: PlacementService, steps: int) -> tuple[float, object]:
        demo = Demo(service)
        await demo.begin()
        live = service.cluster(NAME)
        for _ in range(steps):
            await demo.step()
            while any(plan.is_searching for plan in live.reader.state.plans.values()):
                await asyncio.sleep(0.01)
        return live.reader.state.now, live.reader.engine.node_loads()

    early, late = WAIT - 2, PLAN_EVERY
    with_service(tmp_path / "a", lambda service: pass_time(service, early))
    resumed = with_service(tmp_path / "a", lambda service: pass_time(service, late))
    assert resumed == with_service(tmp_path / "b", lambda service: pass_time(service, early + late))
    assert resumed[0] == (early + late) * SECONDS
