from __future__ import annotations

import time

import pytest

from checkmate.catalog.bundled import find_graph
from checkmate.formats import read_graph
from tests.desk.desk import Desk
from tests.desk.screen import on_a_screen

pytestmark = [pytest.mark.heavy, on_a_screen]
_WATCHED_S = 6.0


@pytest.fixture(scope="module")
def desk():
    with Desk(find_graph("unet-b8.graph"), theme="dark") as made:
        made.until(lambda: made.state["ranged"], "the graph is on screen")
        made.still()
        yield made


@pytest.fixture
def mine(desk) -> list[str]:
    if not desk.state["listed"].get("Mine"):
        plain = desk.state["shown"]
        desk.until(lambda: desk.state["known"] > 8, "the frontier is filled")
        assert desk.state["shown"] == plain, "it changed by itself"
        x, y, wide, high = desk.panel("entry")
        desk.hand.click(x + wide / 2, y + high / 2)
        desk.type("60%")
        desk.hand.key("Return")
        desk.until(lambda: bool(desk.state["listed"].get("Mine")), "the solve has ended")
    return desk.state["listed"]["Mine"]


@pytest.mark.usefixtures("mine")
def test_what_was_asked_for_is_listed_and_stays_on_screen(desk) -> None:
    assert desk.state["listed"]["Mine"][0].startswith("60\u00a0% · +")
    shown, end = desk.state["shown"], time.monotonic() + _WATCHED_S
    while time.monotonic() < end:
        assert desk.state["shown"] == shown, "it changed by itself"
        time.sleep(0.1)
    assert desk.state["listed"]["Baselines"][0].startswith("Keep everything")


def test_a_schedule_gets_a_name_and_loses_it_again(desk, mine) -> None:
    desk.hand.command("schedule.rename")
    desk.still()
    desk.type("for the paper")
    desk.hand.key("Return")
    desk.until(lambda: "for the paper" in desk.state["listed"]["Mine"], "it has the name")
    desk.hand.command("edit.undo")
    desk.until(lambda: desk.state["listed"]["Mine"] == mine, "the name is gone")


def test_a_search_leads_to_its_op(desk) -> None:
    graph = read_graph(find_graph("unet-b8.graph"))
    desk.hand.command("view.search")
    desk.until(lambda: bool(desk.state["found"]), "the search is open")
    desk.type("batchnorm down2a phase:forward")
    desk.until(lambda: len(desk.state["found"]) == 1, "one op is found")
    before = desk.pixels(desk.panel("graph")).copy()
    desk.hand.key("Return")
    wanted = "unet_1/down2a_norm_1/batchnorm/mul_1"
    desk.until(lambda: graph.ops[desk.state["selected"]].name == wanted, "the op is selected")
    desk.still()
    assert (desk.pixels(desk.panel("graph")) != before).any()
