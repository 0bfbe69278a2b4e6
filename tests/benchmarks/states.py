"""Draw the window in each of its states, and look for cut words.

Each state is drawn in several sizes and both themes. ``python -m tests.benchmarks.states -o FOLDER
[--states NAME ...] [--sizes 1366x768 ...] [--no-model]``

The window is the real one, with its own processes, without a screen. FOLDER gets a picture of each state, and
contact sheets of all. Words that have no room are printed; the exit code is 1 where there are any. Look at
the pictures all the same.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PIL import Image
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QPainter, QPixmap
from PySide6.QtWidgets import QApplication, QWidget

from app.theme import ThemeChoice
from app.views.window.main_window import MainWindow
from tests.benchmarks.cut_words import cut_words
from tests.benchmarks.long_use import wait
from tests.benchmarks.state_courses import Stage, states
from tests.benchmarks.windows import shown_window

SIZES = ((1366, 768), (1600, 1000))
DENSE, DENSE_SIZE = 2, (1366, 768)  # pixels of the screen to one of the window's, along each side
_SETTLED_S = 0.3
_SHEET, _ACROSS, _DOWN = 900, 2, 3  # pixels of a picture's width on a sheet; pictures across and down
_DIM = 90  # of 255: how much the window behind a dialog is darkened


class Camera:
    """Draws a window in each size and theme."""

    def __init__(self, stage: Stage, folder: Path, sizes: Sequence[tuple[int, int]]) -> None:
        self._window, self._front, self._folder, self._sizes = stage.window, stage.front, folder, sizes
        self.faults: list[str] = []

    def draw(self, name: str) -> None:
        """Draw the state that the window is in now."""
        window = self._window
        for wide, high in self._sizes:
            window.resize(wide, high)
            for choice in (ThemeChoice.LIGHT, ThemeChoice.DARK):
                window.theme.choose(choice)
                for panel in self._front:
                    window.explorer.area.show_panel(panel)
                wait(lambda: False, _SETTLED_S)
                if window._explorer is not None:
                    window.explorer.turns.finish()
                ratio = window.devicePixelRatioF()
                to = self._folder / f"{wide}x{high}{f'@{ratio:.0f}' if ratio > 1 else ''}-{choice.value}"
                to.mkdir(parents=True, exist_ok=True)
                picture = _picture(window)
                assert picture.save(str(to / f"{name}.png"))
                for shown in _shown(window):
                    self.faults += [f"{to.name} {name}: {words}" for words in cut_words(shown)]
        print(f"{name}", file=sys.stderr, flush=True)


def _shown(window: MainWindow) -> list[QWidget]:
    """Return the window and what is open above it."""
    others = [one for one in QApplication.topLevelWidgets() if one.isVisible() and one is not window]
    return [window, *others]


def _picture(window: MainWindow) -> QPixmap:
    """Return the window as it looks, with its dialogs above it."""
    picture, *dialogs = _shown(window)
    pixels = picture.grab()
    if dialogs:
        painter = QPainter(pixels)
        painter.fillRect(window.rect(), QColor(0, 0, 0, _DIM))
        for dialog in dialogs:
            middle = QPoint(window.width() - dialog.width(), window.height() - dialog.height()) / 2
            painter.drawPixmap(QPoint(max(0, middle.x()), max(0, middle.y())), dialog.grab())
        painter.end()
    return pixels


def make_sheets(folder: Path) -> list[Path]:
    """Put the pictures of each size and theme onto sheets; return these."""
    sheets = []
    for group in sorted(entry for entry in folder.iterdir() if entry.is_dir()):
        pictures = sorted(group.glob("*.png"), key=lambda path: path.stat().st_mtime_ns)
        for number, first in enumerate(range(0, len(pictures), _ACROSS * _DOWN), start=1):
            part = [Image.open(path).convert("RGB") for path in pictures[first : first + _ACROSS * _DOWN]]
            high = round(_SHEET * part[0].height / part[0].width)
            sheet = Image.new("RGB", (_ACROSS * _SHEET, _DOWN * high))
            for place, image in enumerate(part):
                at = (place % _ACROSS * _SHEET, place // _ACROSS * high)
                sheet.paste(image.resize((_SHEET, high), Image.Resampling.LANCZOS), at)
            sheets.append(folder / f"sheet-{group.name}-{number}.png")
            sheet.save(sheets[-1])
    return sheets


def draw_all(folder: Path, wanted: Sequence[str], sizes: Sequence[tuple[int, int]], model: str) -> list[str]:
    """Draw all states, or those wanted; return the words that are cut."""
    window = shown_window()
    with tempfile.TemporaryDirectory() as own:
        stage = Stage(window, Path(own))
        camera = Camera(stage, folder, sizes)
        for name in states(stage, wanted, model):
            camera.draw(name)
        window.close()
    return camera.faults


def _dense(options: argparse.Namespace) -> Iterator[str]:
    """Draw everything on a dense screen, in a process; yield what is cut."""
    size = "{}x{}".format(*DENSE_SIZE)
    command = [sys.executable, "-m", "tests.benchmarks.states", "-o", str(options.output), "--plain-only"]
    command += ["--sizes", size, *(["--states", *options.states] if options.states else [])]
    command += ["--no-model"]  # profiled once already
    found = subprocess.run(
        command,
        env={**os.environ, "QT_SCALE_FACTOR": str(DENSE)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    yield from found.stdout.splitlines()


def _size(text: str) -> tuple[int, int]:
    wide, _, high = text.partition("x")
    return int(wide), int(high)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="a folder for the pictures")
    parser.add_argument("--states", nargs="+", default=[], help="these alone")
    parser.add_argument("--sizes", type=_size, nargs="+", default=SIZES)
    parser.add_argument("--model", default="resnet", help="a model to profile, which needs TensorFlow")
    parser.add_argument("--no-model", dest="model", action="store_const", const="")
    parser.add_argument("--plain-only", action="store_true", help="leave out the dense screen")
    options = parser.parse_args()
    faults = draw_all(options.output, options.states, options.sizes, options.model)
    if not options.plain_only:
        faults += _dense(options)
        make_sheets(options.output)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
