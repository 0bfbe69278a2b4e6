from __future__ import annotations

import pytest

from checkmate.catalog.bundled import find_graph
from tests.desk.desk import Desk
from tests.desk.screen import on_a_screen

pytestmark = [pytest.mark.heavy, on_a_screen]


def test_export_is_asked_for_while_a_budget_is_typed() -> None:
    with Desk(find_graph("unet-b8.graph")) as desk:
        desk.until(lambda: desk.state["ranged"], "the graph is on screen")
        desk.still()
        x, y, wide, high = desk.panel("entry")
        desk.hand.click(x + wide / 2, y + high / 2)
        desk.type("60%")
        desk.hand.key("ctrl+e")  # in a line of text under X, it would go to the end
        desk.until(lambda: desk.state["dialog"], "the command ran")
