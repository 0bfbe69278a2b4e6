"""Measure how quick a first start is.

``python -m tests.benchmarks.cold_start [--share 0.6] [-o FILE.json] [GRAPH …]``

It starts a solver process with an empty cache folder of its own, as the window does, and moves the slider at
once. Then it does the same again, warm, and tries wrong command lines. Seconds by the clock depend on what
else the machine does, so the load and the processor time stand beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from checkmate.formats.graph import graph_to_json, read_graph
from checkmate.ipc.messages import Message
from checkmate.ir.graph import Graph
from checkmate.ir.schedule import Schedule
from checkmate.memory.simulate import simulate
from checkmate.solvers.constraints import Constraints
from checkmate.workers.messages.solver import (
    Incumbent,
    OpenQuestion,
    Prepared,
    Preparing,
    SolveBudget,
    SolveEnded,
)
from checkmate.workers.messages.table import WINDOW_MESSAGES

SAMPLE = Path(__file__).parents[2] / "resources" / "graphs" / "unet-b8.json.gz"
_SOLVE_S = 3.0
_WRONG = (
    ("run", "nofile.keras", "--budget", "60%", "-o", "out"),
    ("run", "unet", "--budget", "60q", "-o", "out"),
    ("profile", "keras.applications.ResNet51", "-o", "g.json"),
    ("verify", "nofile.keras", "s.json", "-g", "g.json"),
    ("export", "nofile.keras", "s.json", "-g", "g.json", "-o", "out"),
    ("max-batch", "nofile.keras", "--budget", "1GiB"),
    ("explore", "nofile.keras"),
)


def start(graph: Graph, share: float, caches: Path) -> dict[str, Any]:
    """Return the seconds from the slider's move to each answer.

    The process is started when the slider moves.
    """
    plain = simulate(graph, Schedule.plain(graph)).peak_bytes
    begun = time.perf_counter()
    worker = subprocess.Popen(
        [sys.executable, "-m", "checkmate.workers.solver"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, "XDG_CACHE_HOME": str(caches)},
    )
    assert worker.stdin is not None
    body = json.dumps(graph_to_json(graph)).encode()
    for asked in (
        OpenQuestion(1, graph.name, 2, Constraints(), body),
        SolveBudget(1, int(share * plain), _SOLVE_S),
    ):
        worker.stdin.write(WINDOW_MESSAGES.encode(asked))
    found: dict[str, Any] = {"ops": graph.n, "schedules": []}
    for message in _messages(worker):
        now = time.perf_counter() - begun
        match message:
            case Incumbent(cost=cost):
                found["schedules"].append([round(now, 2), round(100 * (cost / graph.base_cost - 1), 2)])
            case Preparing(sentence=sentence):
                found["last preparing"] = [round(now, 2), sentence]
            case Prepared(sentence=sentence):
                found["last prepared"] = [round(now, 2), sentence]
            case SolveEnded():
                found["done"] = [round(now, 2), message.status.value, message.statistics.get("moves")]
                break
    worker.stdin.close()
    _, _, used = os.wait4(worker.pid, 0)
    return {**found, "processor seconds": round(used.ru_utime + used.ru_stime, 1), "load": os.getloadavg()[0]}


def wrong(arguments: Sequence[str], folder: Path) -> dict[str, Any]:
    """Return the seconds until a wrong command line is answered."""
    begun = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "checkmate.cli.main", *arguments], cwd=folder, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(child.pid, 0)
    return {
        "seconds": round(time.perf_counter() - begun, 2),
        "processor seconds": round(used.ru_utime + used.ru_stime, 2),
        "exit code": os.waitstatus_to_exitcode(status),
    }


def _messages(worker: subprocess.Popen[bytes]) -> Iterator[Message]:
    reader = WINDOW_MESSAGES.reader()
    assert worker.stdout is not None
    while data := worker.stdout.read(2**16):
        yield from reader.feed(data)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graphs", nargs="*", type=Path, default=[SAMPLE])
    parser.add_argument("--share", type=float, default=0.6, help="of keep-everything, where the slider goes")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {"cores": os.cpu_count(), "load before": os.getloadavg()}
    with tempfile.TemporaryDirectory() as folder:
        for number, path in enumerate(options.graphs):
            graph = read_graph(path)
            for which in ("cold", "warm"):
                found[f"{path.name}, {which}"] = start(graph, options.share, Path(folder) / str(number))
        for arguments in _WRONG:
            found[" ".join(arguments)] = wrong(arguments, Path(folder))
    print(json.dumps(found, indent=1))
    if options.output is not None:
        options.output.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
