"""The console: what its templates make of a cluster, and how it behaves in a browser."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from httpx import AsyncClient

from benchmarks.console_picture import CHROMIUM, Console, browser, fill, planned, report
from cluster.service import searches
from cluster.service.events import ApplyPlan, DrainNode, MakeCluster, PutNode, RequestPlan
from cluster.service.interfaces.access import Access
from cluster.service.interfaces.console import (
    LOADS,
    PAGE,
    RISK,
    MapChoice,
    html_of,
    level,
    map_of,
    node_of,
    numbers_of,
    percent,
)
from cluster.service.replica import ClusterReplica, PlanRecord
from cluster.service.service import LiveCluster, PlacementService
from plb import Metric, Node, Partition, PlacementAndLoadBalancing, Plan, PlbConfig, Replica
from plb import Service as Tenant
from tests.cluster.service.clients import client_of
from tests.cluster.service.served import make, with_service
from tests.cluster.service.served import planned as ready

HOSTILE = "<img src=x onerror=alert(1)>\"'&"


class Tags(HTMLParser):
    """Counts the tags of a page, and collects its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(str(page))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def console_of(service: PlacementService, access: Access | None = None) -> AsyncClient:
    return client_of(service, access)


def hostile_engine() -> PlacementAndLoadBalancing:
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric(HOSTILE)]))
    engine.update_node(Node(HOSTILE, capacities={HOSTILE: 8}, fault_domain=HOSTILE, upgrade_domain=HOSTILE))
    engine.update_service(Tenant(HOSTILE, target_replicas=1, default_load={"primary": {HOSTILE: 6}}))
    replicas = [Replica("primary", HOSTILE)]  # type: ignore[arg-type]
    engine.update_partition(Partition(HOSTILE, service=HOSTILE, replicas=replicas))
    return engine


def live(engine: PlacementAndLoadBalancing) -> LiveCluster:
    """Return a cluster with an engine, and without searches."""
    replica = ClusterReplica(MakeCluster(settings={"metrics": [{"name": "cpu"}]}))
    replica.engine = engine
    return LiveCluster("west", replica, None, 0)  # type: ignore[arg-type]


def map_html(engine: PlacementAndLoadBalancing, by: str) -> str:
    choice = MapChoice("west", by)
    return html_of("map", nodes=engine.nodes, numbers=numbers_of(live(engine), by), choice=choice)


@pytest.mark.parametrize("by", [f"load:{HOSTILE}", RISK])
def test_hostile_names_on_the_map_are_text(by: str) -> None:
    tags = Tags(map_html(hostile_engine(), by))
    assert "img" not in tags.tags
    assert HOSTILE in tags.text
    assert not any(name.startswith("on") for name, _ in tags.attributes)


def test_hostile_names_of_a_node_and_its_replicas_are_text() -> None:
    engine = hostile_engine()
    page = html_of(
        "node", choice=MapChoice(HOSTILE, RISK, node=HOSTILE), open=node_of(live(engine), HOSTILE), metrics=[HOSTILE]
    )
    tags = Tags(page)
    assert "img" not in tags.tags
    assert tags.text.count(HOSTILE) >= 4
    assert "75%" in tags.text


def test_hostile_names_in_the_address_and_the_log_are_text(tmp_path: Path) -> None:
    name = HOSTILE.replace("/", "")

    async def story(service: PlacementService) -> None:
        await service.submit(name, MakeCluster(settings={"metrics": [{"name": HOSTILE}]}), HOSTILE)
        await service.submit(name, PutNode(node={"name": HOSTILE}), HOSTILE)
        await service.submit(name, DrainNode(name="no " + HOSTILE), HOSTILE)
        response = await console_of(service).get("/", params={"node": HOSTILE, "plan": HOSTILE, "before": HOSTILE})
        assert response.status_code == 200
        tags = Tags(response.text)
        assert "img" not in tags.tags
        assert tags.text.count(HOSTILE) >= 5
        assert "refused:" in tags.text

    with_service(tmp_path, story)


def test_the_page_loads_nothing_from_elsewhere_and_has_no_inline_code(tmp_path: Path) -> None:
    async def story(service: PlacementService) -> str:
        await make(service)
        client = console_of(service)
        for name in ("console.css", "console.js", "icon.svg"):
            assert (await client.get(f"/console/{name}")).status_code == 200
        return (await client.get("/")).text

    page = with_service(tmp_path, story)
    tags = Tags(page)
    addresses = [value for name, value in tags.attributes if name in ("src", "href", "action", "data-url")]
    assert all(address is not None and address[0] in "/?#" and address[:2] != "//" for address in addresses)
    assert not {"style", "onclick"} & {name for name, _ in tags.attributes}
    assert re.findall(r"<(?:script|style)[^>]*>(?!</script>)", page) == []
    assert "url(" not in (PAGE / "console.css").read_text()


