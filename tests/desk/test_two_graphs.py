from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.theme import DARK, LIGHT
from checkmate.catalog.bundled import find_graph
from checkmate.formats import read_graph, write_graph
from checkmate.largest.scaling import BatchScaling
from tests.desk.desk import Desk
from tests.desk.screen import on_a_screen

pytestmark = [pytest.mark.heavy, on_a_screen]


def drawn(desk: Desk, place: tuple[int, int, int, int], color: str) -> int:
    """Return how many pixels of a place on the screen have just this colour."""
    wanted = np.uint32(int(color.removeprefix("#"), 16))
    return int(((desk.pixels(place) & np.uint32(0xFFFFFF)) == wanted).sum())


@pytest.fixture(params=["light", "dark"])
def desk(request):
    with Desk(find_graph("unet-b8.graph"), theme=request.param) as made:
        made.until(lambda: made.state["ranged"], "the graph is on screen")
        made.still()
        yield made


def theme_of(desk: Desk):
    return {"light": LIGHT, "dark": DARK}[desk.state["theme"]]


def press(desk: Desk, *keys: str) -> None:
    for key in keys:
        desk.hand.key(key)
        desk.still()


def test_lines_and_a_card_are_chosen_by_the_keyboard(desk) -> None:
    place, theme = desk.panel("curve"), theme_of(desk)
    desk.hand.key("ctrl+2")
    press(desk, "Escape", "ctrl+1")
    assert desk.state["lines"] == [] and drawn(desk, place, theme.tokens["problem"]) == 0
    press(desk, "l", "r")
    desk.until(lambda: len(desk.state["lines"]) == 1, "the requested peak is drawn")
    press(desk, "l", "a")
    desk.until(lambda: len(desk.state["lines"]) == 2, "the replica has placed the schedule")
    assert [words.split()[0] for words in desk.state["lines"]] == ["requested", "allocated"]
    desk.still()
    # Its words, and what is seen of the line: 4 MiB above the budget's, it is nearly covered by that.
    assert drawn(desk, place, theme.tokens["held"]) > 20
    press(desk, "l", "Up", "Return")  # the last entry: the largest card
    desk.until(lambda: len(desk.state["lines"]) == 3, "the card is named")
    assert desk.state["lines"][-1].startswith("141 GiB card: 138 GiB")
    desk.still()
    assert drawn(desk, place, theme.tokens["problem"]) > 10  # its words alone: it is far above the curve


def test_two_graphs_are_compared_by_the_keyboard(desk, tmp_path: Path) -> None:
    other = tmp_path / "double.json.gz"
    write_graph(other, BatchScaling(read_graph(find_graph("unet-b8.graph"))).at(16))
    desk.choose_file("ctrl+shift+d", other, lambda: bool(desk.state["compared"]))
    desk.until(lambda: bool(desk.state["compared"].get("layers")), "the layers are compared")
    assert desk.state["compared"]["title"] == "Compare unet, batch 8 (A) with unet, batch 16 (B)"
    desk.until(lambda: desk.state["compared"]["known"][1] > 3, "B has a frontier of its own")
    desk.still()
    theme, places = theme_of(desk), desk.state["compared"]["places"]
    for name in ("memory", "frontier"):
        for color in (theme.tokens["forward"], theme.tokens["backward"]):
            assert drawn(desk, tuple(places[name]), color) > 10, f"{name} in {color}"
    press(desk, "Escape")
    desk.until(lambda: not desk.state["compared"], "the comparison is closed")
    assert desk.state["graph"] == "unet" and desk.state["ops"] == 280


def test_the_largest_batch_is_found_by_the_keyboard(desk) -> None:
    press(desk, "ctrl+b", "ctrl+a")
    desk.type("500 MiB")
    desk.hand.key("Return")
    desk.until(lambda: bool(desk.state["batches"]), "the search has ended")
    assert desk.state["batches"][0].endswith("proved")
    press(desk, "Escape")
    assert desk.state["graph"] == "unet"
