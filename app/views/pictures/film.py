from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QPoint, QRect, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QImage, QPainter, QPen
from PySide6.QtWidgets import QProgressDialog, QWidget

from app.models.cursors import Playhead, Selection
from app.models.exploration import Exploration
from app.models.session import Session
from app.presenters.paper import MOST_FRAMES, Film, film
from app.presenters.wording import short_name
from app.theme import CurrentTheme, Theme, ThemeChoice
from app.views.common.painting import ink
from app.views.common.view_models import ViewModels
from app.views.common.widgets import ask_target
from app.views.graph.graph_view import GraphView
from app.views.timeline.curve_view import CurveView
from app.views.timeline.matrix_view import MatrixView
from app.workers.client import SILENT_S
from app.workers.process import WorkerProcess
from checkmate.errors import CheckmateError
from checkmate.formats.animation import require_animation
from checkmate.formats.files import require_writable
from checkmate.ir import Phase
from checkmate.processes.messages import JobFailed, Message
from checkmate.units import format_bytes
from checkmate.workers.window_messages import AnimationSaved, BeginAnimation, FrameTaken, Picture

SIZE = QSize(960, 600)
_MARGIN, _GAP, _HEAD = 16, 12, 48
_PANEL_PAD = 10

_Text = tuple[str, QColor, bool]  # text, colour, bold