def test_without_a_cluster_the_page_says_how_to_make_one(tmp_path: Path) -> None:
    async def story(service: PlacementService) -> str:
        return (await console_of(service).get("/")).text

    assert "PUT /v1/clusters/NAME" in with_service(tmp_path, story)


def test_everyone_sees_the_buttons_of_the_own_role(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read reader {'r' * 16}\nreport agent {'p' * 16}\napply admin {'a' * 16}\n")

    async def story(service: PlacementService) -> list[str]:
        await make(service)
        await ready(service, RequestPlan())
        client = console_of(service, Access.of_file(tokens))
        assert (await client.get("/")).status_code == 401
        return [(await client.get("/", auth=("anyone", letter * 16))).text for letter in "rpa"]

    pages = with_service(tmp_path / "data", story)
    assert ["Ask for a plan" in page for page in pages] == [False, True, True]
    assert ["Approve plan" in page for page in pages] == [False, False, True]


def test_a_page_of_another_site_cannot_ask_for_a_plan(tmp_path: Path) -> None:
    async def story(service: PlacementService) -> None:
        await make(service)
        client, path = console_of(service), "/v1/clusters/main/plans"
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await client.post(path, json={}, headers=headers)).status_code == 403
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (await client.post(path, content="call=place", headers=form)).status_code == 415
        assert service.clusters["main"].reader.state.plans == {}

    with_service(tmp_path, story)


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (0.0004, "<0.1%"), (0.0057, "0.5%"), (0.999, "99%"), (0.29, "29%"), (1.2, "120%")]
)
def test_shares_are_rounded_down(share: float, text: str) -> None:
    """A node below its capacity is never shown as full."""
    assert percent(share) == text


def test_colours_change_at_their_limits() -> None:
    assert [level(share, LOADS) for share in (0.0, 0.2499, 0.25, 0.99, 1.0, float("inf"))] == [
        *("l0", "l0", "l1", "l4", "l5", "l5")
    ]


def test_many_domains_are_shown_by_a_higher_level() -> None:
    """Fault domains are merged to the level above, upgrade domains to one; each node stays on the map once."""
    nodes = [
        Node(f"n{index}", fault_domain=f"fd:/dc{index % 3}/rack{index}", upgrade_domain=f"u{index}")
        for index in range(60)
    ]
    shown = map_of(nodes, {node.name: 0.0 for node in nodes}, RISK)
    assert shown["columns"] == ["dc0", "dc1", "dc2"]
    assert [row for row, _ in shown["rows"]] == ["all"]
    names = [tile.name for _, cells in shown["rows"] for tiles in cells for tile in tiles]
    assert sorted(names) == sorted(node.name for node in nodes)


def test_a_node_without_a_limit_shows_its_load() -> None:
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]))
    engine.update_node(Node("n0"))
    engine.update_node(Node("n1", capacities={"cpu": 0}, up=False))
    engine.update_node(Node("n2", capacities={"cpu": 8}, deactivation_intent="pause"))
    page = map_html(engine, "load:cpu")
    assert "no limit" in page
    assert "✕" in page
    assert "deactivated: pause" in page


# in a browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no {CHROMIUM}; `make browser` installs it")
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with Console(tmp_path_factory.mktemp("console")) as served:
        served.run(fill, 20)
        yield served


def opened(chromium: Any, console: Console, address: str = "", **options: Any) -> Any:
    """Return a page on the console that is live."""
    page = chromium.new_page(**options)
    page.set_default_timeout(60_000)
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.goto(f"{console.url}/{address}")
    page.get_by_text("live, entry").wait_for()
    return page


def test_the_map_has_all_nodes_and_the_keyboard_opens_one(chromium: Any, console: Console) -> None:
    page = opened(chromium, console)
    assert page.locator(".map .tile").count() == 20
    page.locator(".map .tile").first.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.href").endswith("node=n1")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.href").endswith("node=n6")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    page.locator("#node table").wait_for()
    assert page.evaluate("document.activeElement.textContent").startswith("Node n6")
    assert page.url.endswith("node=n6")
    page.keyboard.press("Escape")
    page.locator("#node table").wait_for(state="detached")
    assert page.evaluate("document.activeElement.href").endswith("node=n6")
    assert page.problems == []
    page.close()


