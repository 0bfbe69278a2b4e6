"""Start the window, or draw it without a screen. It is started from the command line or from Python."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from app.look import draw_offscreen
from checkmate.catalog.bundled import find_graph, graph_files, graph_name
from checkmate.catalog.model_names import require_code
from checkmate.catalog.samples import SAMPLES, find_sample
from checkmate.doctor.diagnosis import Line, PartState
from checkmate.doctor.lines import window_line
from checkmate.errors import CheckmateError, LoadError, UsageError
from checkmate.formats.files import require_writable
from checkmate.machine.desktop_entry import APPLICATION_ID
from checkmate.processes.stages import Probe, probe, sentence_of
from checkmate.progress import never
from checkmate.records.read import is_record
from checkmate.units import FIRST_SHARE, Budget

if TYPE_CHECKING:
    from PySide6.QtCore import QSettings
    from PySide6.QtWidgets import QApplication

    from app.presenters.paper import FigureFile
    from app.theme import CurrentTheme
    from app.views.window.main_window import MainWindow

_WINDOW = (1600, 1000)  # pixels
_DISPLAY_S = 30.0  # for a display to answer; ssh -X over a slow line takes seconds
_PATIENCE_MS = 15 * 60 * 1000  # a screenshot waits this long, because a model may have to be profiled first


class WindowUnavailableError(CheckmateError):
    """Qt cannot start here, or has no display; the hint says what to do."""


def explore(
    file: str | None,
    *,
    screenshot: Path | None = None,
    figure: FigureFile | None = None,
    size: tuple[int, int] | None = None,
    theme: str | None = None,
    budget: Budget | None = None,
    at: int | None = None,
    batch_size: int | None = None,
    allow_code: bool = False,
) -> int:
    """Open the window on ``file`` (or on nothing) and return its exit code.

    With ``screenshot`` or ``figure``, solve for ``budget`` (60 % if none is given), write these pictures,
    with the playhead on step ``at``, and leave. ``size``: of the window.
    The window asks before it runs the code of a ``file.py:function``, unless ``allow_code``.

    Raises:
        WindowUnavailableError: Qt's libraries are missing, there is no display for a window or it does not
            answer, or nothing could be drawn.
        LoadError: ``file`` names nothing that can be opened. UnsafeModelError: a picture is wanted of what
            would run code, and nobody has allowed that.
        UsageError, FormatError: a picture cannot be written.
    """
    if file is not None:
        require_openable(file)
    drawing = _require_pictures(file, screenshot, figure)
    if drawing and file is not None:
        _require_drawable(file, allow_code=allow_code)
    if drawing:
        draw_offscreen()
    _require_qt(drawing=drawing)
    from PySide6.QtCore import QSize

    settings = None if drawing else _settings()
    application, current = _start_application(theme, settings)
    window = _make_window(current, batch_size, settings)
    window.place(QSize(*(size or _WINDOW)), anew=drawing or size is not None)
    window.show()
    if file is not None and allow_code:
        window.trust(file)
    _begin(window, file)
    if drawing:
        try:
            _solve(window, file, budget or Budget(share=FIRST_SHARE))
            _go_to(window, at)
            if screenshot is not None:
                _draw(window, screenshot)
            if figure is not None:
                window.explorer.figures.save(figure)
        finally:
            window.close()
        return 0
    if budget is not None:
        _choose_when_open(window, budget)
    return int(application.exec())


def _require_pictures(file: str | None, screenshot: Path | None, figure: FigureFile | None) -> bool:
    """Return whether a picture is wanted; raise an error now where it could not be written later."""
    if figure is not None and file is None:
        raise UsageError("there is nothing to draw", hint="name a model, a sample or a graph")
    paths = [screenshot, None if figure is None else figure.path]
    for path in filter(None, paths):
        require_writable(path)
    return any(paths)


def _require_qt(*, drawing: bool) -> None:
    """Check that Qt can be loaded and, unless pictures alone are drawn, that a window can open here."""
    try:
        with ThreadPoolExecutor(1) as pool:
            display = None if drawing else pool.submit(_require_display)
            from PySide6.QtWidgets import QApplication  # noqa: F401
        if display is not None:
            display.result()
        import app.views.window.main_window  # noqa: F401
    except ModuleNotFoundError:
        raise  # a package of Python's, which the error names
    except ImportError as error:
        looked = Probe(errors={"qt": sentence_of(error)})
        raise _unavailable(window_line(looked, os.environ)) from error


def _require_display() -> None:
    """Check in a child process that Qt can open a window: Qt ends the process where it cannot."""
    looked = probe(("app.look", "screen"), limit_s=_DISPLAY_S, cancelled=never)
    line = window_line(looked, os.environ)
    chosen = line.state is PartState.LIMITED and os.environ.get("QT_QPA_PLATFORM")
    if line.state is not PartState.OK and not chosen:
        raise _unavailable(line)


def _unavailable(line: Line) -> WindowUnavailableError:
    return WindowUnavailableError(f"the window cannot start: {line.text.rstrip('.')}", hint=line.mend)


def _settings() -> QSettings:
    from PySide6.QtCore import QSettings

    from app.models.recovery import sessions_folder

    return QSettings(str(sessions_folder().parent / "window.ini"), QSettings.Format.IniFormat)


def _start_application(theme: str | None, settings: QSettings | None) -> tuple[QApplication, CurrentTheme]:
    from PySide6.QtWidgets import QApplication

    from app.theme import CurrentTheme, ThemeChoice, apply_theme, load_fonts, load_icon
    from app.views.window.preferences import kept_theme

    application = QApplication.instance() or QApplication(sys.argv[:1])
    assert isinstance(application, QApplication)
    application.setApplicationName("Checkmate Explorer")
    application.setDesktopFileName(APPLICATION_ID)
    application.setWindowIcon(load_icon())
    current = CurrentTheme(kept_theme(settings) if theme is None else ThemeChoice(theme))
    apply_theme(application, current.now, load_fonts())
    return application, current


def _make_window(theme: CurrentTheme, batch_size: int | None, settings: QSettings | None) -> MainWindow:
    from app.crash_log import keep_log, open_log
    from app.models.recovery import Recent, Recovery, sessions_folder
    from app.models.session import Session
    from app.views.window.main_window import MainWindow

    if settings is None:
        return MainWindow(Session(), theme, batch_size=batch_size)
    folder = sessions_folder()
    recent = Recent(folder.parent / "recent")
    session = Session(recent=recent)
    recovery = Recovery(session.exploration, folder, session, recent=recent)
    log = open_log(folder.parent)
    kept = None if log is None else Path(log.name)
    window = MainWindow(
        session, theme, batch_size=batch_size, recovery=recovery, recent=recent, log=kept, settings=settings
    )
    if log is not None:
        keep_log(log, window.notice.say, session.logged)
    return window


def _begin(window: MainWindow, file: str | None) -> None:
    from PySide6.QtCore import QTimer

    if file is not None:
        QTimer.singleShot(0, lambda: window.open(file))
        return
    QTimer.singleShot(50, window.prepare)
    QTimer.singleShot(100, window.session.solver.start)
    QTimer.singleShot(150, lambda: window.restore(by_itself=True))


def require_openable(file: str) -> None:
    """Check that ``file`` can be opened, before a window opens.

    Raises:
        LoadError: ``file`` is no file, no sample, no bundled graph and no application.
    """
    bundled = find_sample(file) is not None or find_graph(file) is not None
    named = bundled or file.startswith("keras.applications.") or ".py:" in file
    if not named and not Path(file).is_file() and not is_record(Path(file)):
        samples = ", ".join([*(sample.name for sample in SAMPLES), *map(graph_name, graph_files())])
        raise LoadError(
            f"there is no file or sample {file!r}", hint=f"samples: {samples}; or keras.applications.NAME"
        )


def _require_drawable(file: str, *, allow_code: bool) -> None:
    if is_record(Path(file)):
        raise UsageError(
            f"{file} is a log or a profile, and a picture is of a graph",
            hint=f"read it in the terminal: checkmate explain {file}",
        )
    if ".py:" in file:
        require_code(file, allow_code=allow_code)


def _choose_when_open(window: MainWindow, budget: Budget) -> None:
    from PySide6.QtCore import QTimer

    def choose() -> None:
        window.explorer.budget.take(budget)

    window.session.exploration.graph_changed.connect(lambda: QTimer.singleShot(0, choose))


def _solve(window: MainWindow, file: str | None, budget: Budget) -> None:
    """Wait until the solve has ended. Raise an error where nothing was opened."""
    from PySide6.QtCore import QEventLoop, QTimer

    loop = QEventLoop()
    problem: list[tuple[str, str]] = []
    session = window.session

    def give_up(sentence: str, hint: str = "") -> None:
        problem.append((sentence, hint))
        loop.quit()

    session.failed.connect(give_up)
    session.settled.connect(loop.quit)
    _choose_when_open(window, budget)
    if file is None:
        QTimer.singleShot(400, loop.quit)
    QTimer.singleShot(_PATIENCE_MS, lambda: give_up("the solve took too long"))
    loop.exec()
    # After a failure before any solve there is nothing to show, or only estimates that nobody asked for.
    if problem and session.exploration.solve is None:
        raise WindowUnavailableError(problem[0][0], hint=problem[0][1])


def _draw(window: MainWindow, path: Path) -> None:
    from PySide6.QtCore import QEventLoop, QTimer

    loop = QEventLoop()
    QTimer.singleShot(300, loop.quit)
    loop.exec()
    window.explorer.turns.finish()
    if not window.grab().save(str(path)):
        raise WindowUnavailableError(f"cannot write {path}", hint="name a .png file in a folder that exists")


def _go_to(window: MainWindow, at: int | None) -> None:
    window.session.exploration.show_now()
    shown = window.session.exploration.shown
    if shown is not None:
        window.playhead.seek(shown.timeline.peak_step if at is None else at)
