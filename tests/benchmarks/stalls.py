"""Measure whether the window is held up by background work.

``python -m tests.benchmarks.stalls [--ops 1000 10000] [--blame] [-o FILE.json]``

It is measured while TensorFlow is imported and a model is profiled in the device process, while graphs of
several sizes are opened, and while a solver runs and the slider moves. Stalls by the clock depend on what
else the machine does; own work does not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.models.clients import solver_client
from app.views.window.main_window import MainWindow
from checkmate.formats import write_graph
from checkmate.graphs.generate import training_dag
from checkmate.request import ModelRequest
from tests.benchmarks.long_use import wait
from tests.benchmarks.probe import Blame, StallProbe
from tests.benchmarks.windows import begun, open_file, print_found, shown_window

_MOVES, _EVERY_S = 40, 0.1


def measure(ops: list[int], model: str | None, *, blame: bool = False) -> dict[str, Any]:
    """Return the stalls in milliseconds, by what went on."""
    window = shown_window()
    probe, found = StallProbe(window), {}

    def during(what: str, work: Callable[[], None]) -> None:
        wait(lambda: False, 0.3)
        probe.start()
        with Blame(probe, on=blame) as blamed:
            work()
        found[what] = {**probe.stop(), **({"blame": blamed.worst()} if blame else {})}

    during("idle", lambda: wait(lambda: False, 2.0))
    with tempfile.TemporaryDirectory() as folder:
        for count in ops:
            graph = training_dag(3, count // 2)
            path = Path(folder) / f"{count}.json"
            write_graph(path, graph)
            during(f"opening {graph.n} ops", lambda p=path: open_file(window, p))
            for where, most in (("elsewhere", solver_client._AT_ONCE), ("in the window", 2**40)):
                usual, solver_client._AT_ONCE = solver_client._AT_ONCE, most
                what = f"solving {graph.n} ops, slider moving, schedules checked {where}"
                known = len(window.session.exploration.known)
                during(what, lambda: _slide(window))
                found[what]["schedules"] = len(window.session.exploration.known) - known
                solver_client._AT_ONCE = usual
            during(f"playing {graph.n} ops", lambda: _play(window))
    if model is not None:
        during(f"TensorFlow imported, {model} profiled", lambda: _profile(window, model))
    window.close()
    return found


def _slide(window: MainWindow) -> None:
    peak = window.session.exploration.plain.peak_bytes
    for move in range(_MOVES):
        window.explorer.budget.choose(int(peak * (0.95 - 0.4 * move / _MOVES)))
        wait(lambda: False, _EVERY_S)
    window.session.solve(4.0)
    wait(lambda: not window.session.exploration.solve.running, 30.0)


def _play(window: MainWindow) -> None:
    window.playhead.seek(0)
    window.playhead.play(True)
    wait(lambda: not window.playhead.playing, 3.0)
    window.playhead.play(False)


def _profile(window: MainWindow, model: str) -> None:
    before = window.session.exploration.graph
    window.session.profile(ModelRequest(model, batch_size=4), costs="analytic")
    assert wait(lambda: window.session.exploration.graph is not before, 300.0)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--model", default="zoo.unet_small")
    parser.add_argument("--no-model", dest="model", action="store_const", const=None)
    parser.add_argument(
        "--blame", action="store_true", help="say what the window was doing in its longest stalls"
    )
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    found = begun("stalls", "stalls")
    found["rows"] = measure(options.ops, options.model, blame=options.blame)
    print_found(found, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
