from __future__ import annotations

import dataclasses
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from app.presenters.commands import OnScreen, as_commands, as_python
from app.state.solve import Aim
from checkmate.cli.main import build_parser
from checkmate.formats import read_any_graph
from checkmate.formats.graph import write_graph
from checkmate.formats.schedule import read_schedule
from checkmate.ir import Graph
from checkmate.request import ModelRequest
from checkmate.solvers.constraints import Constraints
from tests.app.windows import enter_budget, training_chain

ROOT = Path(__file__).resolve().parents[2]
CONTROL, SHIFT = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier


def copied(window, qtbot) -> str:
    QGuiApplication.clipboard().clear()
    qtbot.keyClick(window, Qt.Key.Key_C, CONTROL | SHIFT)
    return QGuiApplication.clipboard().text()


def open_file(window, qtbot, path: Path) -> None:
    window.open(str(path))
    qtbot.waitUntil(lambda: window.session.exploration.what_if.needed_bytes > 0, timeout=60_000)


def run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.heavy
def test_the_command_asks_for_the_budget_and_the_constraints(window, qtbot, tmp_path) -> None:
    file = tmp_path / "a chain.json"
    write_graph(file, training_chain())
    open_file(window, qtbot, file)
    session = window.session
    session.constrain(Constraints(never_recompute=("f3",)))
    enter_budget(window, qtbot, "70%")
    (line,) = copied(window, qtbot).splitlines()
    program, *words = shlex.split(line)
    assert program == "checkmate" and str(file) in words
    run(["-m", "checkmate", *words, "--quiet"], tmp_path)
    made = read_schedule(tmp_path / "chain.schedule.json", read_any_graph(file))
    assert made.budget_bytes == session.exploration.budget_bytes
    assert made.peak_bytes <= made.budget_bytes and made.schedule.steps.tolist().count(3) == 1
    assert "Copied 1 line: checkmate solve" in window.statusBar().currentMessage()


@pytest.mark.heavy
def test_a_graph_in_no_file_is_saved_first(window, qtbot, tmp_path, chain_open) -> None:
    assert copied(window, qtbot) == ""
    assert "save the exploration first" in window.statusBar().currentMessage()
    saved = tmp_path / "chain.exploration.json.gz"
    assert window.session.save(saved)
    enter_budget(window, qtbot, "75%")
    (line,) = copied(window, qtbot).splitlines()
    run(["-m", "checkmate", *shlex.split(line)[1:], "--quiet"], tmp_path)  # it reads the exploration's graph
    assert (tmp_path / "chain.schedule.json").is_file()


def on_screen(graph: Graph, **changed) -> OnScreen:
    return dataclasses.replace(OnScreen(graph, None, 16 * 2**20, None, Constraints(), 2.0), **changed)


def parsed(line: str):
    return build_parser().parse_args(shlex.split(line)[1:])


def test_a_profiled_model_is_profiled_solved_and_exported() -> None:
    request = ModelRequest(
        "my models.py:unet", 8, "mse", "sgd", (64, 64, 3), "mixed_bfloat16", "gpu:1", allow_code=True
    )
    graph = dataclasses.replace(training_chain(), metadata={"request": request.to_json()})
    constraints = Constraints(keep=("a1",), keep_groups=("layer2",), recompute_gradients=False)
    text = as_commands(on_screen(graph, aim=Aim(0.05), constraints=constraints))
    profile, solve, export = map(parsed, text.splitlines())
    asked = ("model", "batch_size", "loss", "optimizer", "input_shape", "mixed_precision", "device")
    assert all(getattr(profile, name) == getattr(request, name) for name in (*asked, "allow_code"))
    assert solve.max_overhead == pytest.approx(0.05) and solve.keep == ["a1", "layer2"]
    assert solve.no_gradient_recompute and Path(solve.graph) == Path(profile.output)
    assert (export.model, Path(export.graph)) == (request.model, Path(profile.output))
    assert Path(export.schedule) == Path(solve.output)


@pytest.mark.parametrize(
    "aim", [None, *(pytest.param(Aim(cost), marks=pytest.mark.heavy) for cost in (0.3, float("inf")))]
)
def test_the_python_finds_a_schedule(tmp_path, aim) -> None:
    file = tmp_path / "it's a chain.json"
    write_graph(file, training_chain())
    shown = on_screen(training_chain(), file=file, aim=aim, constraints=Constraints(keep=("a3",)))
    assert run(["-c", as_python(shown)], tmp_path).startswith("[")


def test_python_for_a_model_makes_its_request() -> None:
    request = ModelRequest("unet", batch_size=8, input_shape=(64, 64, 3))
    graph = dataclasses.replace(training_chain(), metadata={"request": request.to_json()})
    text = as_python(on_screen(graph))
    line = next(line for line in text.splitlines() if line.startswith("request = "))
    assert line == "request = checkmate.ModelRequest(model='unet', batch_size=8, input_shape=(64, 64, 3))"
    assert "graph = checkmate.profile(request)" in text and "checkmate.export(request, graph" in text
    compile(text, "copied", "exec")
