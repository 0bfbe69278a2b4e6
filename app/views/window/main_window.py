from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from app.actions import PANELS, action
from app.models.recovery import sessions_folder
from app.presenters import wording
from app.presenters.commands import as_commands, as_python
from app.presenters.solve_text import why_no_export
from app.state.constraint_targets import ConstraintKind
from app.state.solve import LONGER_SECONDS
from app.theme import ThemeChoice
from app.views.common.widgets import ask_source, command_button, in_row, label
from app.views.dialogs.doctor_dialog import DoctorDialog
from app.views.dialogs.export_dialog import ExportDialog
from app.views.dialogs.settings_dialog import KeysDialog, SettingsDialog
from app.views.window import savers
from app.views.window.base_window import BaseWindow
from app.views.window.menus import Handler, Palette, add_commands, commands, content, copy_commands
from app.views.window.openers import RECORD_FILTER, Batches, Comparing, RecordFiles
from app.views.window.panel_area import PRESETS
from app.views.window.tour import Tour
from app.workers.background import on
from checkmate.errors import CheckmateError
from checkmate.ir import Graph
from checkmate.machine.cost_store import default_path
from checkmate.machine.desktop_entry import data_folder, install_entry
from checkmate.records.read import is_record

_ROOMY = 1300  # pixels; a narrower window has no space for all the words
_NOTICED_MS = 20_000
_NAME, _READY = "Checkmate Explorer", "Ready. Nothing leaves this machine."
_SEARCH, _SEARCH_KEY = "Search layers, schedules, commands", action("view.search").key
_OPENED = f"Models and graphs (*.keras *.h5 *.json *.json.gz);;{RECORD_FILTER};;All files (*)"


