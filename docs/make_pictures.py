"""Draw the pictures of the pages with the program itself.

It does without a screen. ``QT_QPA_PLATFORM=offscreen python docs/make_pictures.py [NAME ...]`` writes
pictures into ``docs/pages/pictures``, all of them where none is named. It needs no TensorFlow: the pictures
show the bundled graph. Look at every picture before you keep it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from PySide6.QtCore import QBuffer, QEventLoop, QTimer
from PySide6.QtGui import QPixmap
from PySide6.QtWidgets import QApplication

from app.look import draw_offscreen
from app.models.session import Session
from app.presenters.hotspot_rows import View
from app.theme import CurrentTheme, ThemeChoice, apply_theme, load_fonts
from app.views.dialogs.export_dialog import ExportDialog
from app.views.window.main_window import MainWindow
from checkmate.units import Budget

_PICTURES = Path(__file__).parent / "pages" / "pictures"
_MOST_BYTES = 150_000
_GRAPH = "unet-b8.graph"


def wait(milliseconds: int) -> None:
    """Let the window work for a while."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def open_solved(theme: str = "light", size: tuple[int, int] = (1440, 900)) -> MainWindow:
    """Return a window on the bundled graph, solved for 60 %, at its peak."""
    application = QApplication.instance() or QApplication([])
    assert isinstance(application, QApplication)
    current = CurrentTheme(ThemeChoice(theme))
    apply_theme(application, current.now, load_fonts())
    session = Session()
    window = MainWindow(session, current, batch_size=8)
    window.resize(*size)
    window.show()
    loop = QEventLoop()
    session.settled.connect(loop.quit)
    session.exploration.graph_changed.connect(
        lambda: QTimer.singleShot(0, lambda: window.explorer.budget.take(Budget(share=0.6)))
    )
    QTimer.singleShot(0, lambda: window.open(_GRAPH))
    QTimer.singleShot(120_000, loop.quit)
    loop.exec()
    session.exploration.show_now()
    shown = session.exploration.shown
    if shown is None:
        raise SystemExit("nothing was solved")
    window.playhead.seek(shown.timeline.peak_step)
    window.notice.hide()  # as after Dismiss: it says which machine made the pictures
    wait(500)
    return window


def save(name: str, picture: QPixmap) -> None:
    """Write a picture with 256 colours; raise if it is too large."""
    buffer = QBuffer()
    buffer.open(QBuffer.OpenModeFlag.ReadWrite)
    picture.save(buffer, "PNG")
    image = Image.open(io.BytesIO(bytes(buffer.data().data()))).convert("RGB")
    path = _PICTURES / f"{name}.png"
    few_colors(image).save(path, optimize=True)
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise SystemExit(f"{path} has {size} bytes, more than {_MOST_BYTES}")
    sys.stdout.write(f"{path}: {image.width}x{image.height}, {size} bytes\n")


def few_colors(image: Image.Image) -> Image.Image:
    """Return the picture in its 256 most common colours.

    They stay as they are; cutting the space of colours would mix the few pixels of a recomputation with grey.
    """
    pixels = np.asarray(image, np.int32)
    colors, place, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    common = colors[np.argsort(-counts)[:256]]
    nearest = [int(((common - color) ** 2).sum(axis=1).argmin()) for color in colors]
    few = Image.fromarray(np.array(nearest, np.uint8)[place.reshape(pixels.shape[:2])])
    few.putpalette(common.astype(np.uint8).tobytes())
    return few


def draw_window(window: MainWindow) -> None:
    """Draw the whole window at the peak."""
    window.explorer.inspector.memory.show_view(View.HELPS)
    wait(2500)
    window.explorer.turns.finish()
    save("window", window.grab())


def draw_start(window: MainWindow) -> None:
    """Draw another window, which has nothing open yet."""
    other = MainWindow(Session(), window.theme)
    other.resize(1100, 640)
    other.show()
    other.activateWindow()
    wait(500)
    save("start", other.grab())
    other.close()


def draw_dark(window: MainWindow) -> None:
    """Draw another window, in the dark theme, while the step is played."""
    window.close()
    other = open_solved("dark")
    other.playhead.seek(other.playhead.step + 60)
    wait(500)
    other.explorer.turns.finish()
    save("dark", other.grab())
    other.close()


def draw_budget(window: MainWindow) -> None:
    """Draw the budget and what is known of it."""
    save("budget", window.explorer.area.docks["budget"].grab())


def draw_solving(window: MainWindow) -> None:
    """Draw the state of the solve."""
    save("solving", window.explorer.area.docks["solving"].grab())


def draw_timeline(window: MainWindow) -> None:
    """Draw R, S and the memory curve."""
    save("timeline", window.explorer.area.docks["timeline"].grab())


def draw_graph(window: MainWindow) -> None:
    """Draw the training graph at the peak."""
    save("graph", window.explorer.graph_panel.grab())


def draw_reasons(window: MainWindow) -> None:
    """Draw what fills the memory at the peak, and what helps."""
    window.resize(1440, 1300)
    for view, name in (
        (View.LAYERS, "peak-layers"),
        (View.REASONS, "peak-reasons"),
        (View.HELPS, "peak-helps"),
    ):
        window.explorer.inspector.memory.show_view(view)
        wait(2500)
        window.explorer.turns.finish()
        save(name, window.explorer.area.docks["inspector"].grab())
    window.resize(1440, 900)
    wait(300)


def draw_op(window: MainWindow) -> None:
    """Draw one op, with the switches of the what-ifs."""
    graph = window.session.exploration.graph
    assert graph is not None
    forward = [i for i, op in enumerate(graph.ops) if op.group == "down1b_conv" and op.type == "Conv2D"]
    _draw_page(window, "op", forward[0], height=1100)


def draw_again(window: MainWindow) -> None:
    """Draw one op that runs again, and what is said of that."""
    shown = window.session.exploration.shown
    assert shown is not None
    sizes = {op: shown.runs.recomputations_of(op)[0].bytes for op in shown.runs.repeated}
    _draw_page(window, "again", max(sizes, key=lambda op: (sizes[op], -op)), height=1220)


def _draw_page(window: MainWindow, name: str, op: int, *, height: int) -> None:
    """Draw the inspector's page of one op."""
    window.resize(1440, height)
    window.selection.select(op)
    wait(800)
    window.explorer.turns.finish()
    save(name, window.explorer.area.docks["inspector"].grab())
    window.selection.select(-1)
    window.resize(1440, 900)
    wait(300)


def draw_export(window: MainWindow) -> None:
    """Draw the dialog that exports."""
    dialog = ExportDialog(window.session, window.theme, window)
    dialog._folder.setText("/home/you/unet-export")
    dialog.show()
    wait(300)
    save("export", dialog.grab())
    dialog.reject()


_PARTS: dict[str, Callable[[MainWindow], None]] = {
    "window": draw_window,
    "budget": draw_budget,
    "solving": draw_solving,
    "timeline": draw_timeline,
    "graph": draw_graph,
    "peak": draw_reasons,
    "op": draw_op,
    "again": draw_again,
    "export": draw_export,
    "start": draw_start,
    "dark": draw_dark,  # the last: it closes the window
}


def main() -> None:
    """Draw the pictures named on the command line, or all."""
    wanted = sys.argv[1:] or list(_PARTS)
    unknown = [name for name in wanted if name not in _PARTS]
    if unknown:
        raise SystemExit(f"no picture {unknown[0]!r}; there are: {', '.join(_PARTS)}")
    draw_offscreen()
    window = open_solved()
    for name in wanted:
        _PARTS[name](window)
    window.close()


if __name__ == "__main__":
    main()
