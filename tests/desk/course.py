"""Use the window by hand on a real display, and judge every frame.

``python -m tests.desk.course [--ops 100 1000 10000] [--theme light] [--pictures FOLDER] [-o FILE.json]``
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import PySide6

from checkmate.formats import write_graph
from tests.desk.desk import Desk, Pause
from tests.desk.frames import Verdict
from tests.generated_graphs import training_dag

_EVERY_S = 0.05  # between two moves of the hand
_TRACK = (0.45, 0.95)  # of the slider's width: where budgets are that some schedule fits
_ABOVE_FOOT = 50  # pixels from the lower edge of the slider to its track
_BUNDLED = "link unet-b8.graph"
_PATIENCE_S = 120.0
_BUSY_S = 400.0  # until a busy machine has found a few schedules of 10,000 ops
_LATE_S = 3.0  # an answer to a click may take this much longer, and is measured
EMPTIED = ("R", "S")  # by zooming: few cells are near the diagonal
SIZES = [(1250, 800), (1600, 1000), (1100, 700), (1400, 900)]


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


def steps(desk: Desk, count: int) -> Iterator[Pause]:
    x, y, wide, high = desk.panel("curve")
    for number in range(count):
        desk.hand.click(x + (0.3 + 0.6 * number / count) * wide, y + 0.5 * high)
        yield Pause(0.25, "curve", patience=_LATE_S)


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


def resize(desk: Desk, sizes: Sequence[tuple[int, int]] = SIZES) -> Verdict:
    verdict = Verdict()
    for size in sizes:
        came = partial(_has_size, desk, size)
        verdict.add(desk.watch_change(partial(desk.resize, *size), came, "resize-{}x{}".format(*size)))
    return verdict


def _has_size(desk: Desk, size: tuple[int, int]) -> bool:
    return tuple(desk.state["client"][2:]) == size


def first_graph(theme: str, pictures: Path | None) -> Verdict:
    with Desk(None, theme=theme, pictures=pictures) as desk:
        desk.until(lambda: _BUNDLED in desk.state["places"], "the start page came up")

        def click() -> None:
            x, y, wide, high = desk.panel(_BUNDLED)
            desk.hand.click(x + wide / 2, y + high / 2)

        return desk.watch_change(click, lambda: bool(desk.state["graph"]), "first")


def run(folder: Path, counts: list[int], theme: str, seconds: float, pictures: Path | None) -> dict[str, Any]:
    whole, found, began = Verdict(), {}, os.getloadavg()
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
    other = folder / "other.json"
    write_graph(other, training_dag(5, 60))
    for count in counts:
        path = folder / f"{count}.json"
        graph = training_dag(3, count // 2)
        write_graph(path, graph)
        to = None if pictures is None else pictures / f"{theme}-{count}"
        if to is not None:
            to.mkdir(parents=True, exist_ok=True)
        with Desk(path, theme=theme, pictures=to) as desk:
            desk.until_open(graph.n)
            desk.until(lambda d=desk: d.state["known"] >= 4, "some schedules are known", _BUSY_S)
            facts: dict[str, Verdict] = {
                "drag": desk.watch(drag(desk, seconds), "drag"),
                "play": desk.watch(play(desk, seconds), "play"),
                "steps": desk.watch(steps(desk, 20), "steps"),
                "zoom": desk.watch(zoom(desk, 10), "zoom", but=EMPTIED),
                "resize": resize(desk),
            }
            facts["theme"] = Verdict()
            for other_theme in ("dark", "light") if theme == "light" else ("light", "dark"):
                name_theme(desk, other_theme)
                facts["theme"].add(desk.watch(take_theme(desk, other_theme), f"theme-{other_theme}"))
            name_other(desk, other)
            facts["open"] = desk.watch(open_other(desk, "network5"), "open")
        found[f"{graph.n} ops"] = {name: verdict.facts() for name, verdict in facts.items()}
        for verdict in facts.values():
            whole.add(verdict)
        print(json.dumps(found[f"{graph.n} ops"], indent=1), file=sys.stderr, flush=True)
    first = first_graph(theme, pictures)
    whole.add(first)
    load = [round(one, 1) for one in (*began, *os.getloadavg())]
    made = {"PySide6": PySide6.__version__, "display": "Xvfb 1920x1200 with openbox"}
    machine = {**made, "cores": os.cpu_count(), "load before and after (1, 5, 15 minutes)": load}
    ends = {"first graph": {"open": first.facts()}, "all": whole.facts()}
    return {"theme": theme, "machine": machine, **found, **ends}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long to drag, and to play")
    parser.add_argument("--pictures", type=Path, help="a folder for frames that show an empty panel")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(folder), options.ops, options.theme, options.seconds, options.pictures)
    text = json.dumps(found, indent=1)
    if options.output is not None:
        options.output.write_text(text + "\n")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