class MainWindow(BaseWindow):
    def _begin(self) -> None:
        self._column.insertWidget(0, self._command_bar())
        self.records = RecordFiles(self, self._settings)
        self.comparing, self.batches = Comparing(self), Batches(self)
        self.certifying = savers.Certifying(self)
        self.tour = Tour(self, self._export)
        self.commands = add_commands(self, self.handlers(), self.records.recent)
        self._connect()
        self._saved = label("", muted=True)
        self.statusBar().addPermanentWidget(self._saved)
        self._said = _READY  # then of the playhead
        self.statusBar().messageChanged.connect(self._on_message)
        self.statusBar().showMessage(self._said)

    def handlers(self) -> dict[str, Handler]:
        # The explorer is read only when an action runs, because its views are built after the first paint.
        return self._work_handlers() | self._view_handlers()

    def _work_handlers(self) -> dict[str, Handler]:
        session, playhead, what_ifs = self.session, self.playhead, self.what_ifs
        listing = session.exploration.listing
        return {
            "file.open": self.ask_open,
            "file.profile": self.ask_profile,
            "file.explain": self.records.ask,
            "file.compare": self.comparing.ask,
            "file.start": self.show_start,
            "file.save": partial(savers.ask_save, self),
            "file.save_schedule": partial(savers.ask_save_schedule, self),
            "file.certify": self.certifying.ask,
            "file.export": self.ask_export,
            "file.picture": partial(savers.ask_picture, self),
            "file.figure": lambda: self.explorer.open_figure(),
            "file.report": partial(savers.ask_report, self),
            "file.copy_command": partial(savers.copy_text, self, as_commands),
            "file.copy_python": partial(savers.copy_text, self, as_python),
            "file.restore": self.restore,
            "file.settings": self._show_settings,
            "file.quit": self.close,
            "edit.undo": what_ifs.stack.undo,
            "edit.redo": what_ifs.stack.redo,
            "edit.keep": lambda: what_ifs.switch(ConstraintKind.KEEP),
            "edit.forbid": lambda: what_ifs.switch(ConstraintKind.ONCE),
            "edit.clear": what_ifs.clear,
            "edit.none": self._select_nothing,
            "schedule.pin": lambda: self.explorer.schedules.pin(),
            "schedule.rename": lambda: self.explorer.schedules.rename(),
            "schedule.note": lambda: self.explorer.schedules.write_note(),
            "schedule.remove": lambda: self.explorer.schedules.remove(),
            "solve.budget": lambda: session.solve(),
            "solve.stop": session.stop_solve,
            "solve.longer": lambda: session.solve(LONGER_SECONDS),
            "solve.least_at_cost": lambda: self.explorer.budget.aims.ask_within(),
            "solve.least": lambda: self.explorer.budget.aim_at_least(),
            "solve.cards": lambda: self.explorer.open_cards(),
            "solve.batch": self.batches.open,
            "solve.gradients": what_ifs.toggle_gradients,
            "solve.fill": lambda: listing.fill(not listing.fill_wanted),
            "playback.play": playhead.toggle,
            "playback.next": playhead.next_step,
            "playback.previous": playhead.previous_step,
            "playback.peak": lambda: self.explorer.transport.go_to_peak(),
            "playback.first": playhead.first_step,
            "playback.last": playhead.last_step,
        }

    def _view_handlers(self) -> dict[str, Handler]:
        return {
            "view.search": self.open_palette,
            "view.fit": lambda: self.explorer.graph_view.fit(),
            "view.blocks": lambda: self.explorer.graph_view.toggle_blocks(),
            "view.filter": self._focus_filter,
            "view.whole_step": lambda: self.explorer.span.show_whole(),
            "view.zoom_range": lambda: self.explorer.span.show_chosen(),
            "view.range_table": lambda: self.explorer.open_range(),
            "view.clear_range": lambda: self.explorer.span.choose(None),
            "view.step_axis": lambda: self.explorer.span.toggle_axis(),
            "view.bands": lambda: self.explorer.span.next_grouping(),
            "view.allocator": lambda: self.explorer.span.toggle_addresses(),
            "view.lines": lambda: self.explorer.offer_lines(),
            "view.compare": lambda: self.explorer.shown_edits.toggle(),
            "view.compare_shown": lambda: self.explorer.shown_edits.compare_shown(),
            **{f"view.panel_{name}": partial(self._toggle_panel, name) for name in map(str.lower, PANELS)},
            **{f"view.preset_{name}": partial(self._choose_preset, name) for name in PRESETS},
            "view.panels_reset": lambda: self.explorer.area.reset(),
            **{f"view.theme_{one.value}": partial(self.theme.choose, one) for one in ThemeChoice},
            "view.focus_graph": lambda: self.explorer.graph_view.setFocus(),
            "view.focus_budget": self._focus_budget,
            "view.zoom_in": lambda: self.explorer.graph_view.zoom_in(),
            "view.zoom_out": lambda: self.explorer.graph_view.zoom_out(),
            "view.zoom_reset": lambda: self.explorer.graph_view.zoom_reset(),
            "help.tour": self.tour.start,
            "help.keys": lambda: KeysDialog(self).show(),
            "help.doctor": self.show_doctor,
            "help.desktop": self.install_desktop_entry,
        }

    def _select_nothing(self) -> None:
        """Leave the tour, else share the room of an enlarged panel, else deselect the steps, else the op,
        else stop the solve.
        """
        if self.tour.leave():
            return
        if self._explorer is not None and self._explorer.area.enlarged:
            self._explorer.area.share_room()
            return
        span = None if self.session.exploration.graph is None else self.explorer.span
        if span is not None and span.chosen is not None:
            span.choose(None)
        elif span is not None and self.selection.op >= 0:
            self.selection.select(-1)
        else:
            self.session.stop_solve()

    def _show_settings(self) -> None:
        kept = sessions_folder().parent
        folders = {"Explorations, settings, log": kept, "Caches": default_path().parents[1]}
        dialog = SettingsDialog(self.preferences, folders, self)
        dialog.reset.clicked.connect(lambda: self.explorer.area.reset())
        dialog.open()

    def _choose_preset(self, name: str) -> None:
        self.explorer.area.choose(name)
        budget = self.explorer.budget
        (budget if budget.isVisible() else self.explorer.graph_view).setFocus()

    def _toggle_panel(self, name: str) -> None:
        self.explorer.area.toggle(name)

    def _focus_budget(self) -> None:
        self.explorer.area.show_panel("budget")
        self.explorer.budget.setFocus()

    def _focus_filter(self) -> None:
        self.explorer.area.show_panel("layers")
        self.explorer.layers.focus_filter()

    def open(self, what: str) -> None:
        self.prepare()
        if is_record(Path(what)):
            self.records.open(Path(what))
        else:
            super().open(what)

    def _command_bar(self) -> QWidget:
        bar = QWidget()
        bar.setObjectName("bar")
        bar.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._name = label(_NAME, name="title")
        self._facts = label("", muted=True)
        self._export = command_button("file.export", self.ask_export)
        self._export.setObjectName("primary")
        self._export.setEnabled(False)
        self._export.setToolTip(why_no_export(None))
        self.omnibox = command_button("view.search", self.open_palette, f"{_SEARCH}   {_SEARCH_KEY}")
        self.omnibox.setObjectName("omnibox")
        self.omnibox.setAccessibleName(_SEARCH)
        # From the keyboard, the shortcut opens the search.
        self.omnibox.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        opener = command_button("file.open", self.ask_open)
        parts = self._name, self._facts, None, self.omnibox, None, opener, self._export
        bar.setLayout(in_row(*parts, gap=14, edges=(14, 7, 12, 7)))
        return bar

    def open_palette(self) -> Palette:
        entries, views = list(commands(self.commands)), self._explorer
        if views is not None:
            if self.session.exploration.graph is not None:
                entries += copy_commands(views.saver)
            entries += content(self.session.exploration, self.selection, views.shown_edits.show, views.go_to)
        palette = Palette(entries, self.theme, self)
        palette.open()
        return palette

    def resizeEvent(self, event: QResizeEvent) -> None:
        roomy = self.width() >= _ROOMY
        self.omnibox.setText(f"{_SEARCH if roomy else 'Search'}   {_SEARCH_KEY}")
        super().resizeEvent(event)

    def _connect(self) -> None:
        session, exploration = self.session, self.session.exploration
        self.prepared.connect(self._on_prepared)
        self._stack.currentChanged.connect(self._on_page)
        exploration.leaving.connect(self._on_leaving)
        exploration.graph_changed.connect(self._on_graph)
        exploration.step_changed.connect(self._go_to_step)
        on(self._allow_export, exploration.passing_changed, exploration.standing_changed)
        exploration.shown_changed.connect(self._on_shown)
        on(self._on_step, self.playhead.told, self.playhead.playing_changed)
        session.progressed.connect(self._start.work.phases.show_progress)
        session.failed.connect(self._on_failed)
        session.outdated.connect(self._on_outdated)
        session.step_changed.connect(
            lambda text: self.offer_profile(text, "Profile it on this machine again to solve and export it.")
        )
        exploration.budget_changed.connect(self.notice.hide_failure)
        session.noticed.connect(lambda text: self.say(text, _NOTICED_MS))
        session.device_ended.connect(self._on_device_ended)
        if self.recovery is not None:
            self.recovery.saved.connect(lambda at: self._saved.setText(f"Saved {at}"))
            self.recovery.failed.connect(
                lambda text: self._on_failed(text, f"Save it somewhere else ({action('file.save').key}).")
            )
        start = self._start
        start.own.clicked.connect(self.ask_open)
        start.options.clicked.connect(self.ask_profile)
        start.back.clicked.connect(self.show_explorer)
        start.tour.clicked.connect(self.tour.start)
        start.wanted.connect(self.open)
        start.work.cancel_wanted.connect(session.cancel_device)

    def _on_prepared(self) -> None:
        self.explorer.batch.largest_wanted.connect(self.batches.open)
        self.explorer.batch.profile_wanted.connect(self.batches.profile_at)
        self.explorer.input_size.profile_wanted.connect(lambda: self.profile_again(self.request))

    def _choosing_size(self) -> bool:
        rows = (self.explorer.batch, self.explorer.input_size)
        return any(row.isAncestorOf(self.focusWidget()) for row in rows)

    def _on_leaving(self) -> None:
        if not self.session.exploration.passing:  # else the next graph is the same model with measured costs
            self.playhead.play(False)
            if not self._choosing_size():  # do not scroll away from a slider that is in use
                self.explorer.scroll_to_top()

    def _on_graph(self) -> None:
        graph = self.session.exploration.graph
        if graph is None:
            return
        self.show_explorer()
        self._start.show_start()
        self.notice.hide()
        self._saved.clear()
        if not self._choosing_size():
            self.explorer.budget.setFocus()
        self._on_page()
        if words := wording.doubts(graph):
            self.offer_profile(words, wording.remeasuring_hint(graph))
        self.batches.on_graph(graph)
        self._allow_export()
        self.selection.select(-1)

    @property
    def _on_screen(self) -> Graph | None:
        """The graph of the page: none on the start page, where another is chosen or profiled."""
        return None if self._stack.currentWidget() is self._start else self.session.exploration.graph

    def _on_page(self) -> None:
        graph = self._on_screen
        self._name.setText(_NAME if graph is None else graph.name)
        self.setWindowTitle(_NAME if graph is None else f"{graph.name} – {_NAME}")
        facts, tip = ("", "") if graph is None else wording.facts_of(graph)
        self._facts.setText(facts)
        self._facts.setToolTip(tip)
        self._saved.setVisible(graph is not None)
        self._say_step()

    def _allow_export(self) -> None:
        why = why_no_export(self.session.exploration.standing, passing=self.session.exploration.passing)
        self._export.setEnabled(not why)
        self._export.setToolTip(why or action("file.export").tip_with_key)

    def _on_shown(self) -> None:
        shown = self.session.exploration.shown
        if shown is not None:
            at_peak = self.session.exploration.step is None and not self.playhead.playing
            self.playhead.set_count(len(shown.schedule.steps))
            if at_peak:
                self.playhead.seek(shown.timeline.peak_step)

    def _on_step(self) -> None:
        shown, step = self.session.exploration.shown, self.playhead.step
        if shown is not None and not self.playhead.playing:
            self.session.exploration.put_step(None if step == shown.timeline.peak_step else step)
        self._say_step()

    def _go_to_step(self) -> None:
        step = self.session.exploration.step
        if step is not None and not self.playhead.playing:
            self.playhead.seek(step)

    def _say_step(self) -> None:
        shown, step = self.session.exploration.shown, self.playhead.step
        said, on_screen = _READY, self._on_screen is not None
        if on_screen and shown is not None and step < len(shown.schedule.steps):
            said = wording.playhead_text(shown, step)
        if on_screen or said != self._said:
            self._said = said
            self.statusBar().showMessage(said)

    def _on_message(self, text: str) -> None:
        """Show the playhead's position again where Qt has cleared the status bar."""
        self.statusBar().setToolTip(text)  # whole, however narrow the window is
        if not text and self._said:
            self.statusBar().showMessage(self._said)

    def _on_failed(self, sentence: str, hint: str) -> None:
        if self.session.exploration.graph is None and not self.session.device_busy:
            self._start.show_problem(sentence, hint)
        else:
            self.notice.say(sentence, hint)

    def _on_outdated(self, path: Path) -> None:
        changed = f"{path.name} has changed since it was profiled."
        self.offer_profile(changed, "The window shows the file as it was before.")

    def _on_device_ended(self) -> None:
        self._start.show_start()
        if self.session.exploration.graph is not None:
            self.show_explorer()

    def install_desktop_entry(self) -> None:
        try:
            written = install_entry(data_folder())
        except CheckmateError as error:
            self.notice.say(str(error), error.hint)
            return
        self.say(f"Wrote {written[-1]}. To remove it, run checkmate desktop --remove.", _NOTICED_MS)

    def ask_open(self) -> None:
        if path := ask_source(self, "Open a model or a graph", _OPENED):
            self.open(str(path))

    def show_start(self) -> None:
        if self.session.device_busy and self._stack.currentWidget() is self._start:
            return
        graph = self.session.exploration.graph
        if graph is not None:
            self.playhead.play(False)
            self._start.offer_back(graph.name)
        self.tour.leave()
        self.notice.hide()
        self._start.show_recent(self.recent_entries())
        self._start.show_start()
        self._stack.setCurrentWidget(self._start)

    def show_doctor(self) -> DoctorDialog:
        dialog = DoctorDialog(self.theme, self.session, self)
        dialog.show()
        return dialog

    def restore(self, *, by_itself: bool = False) -> bool:
        orphans = [] if self.recovery is None else self.recovery.orphans()
        orphan = next((entry for entry in orphans if entry.restores_itself or not by_itself), None)
        if self.recovery is None or orphan is None:
            if not by_itself:
                self.say("There is nothing to restore: every window was closed normally.")
            return False
        self.recovery.adopt(orphan)
        assert self.recovery.path is not None
        self.prepare()
        self.session.open_file(self.recovery.path, at_once=True)
        graph = self.session.exploration.graph
        if graph is not None:
            told = f"Restored {graph.name} as it was at {orphan.words}. Its window did not close normally."
            self.statusBar().showMessage(told)
        return graph is not None

    def ask_export(self) -> None:
        if self._export.isEnabled():
            ExportDialog(self.session, self.theme, self).open()
        else:
            self.say(f"Not exported. {self._export.toolTip()}")

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        self.open(event.mimeData().urls()[0].toLocalFile())

    def closeEvent(self, event: QCloseEvent) -> None:
        self.playhead.play(False)
        self._keep_place()
        views = self._explorer
        owners = () if views is None else (views.inspector.hotspot, views.placing)
        openers = self.records, self.comparing, self.batches, self.certifying
        for one in (*owners, *openers, self.batch_scale, self.input_scale, self.session):
            one.close()
        if self.recovery is not None:
            self.recovery.close()
        super().closeEvent(event)
