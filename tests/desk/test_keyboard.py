from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from checkmate.catalog.bundled import find_graph
from tests.desk.desk import Desk
from tests.desk.frames import Pixels
from tests.desk.screen import on_a_screen

pytestmark = [pytest.mark.heavy, on_a_screen]
_AROUND, _LEAST, _CONTRAST = 4, 20, 3.0  # pixels around a widget; pixels that change, and by how much
_MOST_STOPS, _LONG_S = 80, 400.0
_MODEL = """
import sys
import keras
from keras import layers

image = keras.Input((32, 32, 3))
x = image
for width in (16, 16, 32, 32):
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same")(x)))
model = keras.Model(image, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.save(sys.argv[1])
"""


def luminance(pixels: Pixels) -> np.ndarray:
    parts = np.stack([(pixels >> shift) & 255 for shift in (16, 8, 0)], axis=-1) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def press(desk: Desk, *keys: str) -> str:
    """Move the focus by keys; return what has it. It must be seen that it does."""
    old = desk.state["focus"]
    before = desk.screen.frame()
    desk.hand.key(*keys)
    desk.until(lambda: desk.state["focus"] != old, f"{keys} moved the focus away from {old['name']}")
    desk.still()
    focus = desk.state["focus"]
    x, y, wide, high = focus["place"]
    part = np.s_[max(0, y - _AROUND) : y + high + _AROUND, max(0, x - _AROUND) : x + wide + _AROUND]
    one, other = (luminance(frame[part]) + 0.05 for frame in (before, desk.screen.frame()))
    seen = int((np.maximum(one, other) / np.minimum(one, other) >= _CONTRAST).sum())
    assert seen >= _LEAST, f"the focus of {focus['name']} is not seen: {seen} pixels"
    return str(focus["name"])


def press_until(desk: Desk, part: str, *keys: str) -> None:
    for _ in range(_MOST_STOPS):
        if part in press(desk, *keys):
            return
    raise AssertionError(f"{part} never had the focus")


def begin_export(desk: Desk, folder: Path) -> None:
    desk.hand.key("ctrl+e")
    desk.until(lambda: desk.state["dialog"], "the dialog came up")
    desk.still()
    press_until(desk, "Folder", "Tab")
    desk.hand.key("ctrl+a")
    desk.type(str(folder))
    desk.hand.key("Return")
    desk.until(lambda: desk.state["exporting"], "the export runs")


def test_open_budget_what_if_and_export_by_the_keyboard_alone(tmp_path: Path) -> None:
    name = "unet-b8.graph"
    with Desk(None, theme="dark") as desk:
        desk.until(lambda: f"link {name}" in desk.state["places"], "the start page came up")
        desk.still()
        press_until(desk, name, "Tab")
        desk.hand.key("Return")
        desk.until(lambda: desk.state["ranged"], "the graph is on screen")
        # Budget, whose panel has the keys already.
        desk.hand.key("ctrl+2")
        desk.still()
        press_until(desk, "Exact budget", "Tab")
        desk.type("60%")
        desk.hand.key("Return")
        desk.until(lambda: bool(desk.state["listed"].get("Mine")), "a schedule for the budget is listed")
        assert desk.state["listed"]["Mine"][0].startswith("60")
        # What if: the first box of the graph stays in memory.
        desk.still()
        press(desk, "ctrl+1")
        desk.hand.key("Right")
        desk.until(lambda: desk.state["selected"] >= 0, "an op is selected")
        desk.hand.command("edit.keep")
        desk.until(lambda: desk.state["constrained"], "its values are kept")
        desk.until(lambda: not desk.state["solving"] and desk.state["fit"] == "BEST", "it is solved")
        # Export, into a folder that is typed.
        begin_export(desk, tmp_path / "exported")
        desk.hand.key("Escape")
        desk.until(lambda: not desk.state["exporting"], "the export was cancelled")
        desk.hand.key("Escape")
        desk.until(lambda: not desk.state["dialog"], "the dialog is closed")
        desk.hand.command("edit.undo")
        desk.until(lambda: not desk.state["constrained"], "the what-if is undone")


def test_a_models_file_becomes_an_exported_step_by_the_keyboard_alone(tmp_path: Path) -> None:
    model, folder = tmp_path / "net.keras", tmp_path / "exported"
    subprocess.run([sys.executable, "-c", _MODEL, str(model)], check=True, capture_output=True)
    with Desk(None) as desk:
        desk.until(lambda: bool(desk.state.get("places")), "the start page came up")
        desk.still()
        desk.choose_file("ctrl+o", model, lambda: not desk.state["dialog"])
        desk.until(lambda: desk.state["ranged"] and not desk.state["measuring"], "it is measured", _LONG_S)
        desk.still()
        desk.hand.key("ctrl+2")
        press_until(desk, "Exact budget", "Tab")
        desk.type("80%")
        desk.hand.key("Return")
        desk.until(lambda: desk.state["fit"] == "BEST" and not desk.state["solving"], "it is solved")
        desk.still()
        press(desk, "ctrl+1")
        desk.hand.key("Right")
        desk.hand.command("edit.keep")
        desk.until(lambda: desk.state["constrained"], "a value is kept")
        desk.until(lambda: desk.state["fit"] == "BEST" and not desk.state["solving"], "it is solved again")
        begin_export(desk, folder)
        desk.until(lambda: not desk.state["exporting"], "the export ended", _LONG_S)
        desk.still()
        report = json.loads((folder / "report.json").read_text())
        assert report["gradients"]["equal"] and (folder / "schedule.json").is_file()
        desk.hand.key("Escape")
        desk.until(lambda: not desk.state["dialog"], "the dialog is closed")


def test_tab_goes_round_and_each_stop_is_seen() -> None:
    with Desk(find_graph("unet-b8.graph")) as desk:
        desk.until(lambda: desk.state["ranged"] and desk.state["known"] > 10, "some schedules are known")
        desk.hand.key("ctrl+2")
        desk.still()
        first = press(desk, "Tab")
        names = [first]
        while len(names) < _MOST_STOPS and (name := press(desk, "Tab")) != first:
            names.append(name)
        said = "\n".join(names)
        for part in (
            "Training graph",
            "Memory over",
            "Matrix R",
            "Matrix S",
            "Layers",
            "Schedules",
            "Export",
        ):
            assert part in said
        assert len(names) < _MOST_STOPS, said


def test_a_figure_is_saved_by_the_keyboard_alone(tmp_path: Path) -> None:
    figure = tmp_path / "curve.pdf"
    with Desk(find_graph("unet-b8.graph")) as desk:
        desk.until(lambda: desk.state["ranged"], "the graph is on screen")
        desk.still()
        desk.hand.command("view.search")
        desk.until(lambda: bool(desk.state["found"]), "the search is open")
        desk.type(">figure for a paper")
        desk.until(lambda: len(desk.state["found"]) == 1, "one command is found")
        desk.hand.key("Return")
        desk.until(lambda: desk.state["dialog"], "the dialog came up")
        desk.still()
        press_until(desk, "Width", "Tab")
        desk.hand.key("Down")  # two columns
        press_until(desk, "Save", "Tab")
        desk.hand.key("Return")
        desk.until(lambda: desk.state["focus"]["typed"] == "unet-curve.pdf", "it asks where")
        desk.still()
        desk.hand.key("ctrl+a")
        desk.type(str(figure))
        desk.hand.key("Return")
        desk.until(figure.is_file, "the figure is written")
        assert b"/MediaBox [0 0 504" in figure.read_bytes()  # seven inches
