"""Test that two clicks and a key show what fills the memory at the peak, and what dropping it costs.

``Desk.until`` fails where the window does not come to it.
"""

from __future__ import annotations

import pytest

from app.presenters.hotspot_rows import View
from tests.desk.desk import Desk
from tests.desk.screen import on_a_screen

pytestmark = [pytest.mark.heavy, on_a_screen]
LINK, HELPS = "link unet-b8.graph", "tab What helps"


def click(desk: Desk, place: str) -> None:
    x, y, wide, high = desk.panel(place)
    desk.hand.click(x + wide / 2, y + high / 2)


def helps(desk: Desk) -> bool:
    memory = desk.state["memory"]
    return memory["view"] == View.HELPS.value and not memory["busy"] and memory["priced"] > 0


def test_two_clicks_and_a_key_answer_it() -> None:
    with Desk(None, theme="dark") as desk:
        desk.until(lambda: LINK in desk.state["places"], "the start page came up")
        desk.still()
        click(desk, LINK)
        desk.until(lambda: HELPS in desk.state["places"], "the graph is on screen")
        desk.hand.command("playback.peak")
        desk.until(
            lambda: desk.state["memory"]["at_peak"] and desk.state["memory"]["rows"] > 0,
            "tensors are listed",
        )
        click(desk, HELPS)
        desk.until(lambda: helps(desk), "what dropping costs is listed")
