import os
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import pytest

pytest.importorskip("PySide6")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore what Qt says of windows without a screen."""
    ignored = pytest.mark.qt_log_ignore("This plugin does not support", "propagateSizeHints")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(ignored)


@pytest.fixture
def window(qtbot, qapp):
    from PySide6.QtCore import QEvent

    from app.theme import LIGHT, apply_theme, load_fonts
    from tests.app.windows import new_window

    apply_theme(qapp, LIGHT, load_fonts())
    made = new_window(qtbot)
    made.resize(1400, 900)
    made.show()
    made.prepare()
    yield made
    # It is closed by now. A window that Qt has yet to delete is styled along with the next one.
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def exploration(window):
    return window.session.exploration


@pytest.fixture
def chain_open(window, qtbot) -> None:
    from tests.app.windows import open_chain

    open_chain(window, qtbot)


@pytest.fixture
def found(exploration):
    """A smaller schedule of a chain, which is shown; there is no solver process."""
    from tests.app.windows import smaller, training_chain

    exploration.set_graph(training_chain())
    return smaller(exploration)


@pytest.fixture
def explored(window, exploration, found):
    exploration.set_budget(found.peak_bytes)
    return window


@pytest.fixture
def settings(tmp_path):
    from PySide6.QtCore import QSettings

    return QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
