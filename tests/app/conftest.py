"""Make a window for tests, without a screen."""

import os

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest

pytest.importorskip("PySide6")


@pytest.fixture
def window(qtbot, qapp):
    from PySide6.QtCore import QEvent

    from app.models.session import Session
    from app.theme import LIGHT, CurrentTheme, ThemeChoice, apply_theme, load_fonts
    from app.views.window.main_window import MainWindow

    apply_theme(qapp, LIGHT, load_fonts())
    session = Session()
    made = MainWindow(session, CurrentTheme(ThemeChoice.LIGHT))
    qtbot.addWidget(made, before_close_func=lambda w: w.session.close())
    made.resize(1400, 900)
    made.show()
    made.prepare()
    yield made
    # It is closed by now. A window that Qt has yet to delete is styled along with the next one.
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete)