class PlaybackScene:
    """The window's views of one fixed schedule, never shown. They have a playhead of their own."""

    def __init__(self, exploration: Exploration, theme: Theme, size: QSize = SIZE) -> None:
        self._exploration, self.theme, self.size = exploration.frozen_copy(), theme, size
        self._playhead = Playhead()
        assert self._exploration.shown is not None
        self.found = self._exploration.shown
        always = CurrentTheme(ThemeChoice(theme.name))
        models = ViewModels.of(self._exploration, self._playhead, Selection(), always)
        self._curve = curve = CurveView(models)
        views: tuple[QWidget, ...] = (GraphView(models, None), MatrixView("R", models), curve)
        self._places = list(zip(views, _places(size), strict=True))
        self._host = QWidget()  # never shown; deleting it deletes its children
        self._host.resize(size)
        for view, place in self._places:
            view.setParent(self._host)
            view.resize(place.adjusted(_PANEL_PAD, _PANEL_PAD, -_PANEL_PAD, -_PANEL_PAD).size())
        self._exploration.graph_changed.emit()
        self._exploration.shown_changed.emit()
        self._playhead.set_count(len(self.found.schedule.steps))
        self.image = QImage(size, QImage.Format.Format_RGB888)
        # The curve does not change: it is drawn once, with a line over it in each picture.
        curve.show_cursor(False)
        self._still: QImage | None = None

    def close(self) -> None:
        self._host.deleteLater()

    def draw(self, step: int) -> Iterator[None]:
        self._playhead.seek(step, force=True)
        self.image.fill(self.theme.color("window"))
        self._paint(lambda painter: self._head(painter, step))
        yield
        for view, place in self._places[:-1]:
            self._paint(partial(self._panel, view=view, place=place))
            yield
        self._paint(lambda painter: self._curve_at(painter, step))
        yield

    def _paint(self, draw: Callable[[QPainter], None]) -> None:
        painter = QPainter(self.image)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        try:
            draw(painter)
        finally:
            painter.end()

    def _panel(self, painter: QPainter, view: QWidget, place: QRect) -> None:
        ink(painter, self.theme.color("border"), self.theme.color("panel"))
        painter.drawRoundedRect(QRectF(place).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        # Else a plot would fill its lines with the brush that is left set.
        painter.setBrush(Qt.BrushStyle.NoBrush)
        corner = place.topLeft() + QPoint(_PANEL_PAD, _PANEL_PAD)
        QWidget.render(view, painter, corner, renderFlags=QWidget.RenderFlag.DrawChildren)

    def _curve_at(self, painter: QPainter, step: int) -> None:
        view, place = self._places[-1]
        if self._still is None:
            self._panel(painter, view, place)
            self._still = self.image.copy(place)
        painter.drawImage(place.topLeft(), self._still)
        line = self._curve.cursor_line(step).translated(place.topLeft() + QPoint(_PANEL_PAD, _PANEL_PAD))
        for role, width in (("playhead_case", 5), ("playhead", 3)):
            painter.setPen(QPen(self.theme.color(role), width, c=Qt.PenCapStyle.FlatCap))
            painter.drawLine(line)

    def _head(self, painter: QPainter, step: int) -> None:
        found, theme = self.found, self.theme
        op = found.graph.ops[int(found.schedule.steps[step])]
        late = op.phase in (Phase.BACKWARD, Phase.UPDATE)
        again = not bool(found.schedule.first_occurrence[step])
        doing, role = ("backward", "backward") if late else ("forward", "forward")
        doing, role = (f"{doing}, again", "recomputed") if again else (doing, role)
        count, live = len(found.schedule.steps), format_bytes(int(found.timeline.live_bytes[step]))
        half = (self.size.width() - 2 * _MARGIN) // 2
        left, right = QRect(_MARGIN, 10, half, 20), QRect(_MARGIN + half, 10, half, 20)
        below = QPoint(0, 20)
        peak, extra = format_bytes(found.peak_bytes), 100 * found.overhead
        facts = f"peak {peak} · +{extra:.1f} % computation · {found.solver}"
        name = short_name(op.group or op.name, 34)
        self._line(painter, left, [(found.graph.name, theme.color("text"), True)], right=False)
        self._line(painter, left.translated(below), [(facts, theme.color("muted"), False)], right=False)
        running = [(f"{doing}  ", theme.color(role), True), (name, theme.color("text"), False)]
        self._line(painter, right, running, right=True)
        where = f"step {step + 1} of {count}  ·  "
        numbers = [(where, theme.color("muted"), False), (f"{live} in memory", theme.color("text"), True)]
        self._line(painter, right.translated(below), numbers, right=True)

    def _line(self, painter: QPainter, place: QRect, parts: list[_Text], *, right: bool) -> None:
        fonts = [self._font(bold) for _, _, bold in parts]
        texts = zip(fonts, parts, strict=True)
        widths = [QFontMetrics(font).horizontalAdvance(text) for font, (text, _, _) in texts]
        x = place.right() - sum(widths) if right else place.left()
        for font, width, (text, color, _) in zip(fonts, widths, parts, strict=True):
            painter.setFont(font)
            painter.setPen(color)
            painter.drawText(
                QRect(x, place.top(), width + 4, place.height()), Qt.AlignmentFlag.AlignVCenter, text
            )
            x += width

    def _font(self, bold: bool) -> QFont:
        font = QFont(self._places[0][0].font())
        font.setPixelSize(14)
        font.setBold(bold)
        font.setFeature(QFont.Tag("tnum"), 1)  # changing figures must not move the text beside them
        return font


def _places(size: QSize) -> tuple[QRect, QRect, QRect]:
    width, room = size.width() - 2 * _MARGIN, size.height() - _HEAD - _GAP - _MARGIN - 6
    above = round(room * 0.54)
    below = room - above
    matrix = min(below - 16, width // 2)
    top = _HEAD + 6
    under = top + above + _GAP
    return (
        QRect(_MARGIN, top, width, above),
        QRect(_MARGIN, under, matrix, below),
        QRect(_MARGIN + matrix + _GAP, under, width - matrix - _GAP, below),
    )


_AHEAD = 2  # frames that wait to be sent: they take the window's memory, those in the process do not
_PAUSE_MS = 4  # between two parts of a frame, for everything else


class PlaybackFilm(QObject):
    """Makes one animated picture at a time. Signals: ``progressed(frames drawn, frames in all)``;
    ``ended(sentence, hint)``: it was saved or cancelled, or it failed if ``problem`` says so."""

    progressed = Signal(int, int)
    ended = Signal(str, str)

    def __init__(self, exploration: Exploration, theme: CurrentTheme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._exploration, self._theme = exploration, theme
        self._scene: PlaybackScene | None = None
        self._process: WorkerProcess | None = None
        self._parts: Iterator[None] = iter(())
        self._film = Film((), (), 1)
        self._path = Path()
        self._before: tuple[int, int] | None = None  # the file that was at the path
        self._drawn = self._taken = 0
        self.problem = False
        self._turn = QTimer(self, interval=_PAUSE_MS)
        self._turn.timeout.connect(self._on_turn)

    @property
    def busy(self) -> bool:
        return self._scene is not None

    def start(self, path: Path, size: QSize = SIZE, most: int = MOST_FRAMES) -> None:
        """Make the picture of the schedule on screen, whatever is shown later."""
        shown = self._exploration.shown
        self.problem = True  # a problem until the end shows that there is none
        if self.busy:
            self.ended.emit(
                "The previous animated picture is still being made.", "Wait for it, or cancel it."
            )
            return
        if shown is None:
            self.ended.emit("There is nothing to play yet.", "Open a model or a graph first.")
            return
        try:
            require_animation(path)
            require_writable(path)
        except CheckmateError as error:
            self.ended.emit(str(error), error.hint)
            return
        self._path, self._film = path, film(shown.matrices, shown.timeline.peak_step, most)
        self._drawn = self._taken = 0
        self._scene = PlaybackScene(self._exploration, self._theme.now, size)
        self._before = _stamp(path)
        self._process = WorkerProcess("animation", "checkmate.workers.animation", self, at_death="")
        self._process.received.connect(self._on_received)
        self._process.died.connect(self._on_died)
        self._process.expect(SILENT_S)
        self._parts = self._work(self._scene, self._process)
        self._turn.start()

    def cancel(self) -> None:
        if self.busy:
            self.problem = False
            self._end("The animated picture was cancelled; nothing was written.", "")

    def _work(self, scene: PlaybackScene, process: WorkerProcess) -> Iterator[None]:
        steps = self._film.steps
        samples = (steps[len(steps) // 3], steps[2 * len(steps) // 3], steps[-1])
        process.send(self._begin(scene, len(samples)))
        for number, step in enumerate(samples):
            yield from scene.draw(step)
            process.send(Picture(number, _pixels(scene.image)))
        for step in steps:
            while self._drawn - self._taken >= _AHEAD:
                yield
            yield from scene.draw(step)
            process.send(Picture(len(samples) + self._drawn, _pixels(scene.image)))
            self._drawn += 1
            self.progressed.emit(self._drawn, len(steps))

    def _begin(self, scene: PlaybackScene, samples: int) -> BeginAnimation:
        size, theme = scene.size, scene.theme
        colors = [theme.color(role) for role in theme.tokens]
        return BeginAnimation(
            path=self._path.absolute(),
            width=size.width(),
            height=size.height(),
            milliseconds=tuple(self._film.milliseconds),
            colors=tuple((color.red(), color.green(), color.blue()) for color in colors),
            samples=samples,
        )

    def _on_turn(self) -> None:
        try:
            next(self._parts)
        except StopIteration:
            self._turn.stop()  # the process says how it ended

    def _on_received(self, message: Message) -> None:
        match message:
            case FrameTaken(frames=frames):
                self._taken = frames
                if self._process is not None:
                    self._process.expect(SILENT_S)
            case AnimationSaved(size_bytes=size):
                self.problem = False
                frames, every = len(self._film.steps), self._film.every
                stages = "every stage" if every == 1 else f"one stage in {every}"
                self._end(f"Saved {self._path}: {frames} frames, {stages}, {format_bytes(size)}.", "")
            case JobFailed(message=sentence, hint=hint):
                self._end(sentence, hint)

    def _on_died(self, sentence: str) -> None:
        written = _stamp(self._path) not in (None, self._before)
        which = f"{self._path} was written before that." if written else "Nothing was written."
        self._end(f"{sentence.strip()} {which}", "")

    def _end(self, sentence: str, hint: str) -> None:
        self._turn.stop()
        self._parts = iter(())
        process, scene = self._process, self._scene
        self._process = self._scene = None
        if process is not None:
            process.close()
            process.deleteLater()
        if scene is not None:
            scene.close()
            self.ended.emit(sentence, hint)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _pixels(image: QImage) -> bytes:
    width, height, line = image.width() * 3, image.height(), image.bytesPerLine()
    data = bytes(image.constBits())
    return data if line == width else b"".join(data[row * line : row * line + width] for row in range(height))


class FilmProgress(QObject):
    """A small dialog while the picture is made; Cancel or Esc ends it. The window can be used meanwhile."""

    def __init__(self, session: Session, theme: CurrentTheme, parent: QWidget) -> None:
        super().__init__(parent)
        self._session, self._parent = session, parent
        self.film = PlaybackFilm(session.exploration, theme, self)
        self.film.progressed.connect(self._on_progress)
        self.film.ended.connect(self._on_ended)
        self.dialog: QProgressDialog | None = None

    def ask(self) -> None:
        graph = self._session.exploration.graph
        if graph is None:
            self._session.failed.emit("There is nothing to play yet.", "Open a model or a graph first.")
            return
        kinds = "Animated pictures (*.gif *.png *.webp)"
        title = "Save the playback as an animated picture"
        if path := ask_target(self._parent.window(), title, f"{graph.name}.gif", kinds):
            self.save(path)

    def save(self, path: Path) -> None:
        if not self.film.busy:
            self.dialog = QProgressDialog(f"Drawing {path.name}", "Cancel", 0, 100, self._parent.window())
            self.dialog.setWindowTitle("Animated picture")
            self.dialog.setAccessibleName("Progress of the animated picture")
            self.dialog.setWindowModality(Qt.WindowModality.NonModal)
            self.dialog.setAutoClose(False)
            self.dialog.setAutoReset(False)
            self.dialog.setMinimumDuration(500)
            self.dialog.canceled.connect(self.film.cancel)
        self.film.start(path)

    def close(self) -> None:
        self.film.cancel()

    def _on_progress(self, drawn: int, frames: int) -> None:
        if self.dialog is not None:
            self.dialog.setMaximum(frames + 1)  # the last one: putting the frames together
            self.dialog.setValue(drawn)
            self.dialog.setLabelText(
                f"Frame {drawn} of {frames}" if drawn < frames else "Putting the frames together"
            )

    def _on_ended(self, sentence: str, hint: str) -> None:
        if self.dialog is not None and not self.film.busy:
            self.dialog.canceled.disconnect()
            self.dialog.close()
            self.dialog.deleteLater()
            self.dialog = None
        if self.film.problem:
            self._session.failed.emit(sentence, hint)
        else:
            self._session.noticed.emit(sentence)
