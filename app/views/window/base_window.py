from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QSettings, QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMainWindow, QMessageBox, QStackedWidget, QWidget

from app.models.cursors import Playhead, Selection
from app.models.placements import LineChoice
from app.models.recovery import Explored, Recent, Recovery
from app.models.scales import BatchScale, InputScale
from app.models.session import Session
from app.models.undo import UndoCommands
from app.presenters.commands import profiled_from
from app.presenters.export_result import problem_report
from app.theme import CurrentTheme
from app.views.common.widgets import NO_EDGES, ButtonKeys, in_column
from app.views.dialogs.model_dialog import ModelDialog
from app.views.window.notice_bars import MeasuringBar, NoticeBar
from app.views.window.preferences import Preferences
from app.views.window.start_page import StartPage
from checkmate.catalog.samples import SAMPLES
from checkmate.graphs.by_name import graph_path
from checkmate.hlo.read import is_dump
from checkmate.request import ModelRequest

if TYPE_CHECKING:
    from app.views.window.explorer import Explorer
    from app.views.window.panel_area import PanelArea

_SHARE = 0.9  # of a small screen, for a window that is no longer maximized
_LISTED = 6  # of the explorations that are kept
SAID_MS = 10_000  # how long the status bar says something


class BaseWindow(QMainWindow):
    """One exploration in a window. Views observe the session's models. Size and place, and where its panels
    are, is kept in ``settings``, if there are any. Signals: ``panels_changed``: a panel was closed, opened or
    moved; ``prepared``: there is an explorer."""

    panels_changed = Signal()
    prepared = Signal()

    def __init__(
        self,
        session: Session,
        theme: CurrentTheme,
        *,
        batch_size: int | None = None,
        recovery: Recovery | None = None,
        recent: Recent | None = None,
        log: Path | None = None,
        settings: QSettings | None = None,
    ) -> None:
        super().__init__()
        self._settings, self._recent, self._log = settings, recent, log
        self.session, self.theme, self._batch_size = session, theme, batch_size
        self.recovery = recovery  # restores what a window that did not close has left
        self.line_choice, self.batch_scale = LineChoice(self), BatchScale(session, self)
        self.input_scale = InputScale(session, self)
        self.preferences = Preferences(settings, theme, session, self.line_choice, self)
        self.playhead, self.selection = Playhead(self), Selection(self)
        self.what_ifs = UndoCommands(session, self.selection, self)
        self.setWindowTitle("Checkmate Explorer")
        self.setMinimumSize(1000, 640)
        self.setAcceptDrops(True)
        ButtonKeys(self)
        self._stack, self._start = QStackedWidget(), StartPage(theme, self.recent_entries())
        self._stack.addWidget(self._start)
        self._explorer: Explorer | None = None
        self._trusted: set[str] = set()
        self.notice = NoticeBar(theme)
        self.notice.report_wanted.connect(self._copy_report)
        self.measuring = MeasuringBar(session)
        central = QWidget()
        central.setObjectName("central")
        self._column = in_column(self.measuring, self.notice, (self._stack, 1), gap=0, edges=NO_EDGES)
        central.setLayout(self._column)
        self.setCentralWidget(central)
        self._begin()

    def _begin(self) -> None:
        raise NotImplementedError

    def _copy_report(self, sentence: str, hint: str) -> None:
        text = problem_report(sentence, hint, self.session.exploration.graph, self._log)
        QGuiApplication.clipboard().setText(text)

    def recent_entries(self) -> list[Explored]:
        return [] if self._recent is None else self._recent.entries()[:_LISTED]

    def say(self, sentence: str, milliseconds: int = SAID_MS) -> None:
        self.statusBar().showMessage(sentence, milliseconds)

    def open(self, what: str) -> None:
        self.prepare()
        path = graph_path(what)
        if path.is_file() and (path.suffix in (".json", ".gz") or is_dump(path, of_module=True)):
            self.notice.hide()
            self.session.open_file(path)
            return
        request = ModelRequest(what)
        self._profile_as_asked(request if self._batch_size is None else request.at_batch(self._batch_size))

    def profile_again(self, request: ModelRequest | None) -> None:
        if request is not None and (not request.allow_code or self._allows_code(request.model)):
            self._profile(request)

    def _profile(self, request: ModelRequest) -> None:
        self.notice.hide()
        self._stack.setCurrentWidget(self._start)
        self._start.show_work(request.model)
        self.session.profile(request)

    def trust(self, what: str) -> None:
        self._trusted.add(what)

    def _allows_code(self, what: str) -> bool:
        if what not in self._trusted:
            answer = QMessageBox.question(
                self,
                "Run this file's code?",
                f"Opening {what} runs the Python code in that file, in a process of its own.",
            )
            if answer != QMessageBox.StandardButton.Yes:
                return False
            self.trust(what)
        return True

    def ask_profile(self) -> ModelDialog:
        """Begin with how the graph on screen was profiled, or with the first sample."""
        sample = ModelRequest(SAMPLES[0].name, batch_size=SAMPLES[0].batch_size)
        dialog = ModelDialog(self.request or sample, self)
        dialog.asked.connect(self._profile_as_asked)
        dialog.open()
        return dialog

    @property
    def request(self) -> ModelRequest | None:
        graph = self.session.exploration.graph
        return None if graph is None else profiled_from(graph)

    def _profile_as_asked(self, request: ModelRequest) -> None:
        runs_code = ".py:" in request.model
        if not runs_code or self._allows_code(request.model):
            self._profile(replace(request, allow_code=runs_code))

    def offer_profile(self, sentence: str, hint: str) -> None:
        request = self.request
        if request is not None:
            self.notice.say(sentence, hint, ("Profile again", lambda: self.profile_again(request)))

    def prepare(self) -> None:
        """Build the explorer's views, after the first paint: importing the plots takes long."""
        if self._explorer is not None:
            return
        from app.views.window.explorer import Explorer

        self._explorer = Explorer(self)
        self._stack.addWidget(self._explorer)
        self._explorer.area.changed.connect(self.panels_changed)
        if self._settings is not None:
            self._explorer.area.restore(self._settings)
        self.prepared.emit()

    def place(self, wanted: QSize, *, anew: bool = False) -> None:
        """Restore the last window's size and place; with ``anew``, or if there is none, take ``wanted``."""
        kept = None if anew or self._settings is None else self._settings.value("window/geometry")
        if isinstance(kept, QByteArray) and self.restoreGeometry(kept):
            return
        room = self.screen().availableGeometry()
        self.resize(wanted)
        if not anew and (room.width() <= wanted.width() or room.height() <= wanted.height()):
            self.resize(wanted.boundedTo(room.size() * _SHARE))
            self.setWindowState(Qt.WindowState.WindowMaximized)

    def _keep_place(self) -> None:
        if self._settings is not None:
            self._settings.setValue("window/geometry", self.saveGeometry())
            if self._explorer is not None:
                self._explorer.area.keep(self._settings)

    @property
    def panel_area(self) -> PanelArea | None:
        return None if self._explorer is None else self._explorer.area

    @property
    def explorer(self) -> Explorer:
        self.prepare()
        assert self._explorer is not None
        return self._explorer

    def show_explorer(self) -> None:
        # Opening a graph and painting it in one turn of the event loop would freeze the window.
        if self._stack.currentWidget() is not self.explorer:
            self._stack.setCurrentWidget(self.explorer)
            self.explorer.turns.turn_page(self._stack)
