"""What an engine keeps between plans, compared with what follows from the described cluster alone."""

from __future__ import annotations

import attrs
import numpy as np

from plb import PlacementAndLoadBalancing
from plb.evaluation.delta import compare_with_scratch
from plb.planning.live.problem import build_problem
from plb.planning.live.work_lists import WorkLists
from plb.planning.pending_work import WorkToPlace
from plb.state.arrays import Problem


def check_kept(engine: PlacementAndLoadBalancing) -> None:
    """Compare every array of the problem, every sum of the solution, and all work lists with those from scratch."""
    planner, state = engine._planner, engine._state
    problem = planner.problem(planner.now)
    compare_with_scratch(problem, planner.start(problem), "between plans")
    fresh = build_problem(state, planner.topology(), planner.demand_forecast, planner._service_tables(None))
    pairs = {name: (getattr(problem, name), getattr(fresh, name)) for name in Problem._fields}
    differing = {name: pair for name, pair in pairs.items() if not np.array_equal(*pair)}
    assert not differing, differing
    work, again = planner._live.work, WorkLists(state, fresh, planner.start(problem))
    assert (work.unfinished, work.immovable, work.breaking) == (again.unfinished, again.immovable, again.breaking)
    found, right = (
        attrs.asdict(WorkToPlace(state, names, work.unfinished, related=problem.related).of(None))
        for names in (None, [*state.partitions])
    )
    assert found == right
