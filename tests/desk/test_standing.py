from __future__ import annotations

import time

import pytest

from checkmate.catalog.bundled import find_graph
from tests.desk.desk import Desk
from tests.desk.screen import on_a_screen

pytestmark = [pytest.mark.heavy, on_a_screen]


def enter(desk: Desk, text: str) -> None:
    x, y, wide, high = desk.panel("entry")
    desk.hand.click(x + wide / 2, y + high / 2)
    desk.hand.key("ctrl+a")
    desk.type(text)
    desk.hand.key("Return")


def point_at(desk: Desk, name: str) -> None:
    """Move the pointer to a row, and follow it as long as rows still come in."""
    while True:
        x, y, _, high = place = desk.panel(name)
        desk.hand.move(x + 29, y + high / 2)
        time.sleep(0.25)  # less than a hand's aim lasts, and more than until the state is written again
        if desk.panel(name) == place:
            return


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_same_budget_typed_again_shows_its_schedule(theme: str) -> None:
    with Desk(find_graph("unet-b8.graph"), theme=theme) as desk:
        desk.until(lambda: desk.state["ranged"] and desk.state["known"] >= 4, "some schedules are known")
        desk.still()
        enter(desk, "70%")
        desk.until(lambda: desk.state["fit"] == "BEST" and desk.state["solving"], "it is solved")
        place = desk.panel("entry")
        point_at(desk, "keep everything")
        x, y, _, high = desk.panel("keep everything")
        desk.hand.click(x + 30, y + high / 2)  # no row moves under a hand that is about to click
        desk.until(lambda: desk.state["fit"] == "OVER", "it is said that this is over the budget")
        known = desk.state["known"]
        desk.until(lambda: abs(desk.state["known"] - known) > 2, "more is found in the background")
        assert desk.state["fit"] == "OVER"  # what was chosen stays
        desk.still()
        assert desk.panel("entry")[:2] == place[:2]  # nothing moved under the pointer
        enter(desk, "70%")
        desk.until(lambda: desk.state["fit"] == "BEST", "the budget's own schedule is back")
