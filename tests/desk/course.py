"""Use the window by hand on a real display."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.desk.desk import Desk, Pause
from tests.desk.frames import Verdict

_EVERY_S = 0.05  # between two moves of the hand
_TRACK = (0.45, 0.95)  # of the slider's width: where budgets are that some schedule fits
_ABOVE_FOOT = 50  # pixels from the lower edge of the slider to its track
_BUNDLED = "link unet-b8.graph"
_PATIENCE_S = 120.0
EMPTIED = ("R", "S")  # by zooming: few cells are near the diagonal


def drag(desk: Desk, seconds: float) -> Iterator[Pause]:
    x, y, wide, high = desk.panel("slider")
    level = y + high - _ABOVE_FOOT
    low, most = _TRACK
    desk.hand.move(x + most * wide, level)
    desk.hand.press()
    yield Pause(0.3)
    moves, before = round(seconds / _EVERY_S), -1
    for number in range(moves):
        share = 0.5 + 0.5 * math.cos(4 * math.pi * number / moves)
        at = round(x + (low + share * (most - low)) * wide)
        desk.hand.move(at, level)
        yield Pause(_EVERY_S, "slider" if at != before else "")  # at the turns, the hand rests
        before = at
    desk.hand.release()
    yield Pause(1.0)


def play(desk: Desk, seconds: float) -> Iterator[Pause]:
    x, y, wide, _ = desk.panel("graph")
    desk.hand.click(x + wide - 20, y + 12)  # beside the boxes: nothing is selected
    desk.hand.key("Home")
    yield Pause(0.3)
    desk.hand.command("playback.play")
    yield Pause(seconds)
    desk.hand.command("playback.play")
    yield Pause(0.3)


def zoom(desk: Desk, count: int) -> Iterator[Pause]:
    """Zoom into the memory curve and S with the wheel, and out again. Then do it as bands."""
    for panel in ("curve", "S", "curve"):
        x, y, wide, high = desk.panel(panel)
        desk.hand.move(x + 0.5 * wide, y + 0.5 * high)
        yield Pause(0.3)
        for notch in (1,) * count + (-1,) * count:
            desk.hand.turn(notch)
            yield Pause(0.1, "curve")  # follows in any case
        if panel == "S":
            desk.hand.command("view.bands")
            yield Pause(0.5)
    x, y, wide, _ = desk.panel("graph")
    desk.hand.click(x + wide - 20, y + 12)
    for _ in range(4):
        desk.hand.command("view.bands")
    yield Pause(0.5)


def name_other(desk: Desk, path: Path) -> None:
    """Name another graph in the dialog that asks for one, by keyboard alone."""
    desk.hand.key("ctrl+o")
    desk.until(lambda: desk.state["dialog"], "the dialog came up")
    desk.still()
    desk.type(str(path))


def open_other(desk: Desk, name: str) -> Iterator[Pause]:
    desk.hand.key("Return")
    end = time.monotonic() + _PATIENCE_S
    while desk.state["graph"] != name:
        assert time.monotonic() < end, f"{name} never came on screen; {desk.state}"
        yield Pause(0.5)
        if desk.state["dialog"]:  # the list of completions took the key
            desk.hand.key("Return")
    yield Pause(1.5)


def name_theme(desk: Desk, name: str) -> None:
    desk.hand.command("view.search")
    desk.until(lambda: bool(desk.state["found"]), "the search is open")
    desk.type(f">theme: {name}")
    desk.until(lambda: len(desk.state["found"]) == 1, "one theme is found")
    desk.still()


def take_theme(desk: Desk, name: str) -> Iterator[Pause]:
    desk.hand.key("Return")
    end = time.monotonic() + _PATIENCE_S
    while desk.state["theme"] != name:
        assert time.monotonic() < end, f"the {name} theme never came"
        yield Pause(0.1)
    yield Pause(0.6)


def resize(desk: Desk, sizes: Sequence[tuple[int, int]]) -> Verdict:
    verdict = Verdict()
    for size in sizes:
        came = partial(_has_size, desk, size)
        verdict.add(desk.watch_change(partial(desk.resize, *size), came, "the window has that size"))
    return verdict


def _has_size(desk: Desk, size: tuple[int, int]) -> bool:
    return tuple(desk.state["client"][2:]) == size


def first_graph(theme: str) -> Verdict:
    with Desk(None, theme=theme) as desk:
        desk.until(lambda: _BUNDLED in desk.state["places"], "the start page came up")

        def click() -> None:
            x, y, wide, high = desk.panel(_BUNDLED)
            desk.hand.click(x + wide / 2, y + high / 2)

        return desk.watch_change(click, lambda: bool(desk.state["graph"]), "the graph is on screen")
