"""Delays after events of nodes."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, PlbConfig
from plb.planning.scheduler import NodeChange, Scheduler

DELAYS = {
    NodeChange.NEW: "balancing_delay_after_new_node",
    NodeChange.DOWN: "balancing_delay_after_node_down",
}


@given(
    st.dictionaries(st.sampled_from(NodeChange), st.sampled_from([0.0, 5.0, 60.0, None])),
    st.lists(st.tuples(st.sampled_from(NodeChange), st.integers(0, 3), st.integers(0, 100))),
)
def test_balancing_is_delayed_for_services_with_an_event_within_its_delay(delays, events):
    scheduler = Scheduler(
        PlbConfig(metrics=[Metric("cpu")], **{DELAYS[event]: delay for event, delay in delays.items()})
    )
    latest = {}
    for event, service, time in sorted(events, key=lambda noted: noted[2]):
        scheduler.note_node_event(event, [service], float(time))
        latest[service, event] = time
    limits = {event: delays.get(event, 0.0) for event in NodeChange}
    waits = {
        service for (service, event), time in latest.items() if limits[event] is None or 100 - time < limits[event]
    }
    for service in range(4):
        assert scheduler.is_delayed([service], 100.0) == (service in waits)


def test_without_delays_no_service_is_looked_at():
    """A refresh costs what has changed, however many services there are."""

    def services() -> Iterator[int]:
        raise AssertionError("a service is looked at")
        yield 0

    scheduler = Scheduler(PlbConfig(metrics=[Metric("cpu")]))
    scheduler.note_node_event(NodeChange.DOWN, range(5), 1.0)
    assert not scheduler.is_delayed(services(), 2.0)
    assert not scheduler.is_light(services(), 2.0)
