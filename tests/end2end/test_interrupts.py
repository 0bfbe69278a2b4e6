from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path

import psutil
import pytest

from checkmate import __main__ as command_line
from checkmate.formats import write_graph
from checkmate.terminal import Interrupt
from tests.end2end.test_run import CONVNET, ROOT, SMALL, left_in
from tests.generated_graphs import training_dag

_PATIENCE_S = 60.0  # of a machine with much else to do
_GONE_S = 5.0
STEP = [*SMALL, "--costs", "analytic"]
RUN = ["run", *STEP, "--budget", "90%", "-o", "out"]
EXPORT = ["export", *CONVNET, "s.json", "-g", "g.json", "-o", "out"]
NOTHING = "checkmate: interrupted; nothing was written\n"
KEPT = "checkmate: interrupted; what was found so far is kept\n"


def group(leader: int) -> list[str]:
    """Return the commands of the processes that run in a process group."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except (psutil.Error, ProcessLookupError):
            continue
    return found


def interrupted_at(stage: str, folder: Path, arguments: list[object]) -> tuple[int, str]:
    """Run ``checkmate …`` in ``folder`` until ``stage`` begins; press Ctrl-C.

    Return the exit code, and what it wrote to standard error from the stage on. No process may be left.
    """
    (folder / "tmp").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "checkmate", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if f"] {stage}" in line:
            break
    assert seen and f"] {stage}" in seen[-1], seen
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=_PATIENCE_S)
    until = time.monotonic() + _GONE_S
    while (left := group(process.pid)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left
    return process.returncode, err


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "dag.json"
    write_graph(path, training_dag(2, 60))
    return path


@pytest.mark.parametrize(
    ("arguments", "stage", "said"),
    [
        (["solve", "--budget", "min", "--time-limit", "60", "-o", "s.json"], "solve: ", NOTHING),
        (["frontier", "--budgets", "4", "--time-limit", "60"], "frontier: ", KEPT),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_of_a_search(arguments: list[object], stage: str, said: str, graph: Path, tmp_path: Path) -> None:
    code, err = interrupted_at(stage, tmp_path, [arguments[0], graph, *arguments[1:]])
    assert (code, err.endswith(said)) == (130, True), err
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]
    assert not left_in(tmp_path / "tmp")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the graph of a step and a schedule for it."""
    folder = tmp_path_factory.mktemp("planned")
    for arguments in (
        ["profile", *STEP, "-o", "g.json"],
        ["solve", "g.json", "--budget", "95%", "-o", "s.json"],
    ):
        command = [sys.executable, "-m", "checkmate", *map(str, arguments), "--quiet"]
        subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    return folder


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("arguments", "stage"),
    [
        (RUN, "load: "),
        (RUN, "trace: "),
        ([*RUN, "--costs", "measured", "--refresh"], "measure: building the step"),
        ([*RUN, "--costs", "measured", "--refresh"], "measure: run"),
        (RUN, "measure: measuring the plain step"),
        (RUN, "solve: solving"),
        (RUN, "run: measuring the scheduled step"),
        (RUN, "verify: comparing gradients"),
        (RUN, "export: "),
        (RUN, "reload: measuring the reloaded step"),
        (["profile", *SMALL, "--refresh", "-o", "g.json"], "measure: building the step"),
        (EXPORT, "run: measuring the scheduled step"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_of_a_step(arguments: list[object], stage: str, planned: Path, tmp_path: Path) -> None:
    given = [planned / str(each) if each in ("s.json", "g.json") else each for each in arguments]
    code, err = interrupted_at(stage, tmp_path, arguments if arguments[0] == "profile" else given)
    assert code == 130 and "Traceback" not in err, err
    said = err[err.index(NOTHING) + len(NOTHING) :]
    # Costs are worth keeping, and the command says that it kept them.
    assert not said or re.fullmatch(r"  what \d+ runs? measured is in the cost cache; .*\n", said), err
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]
    assert not left_in(tmp_path / "tmp"), "temporary files are left behind"


def test_before_the_first_stage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Test that a command which is still being imported ends the same way."""

    class Pressed:
        def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
            if name == "checkmate.cli.main":
                raise KeyboardInterrupt
            return None

    monkeypatch.delitem(sys.modules, "checkmate.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Pressed(), *sys.meta_path])
    assert command_line.main() == 130
    assert capsys.readouterr().err == NOTHING


def test_an_error_after_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Test that what a library makes of the interrupt is not told."""
    from checkmate import listing
    from checkmate.cli.main import main

    def turned(what: str) -> list[dict[str, object]]:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        except KeyboardInterrupt:
            raise RuntimeError("the callback failed") from None
        raise AssertionError("the signal was not heard")

    monkeypatch.setattr(listing, "listing", turned)
    assert main(["list", "models"]) == 130
    assert capsys.readouterr().err == NOTHING


def test_pressed_twice() -> None:
    """Test that a second press does not disturb what cleans up."""
    interrupt, cleaned = Interrupt(), []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            cleaned.append(True)

    with interrupt.listening(), pytest.raises(KeyboardInterrupt):
        work()
    assert cleaned