@pytest.mark.slow
def test_everything_is_reached_with_tab(chromium: Any, console: Console) -> None:
    page = opened(chromium, console, "?node=n3")
    reachable = page.locator("a, button, select, input").evaluate_all(
        "all => all.filter(each => each.offsetParent !== null && each.tabIndex < 0).length"
    )
    assert reachable == 0
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.url || document.activeElement.getAttribute('href')"))
    assert page.locator("button.approve").get_attribute("data-url") in reached
    assert any(address and "node=n19" in address for address in reached)
    page.close()


def test_a_plan_is_approved_with_one_click_and_its_moves_appear(chromium: Any, console: Console) -> None:
    """A second page that is open sees the same."""
    page, onlooker = opened(chromium, console), opened(chromium, console)
    button = page.locator("button.approve").first
    name = str(button.get_attribute("aria-label")).removeprefix("Approve plan ")
    before = console.service.clusters["west"].reader.plan(name)
    assert before.status.value == "ready"
    button.click()
    for each in (page, onlooker):
        each.locator(".closed li", has_text=name).get_by_text("applied").wait_for()
        each.locator("#log td", has_text=f"apply {name}").wait_for()
    assert before.status.value == "applied"
    assert page.locator("#said").text_content() == f"Approve plan {name}: done."
    assert page.problems + onlooker.problems == []
    page.close()
    onlooker.close()


def test_a_plan_is_asked_for_with_the_keyboard_and_not_while_one_is_searched(
    chromium: Any, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, plan_for = threading.Event(), searches.plan_for

    def waiting_plan_for(engine: PlacementAndLoadBalancing, record: PlanRecord) -> Plan:
        assert may_end.wait(60)
        return plan_for(engine, record)

    page = opened(chromium, console)
    monkeypatch.setattr(searches, "plan_for", waiting_plan_for)
    button = page.get_by_role("button", name="Ask for a plan")
    page.get_by_label("Plan for").focus()
    page.keyboard.type("repair")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator("article[data-searching]").wait_for()
    name = str(page.locator("article[data-searching]").get_attribute("aria-label")).removeprefix("Plan ")
    assert button.is_disabled()
    assert page.locator("#said").text_content() == f"Plan {name} is searched for."
    may_end.set()
    page.get_by_role("button", name=f"Reject plan {name}").wait_for()
    page.locator(".ask button:enabled").wait_for()
    assert console.service.clusters["west"].reader.plan(name).request.call == "repair"
    page.get_by_role("button", name=f"Reject plan {name}").click()
    page.locator(".closed li", has_text=name).wait_for()
    assert page.problems == []
    page.close()


@pytest.mark.slow
def test_a_plan_is_rejected_and_a_stale_one_says_so(chromium: Any, console: Console) -> None:
    async def two_plans(service: PlacementService) -> list[str]:
        return [await planned(service, RequestPlan(proposals=2000)) for _ in range(2)]

    async def change(service: PlacementService) -> None:
        await service.submit("west", DrainNode(name="n0"), "a test")

    first, second = console.run(two_plans)
    page = opened(chromium, console)
    page.get_by_role("button", name=f"Reject plan {first}").click()
    page.locator(".closed li", has_text=first).get_by_text("discarded").wait_for()
    console.run(change)
    article = page.get_by_role("article", name=f"Plan {second}")
    article.get_by_text("stale", exact=True).wait_for()
    assert article.locator("button.approve").count() == 0
    page.close()


@pytest.mark.slow
def test_a_refused_decision_is_told(chromium: Any, console: Console) -> None:
    async def plan(service: PlacementService) -> str:
        return await planned(service, RequestPlan(proposals=2000))

    async def apply(service: PlacementService, name: str) -> None:
        await service.submit("west", ApplyPlan(plan=name), "another")

    name = console.run(plan)
    page = opened(chromium, console)
    page.locator(f"button[aria-label='Approve plan {name}']").wait_for()
    page.evaluate("for (const part of parts.values()) part.next = Infinity")
    console.run(apply, name)
    page.get_by_role("button", name=f"Approve plan {name}").click()
    page.locator("#said", has_text="is applied, not ready").wait_for()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_without_scrolling_sideways(chromium: Any, console: Console, scheme: str) -> None:
    page = opened(chromium, console, "?node=n3", viewport={"width": 390, "height": 844}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#node table").is_visible()
    page.close()


def test_loads_that_change_are_seen_and_the_focus_stays(chromium: Any, console: Console) -> None:
    page = opened(chromium, console)
    page.locator(".map .tile").nth(7).focus()
    href = page.evaluate("document.activeElement.href")
    before = page.locator(".map").inner_text()
    console.run(report, 60)
    page.wait_for_function("before => document.querySelector('.map').innerText !== before", arg=before)
    assert page.evaluate("document.activeElement.href") == href
    page.close()
