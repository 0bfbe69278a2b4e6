"""The window: command bar, and views or start page below it.

The views are those of the open graph. The start page is shown while none is open.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QSettings, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QMainWindow,
    QMessageBox,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.actions import action
from app.models.clients.batch_scale import BatchScale
from app.models.clients.input_scale import InputScale
from app.models.clients.memory_lines import LineChoice
from app.models.cursors import Playhead, Selection
from app.models.opening.recent import Explored, Recent
from app.models.opening.recovery import Recovery
from app.models.session import Session
from app.models.undo import UndoCommands
from app.presenters.export_result import problem_report
from app.presenters.solve_text import why_no_export
from app.presenters.wording import (
    batch_text,
    doubts,
    origin_text,
    playhead_text,
    remeasuring_hint,
    target_hint,
    target_text,
)
from app.theme import CurrentTheme
from app.views.common.widgets import ButtonKeys, command_button, label
from app.views.dialogs.doctor_dialog import DoctorDialog
from app.views.dialogs.export_dialog import ExportDialog
from app.views.dialogs.model_dialog import ModelDialog
from app.views.window.menus import add_commands
from app.views.window.notice_bars import MeasuringBar, NoticeBar
from app.views.window.openers import RECORD_FILTER, Batches, Comparing, RecordFiles
from app.views.window.palette import Palette, commands, content, copy_commands
from app.views.window.preferences import Preferences, keep_placed, place
from app.views.window.savers import Certifying
from app.views.window.start_page import StartPage
from app.views.window.tour import Tour
from checkmate.catalog.samples import SAMPLES
from checkmate.errors import CheckmateError
from checkmate.graphs.by_name import graph_path
from checkmate.machine.desktop_entry import data_folder, install_entry
from checkmate.records.read import is_record
from checkmate.request import ModelRequest

if TYPE_CHECKING:
    from app.views.window.explorer import Explorer
    from app.views.window.panel_area import PanelArea
    from checkmate.ir.graph import Graph


_ROOMY = 1300  # pixels; a narrower window has no space for all the words
_SEARCH, _SEARCH_KEY = "Search layers, schedules, commands", action("view.search").key


class MainWindow(QMainWindow):
    """One exploration in a window.

    Views observe the session's models; this class only puts them together and forwards commands. Its size and
    where its panels are is kept in ``settings``, if there are any.

    Signals: ``panels_changed``: a panel was closed, opened or moved.
    """

    panels_changed = Signal()

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
        self.recovery, self._settings = recovery, settings
        self.session, self.theme, self._batch_size = session, theme, batch_size
        self.line_choice, self.batch_scale = LineChoice(self), BatchScale(session, self)
        self.input_scale = InputScale(session, self)
        self.preferences = Preferences(settings, theme, session, self.line_choice, self)
        self.playhead, self.selection = Playhead(self), Selection(self)
        self.what_ifs = UndoCommands(session, self.selection, self)
        self.setWindowTitle("Checkmate Explorer")
        self.setMinimumSize(1000, 640)
        self.setAcceptDrops(True)
        ButtonKeys(self)
        self._stack = QStackedWidget()
        self._recent = recent
        self._start = StartPage(theme, self.recent_entries())
        self._stack.addWidget(self._start)
        self._explorer: Explorer | None = None
        self._trusted: set[str] = set()
        self._opened: tuple[str, int] = "", 0
        central = QWidget()
        central.setObjectName("central")
        column = QVBoxLayout(central)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._command_bar())
        self.notice = NoticeBar(
            lambda sentence, hint: problem_report(sentence, hint, session.exploration.graph, log), theme
        )
        self.measuring = MeasuringBar(session)
        column.addWidget(self.measuring)
        column.addWidget(self.notice)
        column.addWidget(self._stack, 1)
        self.setCentralWidget(central)
        self.records = RecordFiles(self, settings)
        self.comparing, self.batches = Comparing(self), Batches(self)
        self.certifying = Certifying(self)
        self.tour = Tour(self)
        self.commands = add_commands(self)
        self._connect()
        self._saved = label("", muted=True)
        self.statusBar().addPermanentWidget(self._saved)
        self._said = "Ready. Nothing leaves this machine."  # then of the playhead
        self.statusBar().messageChanged.connect(self._on_message)
        self.statusBar().showMessage(self._said)

    def recent_entries(self) -> list[Explored]:
        """Return what was explored lately, newest first."""
        return [] if self._recent is None else self._recent.entries()

    def open(self, what: str) -> None:
        """Open a graph file, a log or a profile, or profile a model.

        A model may be a file, a sample or an application.
        """
        self.prepare()
        if is_record(Path(what)):
            self.records.open(Path(what))
            return
        path = graph_path(what)
        if path.is_file() and (path.suffix in (".json", ".gz")):
            self.notice.hide()
            self.session.open_file(path)
            return
        runs_code = ".py:" in what
        if runs_code and not self._allows_code(what):
            return
        request = ModelRequest(what, allow_code=runs_code)
        self._profile(request if self._batch_size is None else request.at_batch(self._batch_size))

    def profile_again(self, request: ModelRequest) -> None:
        """Profile a model anew, after asking whether its code may run."""
        if not request.allow_code or self._allows_code(request.model):
            self._profile(request)

    def _profile(self, request: ModelRequest) -> None:
        """Profile a model anew; if that fails, the present exploration comes back."""
        self.notice.hide()
        self._stack.setCurrentWidget(self._start)
        self._start.show_work(request.model)
        self.session.profile(request)

    def trust(self, what: str) -> None:
        """Run the code of ``what`` without asking."""
        self._trusted.add(what)

    def _allows_code(self, what: str) -> bool:
        """Ask once for each file whose code would run."""
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

    def _command_bar(self) -> QWidget:
        bar = QWidget()
        bar.setObjectName("bar")
        bar.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        row = QHBoxLayout(bar)
        row.setContentsMargins(14, 7, 12, 7)
        row.setSpacing(14)
        self._name = label("Checkmate Explorer", name="title")
        self._facts = label("", muted=True)
        self._export = command_button("file.export", self.ask_export)
        self._export.setObjectName("primary")
        self._export.setEnabled(False)
        self._export.setToolTip(why_no_export(None))
        opener = command_button("file.open", self.ask_open)
        row.addWidget(self._name)
        row.addWidget(self._facts)
        self.omnibox = command_button("view.search", self.open_palette, f"{_SEARCH}   {_SEARCH_KEY}")
        self.omnibox.setObjectName("omnibox")
        self.omnibox.setAccessibleName(_SEARCH)
        # From the keyboard, the shortcut opens the search.
        self.omnibox.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        row.addStretch(1)
        row.addWidget(self.omnibox)
        row.addStretch(1)
        row.addWidget(opener)
        row.addWidget(self._export)
        return bar

    def open_palette(self) -> Palette:
        """Open the search for everything."""
        entries = list(commands(self.commands))
        if self._explorer is not None and self.session.exploration.graph is not None:
            entries += copy_commands(self._explorer.saver)
        if self._explorer is not None:
            shown = self._explorer.shown_edits.show
            entries += content(self.session.exploration, self.selection, shown, self._explorer.go_to)
        palette = Palette(entries, self.theme, self)
        palette.open()
        return palette

    def resizeEvent(self, event: QResizeEvent) -> None:
        roomy = self.width() >= _ROOMY
        self.omnibox.setText(f"{_SEARCH if roomy else 'Search'}   {_SEARCH_KEY}")
        super().resizeEvent(event)

    def prepare(self) -> None:
        """Build the explorer's views, after the first paint.

        Importing the plots alone takes as long as importing all the rest.
        """
        if self._explorer is not None:
            return
        from app.views.window.explorer import Explorer

        self._explorer = Explorer(
            self.session,
            self.playhead,
            self.selection,
            self.what_ifs,
            self.theme,
            self.line_choice,
            self.batch_scale,
            self.input_scale,
        )
        self._explorer.batch.largest_wanted.connect(self.batches.open)
        self._explorer.batch.profile_wanted.connect(self.batches.profile_at)
        self._explorer.input_size.profile_wanted.connect(self.batches.profile_this)
        self._stack.addWidget(self._explorer)
        area = self._explorer.area
        area.changed.connect(self.panels_changed)
        if self._settings is not None:
            area.restore(self._settings)

    def place(self, wanted: QSize, *, anew: bool = False) -> None:
        """Take the size and the place that the window had last.

        If there are none, or ``anew``, take the size ``wanted``.
        """
        place(self, wanted, None if anew else self._settings, fits=not anew)

    @property
    def panel_area(self) -> PanelArea | None:
        """Return where the panels are, if they have been made."""
        return None if self._explorer is None else self._explorer.area

    @property
    def explorer(self) -> Explorer:
        """Return the views of an open graph."""
        self.prepare()
        assert self._explorer is not None
        return self._explorer

    def _connect(self) -> None:
        session, exploration = self.session, self.session.exploration
        exploration.graph_changed.connect(self._on_graph)
        exploration.passing_changed.connect(self._allow_export)
        exploration.standing_changed.connect(self._allow_export)
        exploration.shown_changed.connect(self._on_shown)
        self.playhead.told.connect(self._on_step)
        session.progressed.connect(self._start.work.show_progress)
        session.failed.connect(self._on_failed)
        session.outdated.connect(self._on_outdated)
        session.step_changed.connect(self._on_step_changed)
        exploration.budget_changed.connect(self.notice.hide_failure)
        session.noticed.connect(lambda text: self.statusBar().showMessage(text, 20000))
        session.device_ended.connect(self._on_device_ended)
        if self.recovery is not None:
            self.recovery.saved.connect(lambda at: self._saved.setText(f"Saved {at}"))
            self.recovery.failed.connect(
                lambda text: self._on_failed(text, f"Save it somewhere else ({action('file.save').key}).")
            )
        self._start.open_wanted.connect(self.ask_open)
        self._start.options_wanted.connect(self.ask_profile)
        self._start.back_wanted.connect(self.show_explorer)
        self._start.tour_wanted.connect(self.tour.start)
        self._start.wanted.connect(self.open)
        self._start.cancel_wanted.connect(session.cancel_device)

    def _choosing_size(self) -> bool:
        rows = (self.explorer.batch, self.explorer.input_size)
        return any(row.isAncestorOf(self.focusWidget()) for row in rows)

    def _on_graph(self) -> None:
        graph = self.session.exploration.graph
        if graph is None:
            return
        if (graph.name, graph.n) != self._opened:  # not the same model, now with measured costs
            self._opened = graph.name, graph.n
            self.playhead.play(False)
            self.playhead.seek(0)
        self.show_explorer()
        self._start.show_start()
        self.notice.hide()
        if not self._choosing_size():  # there, the hand may go on
            self.explorer.budget.setFocus()
        batch = f"{batch_text(graph)} · " if graph.batch_size else ""
        device = f" · {graph.device.name}" if graph.device is not None and graph.device.kind != "none" else ""
        self._name.setText(graph.name)
        target = f" · {words}" if (words := target_text(graph)) else ""
        self._facts.setText(f"{batch}{graph.n} ops · {origin_text(graph)}{device}{target}")
        self._offer_remeasuring(graph)
        self.batches.say_scaled(graph)
        self._allow_export()
        self.setWindowTitle(f"{graph.name} – Checkmate Explorer")
        self.selection.select(-1)

    def _offer_remeasuring(self, graph: Graph) -> None:
        """Say why the costs may be wrong, if so, and offer to measure them again.

        They may come from a busy machine, or from another one.
        """
        words = doubts(graph)
        self._facts.setToolTip(" ".join(text for text in (target_hint(graph), words) if text))
        if words and "request" in graph.metadata:
            told = graph.metadata["request"]

            def again() -> None:
                self.profile_again(ModelRequest.from_json(told))

            hint = remeasuring_hint(graph)
            self.notice.say(words, hint, ("Profile again", again))

    def _allow_export(self) -> None:
        why = why_no_export(self.session.exploration.standing, passing=self.session.exploration.passing)
        self._export.setEnabled(not why)
        self._export.setToolTip(why or action("file.export").tip_with_key)

    @property
    def export_button(self) -> QWidget:
        return self._export

    def show_explorer(self) -> None:
        """Show the explorer, once its views are drawn.

        Taking in a graph and painting it in one turn would hold up the window.
        """
        if self._stack.currentWidget() is not self.explorer:
            self._stack.setCurrentWidget(self.explorer)
            self.explorer.turns.turn_page(self._stack)

    def _on_shown(self) -> None:
        shown = self.session.exploration.shown
        if shown is not None:
            self.playhead.set_count(len(shown.schedule.steps))

    def _on_step(self, step: int) -> None:
        shown = self.session.exploration.shown
        if shown is not None and step < len(shown.schedule.steps):
            op = int(shown.schedule.steps[step])
            live, peak = int(shown.timeline.live_bytes[step]), shown.timeline.peak_bytes
            self._said = playhead_text(shown.graph, op, step, len(shown.schedule.steps), live, peak)
            self.statusBar().showMessage(self._said)

    def _on_message(self, text: str) -> None:
        """Say where the playhead is when nothing else is said any more.

        A menu that the pointer passes over clears the status bar; so does time.
        """
        self.statusBar().setToolTip(text)  # whole, however narrow the window is
        if not text and self._said:
            self.statusBar().showMessage(self._said)

    def _on_failed(self, sentence: str, hint: str) -> None:
        if self.session.exploration.graph is None and not self.session.device_busy:
            self._start.show_problem(sentence, hint)
        else:
            self.notice.say(sentence, hint)

    def _on_outdated(self, path: Path) -> None:
        self._offer_profile(
            f"{path.name} has changed since it was profiled.", "The window shows the file as it was before."
        )

    def _on_step_changed(self, sentence: str) -> None:
        self._offer_profile(sentence, "Profile it on this machine again to solve and export it.")

    def _offer_profile(self, sentence: str, hint: str) -> None:
        graph = self.session.exploration.graph
        if graph is None or "request" not in graph.metadata:
            return
        request = ModelRequest.from_json(graph.metadata["request"])
        self.notice.say(sentence, hint, ("Profile again", lambda: self.profile_again(request)))

    def _on_device_ended(self) -> None:
        """Show again what was explored before."""
        self._start.show_start()
        if self.session.exploration.graph is not None:
            self.show_explorer()

    def install_desktop_entry(self) -> None:
        """Write the desktop entry, and say where it is."""
        try:
            written = install_entry(data_folder())
        except CheckmateError as error:
            self.notice.say(str(error), error.hint)
            return
        self.statusBar().showMessage(
            f"Wrote {written[-1]}. To remove it, run checkmate desktop --remove.", 20000
        )

    def ask_open(self) -> None:
        """Ask for a model, a graph, a log or a profile, and open it."""
        name, _ = QFileDialog.getOpenFileName(
            self,
            "Open a model or a graph",
            "",
            f"Models and graphs (*.keras *.h5 *.json *.json.gz);;{RECORD_FILTER};;All files (*)",
        )
        if name:
            self.open(name)

    def ask_profile(self) -> ModelDialog:
        """Ask which model to profile and how.

        At first it is asked for as the graph on screen was, or as the sample is.
        """
        graph = self.session.exploration.graph
        told = None if graph is None else graph.metadata.get("request")
        sample = SAMPLES[0]
        first = (
            ModelRequest(sample.name, batch_size=sample.batch_size)
            if told is None
            else ModelRequest.from_json(told)
        )
        dialog = ModelDialog(first, self)
        dialog.asked.connect(self._profile_as_asked)
        dialog.open()
        return dialog

    def _profile_as_asked(self, request: ModelRequest) -> None:
        runs_code = ".py:" in request.model
        if not runs_code or self._allows_code(request.model):
            self._profile(replace(request, allow_code=runs_code))

    def show_start(self) -> None:
        """Show the start page; what is open stays open."""
        if self.session.device_busy and self._stack.currentWidget() is self._start:
            return
        graph = self.session.exploration.graph
        if graph is not None:
            self.playhead.play(False)
            self._start.offer_back(graph.name)
        self.tour.leave()
        self._start.show_recent(self.recent_entries())
        self._start.show_start()
        self._stack.setCurrentWidget(self._start)

    def show_doctor(self) -> DoctorDialog:
        """Open the dialog that says what this machine can do, and what is missing."""
        dialog = DoctorDialog(self.theme, lambda: self.session.device_busy, self)
        dialog.show()
        return dialog

    def restore(self, *, by_itself: bool = False) -> bool:
        """Restore what a window that did not close has left, if there is any. Return whether there was."""
        orphans = [] if self.recovery is None else self.recovery.orphans()
        orphan = next((entry for entry in orphans if entry.restores_itself or not by_itself), None)
        if self.recovery is None or orphan is None:
            if not by_itself:
                self.statusBar().showMessage(
                    "There is nothing to restore: every window was closed normally.", 10000
                )
            return False
        self.recovery.adopt(orphan)
        assert self.recovery.path is not None
        self.prepare()
        self.session.open_file(self.recovery.path, at_once=True)
        graph = self.session.exploration.graph
        if graph is not None:
            self.statusBar().showMessage(
                f"Restored {graph.name} as it was at {orphan.words}. Its window did not close normally."
            )
        return graph is not None

    def ask_export(self) -> None:
        """Ask what to export and where, if the graph comes from a model."""
        if self._export.isEnabled():
            ExportDialog(self.session, self).open()
        else:
            self.statusBar().showMessage(f"Not exported. {self._export.toolTip()}", 10000)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        self.open(event.mimeData().urls()[0].toLocalFile())

    def closeEvent(self, event: QCloseEvent) -> None:
        self.playhead.play(False)
        if self._settings is not None:
            keep_placed(self, self._settings)
        if self._explorer is not None:
            self._explorer.inspector.hotspot.close()
            self._explorer.placing.close()
            self._explorer.film.close()
        self.records.close()
        self.comparing.close()
        self.batches.close()
        self.batch_scale.close()
        self.input_scale.close()
        self.certifying.close()
        self.session.close()
        if self.recovery is not None:
            self.recovery.close()
        super().closeEvent(event)
