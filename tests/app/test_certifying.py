from __future__ import annotations

import pytest

from checkmate.formats.schedule import read_certificate, write_certificate
from checkmate.planning import certify, check_certificate
from checkmate.solvers.constraints import Constraints
from checkmate.units import format_overhead
from checkmate.workers.window_messages import CertificateWritten
from tests.app.windows import open_chain

pytestmark = pytest.mark.heavy


def test_a_certificate_is_saved_and_holds(window, qtbot, tmp_path, chain_open) -> None:
    shown, path, told = window.session.exploration.shown, tmp_path / "c.json", []
    window.session.noticed.connect(told.append)
    window.certifying.begin(shown, path)
    assert window.certifying.progress is not None
    qtbot.waitUntil(lambda: any("certificate" in text or "Saved" in text for text in told), timeout=120000)
    cost = check_certificate(shown.graph, read_certificate(path, shown.graph))
    assert cost is not None and cost <= shown.cost * (1 + 1e-9)
    assert str(path) in told[-1] and "no schedule within" in told[-1]
    assert window.certifying.progress is None


def test_what_is_cancelled_writes_nothing(window, qtbot, tmp_path, chain_open) -> None:
    path = tmp_path / "c.json"
    window.certifying.begin(window.session.exploration.shown, path)
    window.certifying.progress.canceled.emit()  # as its button does
    assert window.certifying.progress is None and "nothing was written" in window.statusBar().currentMessage()
    assert not path.exists()


def test_what_ifs_and_an_empty_window_are_refused(window, qtbot) -> None:
    window.certifying.ask()
    assert "nothing to certify" in window.statusBar().currentMessage()
    open_chain(window, qtbot)
    window.session.exploration.set_constraints(Constraints(keep=("a0",)))
    window.certifying.ask()
    assert "what-ifs" in window.statusBar().currentMessage()


def test_a_false_certificate_is_refused_whatever_its_process_says(window, qtbot, tmp_path) -> None:
    open_chain(window, qtbot)
    shown, path, certifying = window.session.exploration.shown, tmp_path / "c.json", window.certifying
    made = certify(shown.graph, shown.peak_bytes, known_cost=shown.cost, seconds=30.0)
    assert made is not None and made.cost is not None
    said, told = [], []
    window.session.failed.connect(lambda sentence, hint: said.append((sentence, hint)))
    window.session.noticed.connect(told.append)
    for lie in ({"cost": 2 * made.cost}, {"budget_bytes": 10 * shown.peak_bytes}, {"proof": []}, None, {}):
        said.clear()
        certifying.begin(shown, path)
        certifying.certifier.client.process.stop()  # what it would say comes from here
        path.unlink(missing_ok=True)
        if lie is not None:
            write_certificate(path, {**made.data, **lie})
        client = certifying.certifier.client
        client._on_received(CertificateWritten(client.job))
        qtbot.waitUntil(lambda: certifying.progress is None, timeout=60000)
        if lie != {}:
            assert len(said) == 1 and str(path) in said[0][1] and not told
    assert not said and format_overhead(made.cost, shown.graph.base_cost) in told[-1]
