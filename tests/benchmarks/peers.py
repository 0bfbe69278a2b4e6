"""Train models under Keras's and TensorFlow's own ways to save memory, and within as much by our schedules.

``python -m tests.benchmarks peers [MODEL …] [-o FILE.json]``

Models are those of ``tests/zoo``. Peaks are measured in fresh processes; times in turns, in one process;
gradients and state after one step from the same start as the plain one, with Eigen's kernels. The file is a
record as ``docs/results/records`` has them.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.backends.tf.environment import EXACT
from checkmate.errors import CancelledError, CheckmateError
from checkmate.formats.files import write_json
from checkmate.machine.processor import processor_name
from checkmate.machine.supported import versions
from checkmate.request import ModelRequest
from checkmate.solvers.problem import SolveOptions
from checkmate.units import format_bytes
from tests.benchmarks.children import ask
from tests.benchmarks.peer_methods import PEERS, PLAIN
from tests.zoo.names import ZOO, zoo_request

COLUMNS = ("model", "method", "peak MiB", "of plain %", "step s", "overhead %", "gradients", "state", "")
_NO_EFFECT = 0.99  # of the plain peak: above it nothing was saved
_SAME_PEAK = 1.1  # peers this close have one row of ours between them, at the least of their peaks
# Relative errors that another order of float32 sums can cause: of all gradients together, and of a small one
# alone. One large gradient can hide all others.
_ROUNDING, _ROUNDING_OF_ONE = 1e-4, 1e-2

Row = dict[str, Any]


def measure(model: str, options: SolveOptions) -> list[Row]:
    """Return rows for the plain step, each peer, and ours within each peer's peak."""
    request = zoo_request(model)
    rows: list[Row] = []
    layers: list[str] = []
    for method in (PLAIN, *PEERS):
        answer = ask("measure_peer", request=request.to_json(), method=method.name, layers=layers)
        layers = answer.get("layers") or layers
        rows.append({"name": method.name, "method": method.label, **answer})
        print(model, rows[-1], flush=True)
    if "peak_bytes" not in rows[0]:
        return rows
    ran = [row for row in rows if "peak_bytes" in row]
    ours = [_within(request, peak, options) for peak in targets(ran)]
    print(*ours, sep="\n", flush=True)
    _add_times(request, ran, [row for row in ours if "steps" in row], layers)
    names = [row["name"] for row in ran[1:]]
    compared = ask(
        "compare_peers", EXACT, request=request.to_json(), methods=names, layers=layers, exact=True
    )
    for row in ran[1:]:
        row["compared"] = compared.get(row["name"])
    return [*rows, *ours]


def targets(rows: Sequence[Row]) -> list[int]:
    """Return the peaks in bytes that peers reached, rising; those less than 10 % apart as the least of them.

    The first of ``rows`` is the plain step's.
    """
    found: list[int] = []
    for peak in sorted(row["peak_bytes"] for row in rows[1:]):
        saved = peak < _NO_EFFECT * rows[0]["peak_bytes"]
        if saved and (not found or peak > _SAME_PEAK * found[-1]):
            found.append(peak)
    return found


def _within(request: ModelRequest, peak: int, options: SolveOptions) -> Row:
    row: Row = {"method": f"ours within {format_bytes(peak)}"}
    with tempfile.TemporaryDirectory() as folder:
        try:
            outcome = planning.run(request, peak, Path(folder, "out"), options=options)
        except CancelledError:
            raise
        except CheckmateError as error:
            return {**row, "failed": f"{type(error).__name__}: {error}"}
    report = outcome.report
    return {
        **row,
        "peak_bytes": report.peak_bytes["measured"],
        "steps": outcome.result.require_schedule().steps.tolist(),
        "own": "bitwise" if report.gradients["bitwise"] else "equal" if report.ok else "DIFFER",
    }


def _add_times(request: ModelRequest, peers: Sequence[Row], ours: Sequence[Row], layers: list[str]) -> None:
    names, schedules = [row["name"] for row in peers], [row["steps"] for row in ours]
    answer = ask(
        "time_in_turns", request=request.to_json(), methods=names, schedules=schedules, layers=layers
    )
    if "failed" in answer:
        print(f"not timed: {answer['failed']}")
        return
    timed = [(row, answer["methods"].get(row["name"])) for row in peers]
    timed += list(zip(ours, answer["schedules"], strict=True))
    for row, seconds in timed:
        if seconds:  # whatever else the machine does only adds time: the least of each is compared
            row["seconds"] = min(seconds)


def cells(model: str, row: Row, plain: Row) -> list[str]:
    peak, seconds = row.get("peak_bytes"), row.get("seconds")
    saved = "steps" in row or peak is None or peak < _NO_EFFECT * plain["peak_bytes"]
    return [
        f"{model} b{ZOO[model]}",
        row["method"],
        "–" if peak is None else f"{peak / 2**20:.1f}",
        "–" if peak is None else f"{100 * peak / plain['peak_bytes']:.1f}",
        "–" if seconds is None else f"{seconds:.3f}",
        "–" if seconds is None else f"{100 * (seconds / plain['seconds'] - 1):+.1f}",
        row.get("own") or gradients(row.get("compared")),
        state(row.get("compared")),
        "failed" if "failed" in row else "" if row is plain else "ok" if saved else "no effect",
    ]


def gradients(compared: Mapping[str, Any] | None) -> str:
    """Return in words whether the gradients are the plain step's."""
    if not compared or "failed" in compared:
        return "–"
    if compared["bitwise"]:
        return "bitwise"
    near = compared["relative_error"] <= _ROUNDING and compared["worst"] <= _ROUNDING_OF_ONE
    return f"{'differ' if near else 'WRONG'} {100 * compared['worst']:.2g} %"


def state(compared: Mapping[str, Any] | None) -> str:
    """Return in words whether statistics, seeds and counters are the plain step's."""
    if not compared or "failed" in compared:
        return "–"
    found = compared["state"]
    words = (("twice", "TWICE"), ("differs", "DIFFER"))
    wrong = [f"{found[what]} of {found['count']} {word}" for what, word in words if found[what]]
    return ", ".join(wrong) or ("right" if found["count"] else "none")


def main() -> None:
    """Measure the models that are named, and write after each; all of the zoo by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(ZOO))
    parser.add_argument("--time-limit", type=float, default=8.0, help="seconds for each solve")
    parser.add_argument("-o", "--output", type=Path)
    chosen = parser.parse_args()
    libraries = {"Python": platform.python_version(), **versions(["tensorflow", "keras"])}
    record: dict[str, Any] = {
        "format": "checkmate-record",
        "version": 1,
        "command": "python -m tests.benchmarks peers",
        "copied_from": "nothing: the command wrote it",
        "date": f"{datetime.now(UTC):%B %Y}",
        "machine": f"{os.cpu_count()} cores of {processor_name()}",
        "versions": ", ".join(f"{name} {version}" for name, version in libraries.items()),
        "load": f"{os.getloadavg()[0]:.1f}",
        "columns": COLUMNS,
        "notes": [],
        "rows": [],
    }
    for model in chosen.models:
        rows = measure(model, SolveOptions(time_limit_s=chosen.time_limit))
        record["rows"] += [cells(model, row, rows[0]) for row in rows]
        if chosen.output:
            write_json(chosen.output, record)
    print(*(" | ".join(row) for row in record["rows"]), sep="\n")


if __name__ == "__main__":
    main()
