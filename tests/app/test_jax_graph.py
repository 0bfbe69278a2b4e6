from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.presenters.commands import OnScreen, as_commands, as_python
from app.presenters.export_result import export_card
from app.presenters.wording import why_other_backend
from checkmate.ir import Graph
from checkmate.request import ModelRequest
from checkmate.solvers.constraints import Constraints
from checkmate.units import Budget
from tests.app.windows import training_chain

MODELS = Path(__file__).parents[1] / "jax" / "models.py"
REQUEST = ModelRequest(f"{MODELS}:own_step", batch_size=64, allow_code=True)


@pytest.fixture
def on_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set Keras up for JAX before the window starts its processes."""
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.delitem(sys.modules, "keras", raising=False)  # another test may have imported it


def of_jax() -> Graph:
    return replace(training_chain(4), metadata={"framework": "jax", "request": REQUEST.to_json()})


@pytest.mark.heavy
def test_a_step_of_jax_opens_and_is_exported(on_jax, window, exploration, qtbot, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    session = window.session
    with qtbot.waitSignal(exploration.graph_changed, timeout=240000):
        session.profile(REQUEST, costs="measured")
    qtbot.waitUntil(lambda: not session.device_busy and exploration.standing is not None, timeout=60000)
    graph = exploration.graph
    assert graph is not None and graph.metadata["framework"] == "jax" and graph.batch_size == 64
    assert ModelRequest.from_json(graph.metadata["request"]).model == REQUEST.model
    assert "compiled by XLA" in window._facts.text()
    session.stop_solve()
    exploration.show(exploration.plain)
    qtbot.waitUntil(lambda: exploration.shown is exploration.plain, timeout=5000)
    exploration.set_budget(exploration.plain.peak_bytes)
    qtbot.waitUntil(lambda: window._export.isEnabled(), timeout=60000)
    with qtbot.waitSignal(session.exported, timeout=240000) as told:
        session.export(exploration.shown, tmp_path / "out", Budget(share=1.0))
    (report,) = told.args
    assert report["ok"] and report["settings"]["framework"] == "jax" and report["gradients"]["bitwise"]
    assert (tmp_path / "out" / "step.jax-export").is_file()


def test_a_step_of_another_backend_says_why_it_is_not_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    assert "KERAS_BACKEND=jax" in why_other_backend(of_jax())
    assert not why_other_backend(training_chain(4))
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert not why_other_backend(of_jax())
    assert "KERAS_BACKEND=tensorflow" in why_other_backend(training_chain(4))


def test_commands_and_python_name_the_backend() -> None:
    shown = OnScreen(of_jax(), None, 100, None, Constraints(), 5.0)
    profile, solve, export = as_commands(shown).splitlines()
    assert profile.startswith("KERAS_BACKEND=jax checkmate profile ")
    assert export.startswith("KERAS_BACKEND=jax checkmate export ") and solve.startswith("checkmate solve ")
    text = as_python(shown)
    assert text.index('os.environ["KERAS_BACKEND"] = "jax"') < text.index("import checkmate")


def test_what_was_exported_is_told_by_xla_s_numbers(tmp_path: Path) -> None:
    peaks = {
        "predicted": 2**20,
        "predicted_requested": 2**20,
        "plain_predicted": 2**21,
        "reloaded_predicted": 2**20,
        **dict.fromkeys(("measured", "measured_requested", "plain_measured", "reloaded_measured")),
    }
    seconds = {"predicted": 1.0, "measured": 1.5, "plain_predicted": 0.9, "plain_measured": 1.2}
    gradients = {"compared": "results", "equal": True, "bitwise": True, "steps": 1, "batch_size": 64}
    report = {
        "peak_bytes": peaks,
        "seconds": seconds,
        "gradients": gradients,
        "ok": True,
        "problems": [],
        "budget_bytes": 2**20,
        "batch_size": 64,
        "settings": {"framework": "jax", "target": "xla"},
    }
    (tmp_path / "export.json").write_text('{"donate_argnums": [0]}')
    card = export_card(report, tmp_path)
    assert [(bar.size, bar.how) for bar in card.bars] == [
        (2**21, "predicted by XLA"),
        (2**20, "predicted by XLA"),
    ]
    facts = dict(card.facts)
    assert "bitwise equal to the plain step's after 1 step" in facts["Results"] and "1.2" in facts["A step"]
    read = f"pathlib.Path({str(tmp_path / 'step.jax-export')!r}).read_bytes()"
    assert read in card.lines[1] and "donate_argnums=(0,)" in card.lines[2]
    assert card.lines_do == "load it"  # they train nothing
