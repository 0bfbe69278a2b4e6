"""Compare what ``checkmate run`` predicts with what it measures: models × budgets.

``python -m tests.benchmarks fidelity [MODEL …] [--budgets 75,50,35] [--eigen] [-o FILE.json]``

Models are those of ``tests/zoo``. Steps are timed once more at the end, in turns in one process: the plain
step, the emitted step without recomputation, and all schedules.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from checkmate import planning
from checkmate.backends.tf.environment import EXACT
from checkmate.errors import CancelledError, CheckmateError, InfeasibleError
from checkmate.formats.files import write_json
from checkmate.machine.supported import versions
from checkmate.planning import RunOutcome
from checkmate.request import ModelRequest
from checkmate.solvers.problem import SolveOptions
from tests.benchmarks.children import ask
from tests.benchmarks.measured_on import this_machine
from tests.zoo.names import ZOO, zoo_request

Row = dict[str, Any]


def measure(model: str, shares: Sequence[float], options: SolveOptions) -> list[Row]:
    """Return a row for each share of the plain step's measured peak; a failure is a row with its sentence."""
    request = zoo_request(model)
    rows: list[Row] = []
    schedules: list[list[int]] = []
    for share in shares:
        row: Row = {"model": model, "batch_size": ZOO[model], "budget": share}
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = planning.run(request, f"{100 * share:g}%", Path(folder, "out"), options=options)
            except CancelledError:
                raise
            except CheckmateError as error:
                status = "infeasible" if isinstance(error, InfeasibleError) else "failed"
                rows.append({**row, "status": status, "problem": f"{type(error).__name__}: {error}"})
                continue
        rows.append({**row, **outcome_facts(outcome)})
        schedules.append(outcome.result.require_schedule().steps.tolist())
    if schedules:
        ran = [row for row in rows if "peak_bytes" in row]
        _add_times(request, ran, [list(range(ran[0]["ops"])), *schedules])
    return rows


def outcome_facts(outcome: RunOutcome) -> Row:
    """Return what one run predicted and measured, in bytes and seconds."""
    report, peaks = outcome.report, outcome.report.peak_bytes
    fits = (peaks["measured"] or 0) <= report.budget_bytes
    return {
        "status": "fits" if fits else "over",
        "problem": "; ".join(report.problems),
        "ops": outcome.graph.n,
        "budget_bytes": report.budget_bytes,
        "plain_peak_bytes": peaks["plain_measured"],
        "recomputations": report.recomputations,
        "peak_bytes": dict(peaks),
        "seconds": {"predicted": report.seconds["predicted"]},
        "overhead": {"predicted": outcome.result.overhead},
        "gradients": {key: report.gradients.get(key) for key in ("equal", "bitwise")},
        "kernels": report.settings.get("kernels"),
    }


def _add_times(request: ModelRequest, rows: Sequence[Row], schedules: Sequence[Sequence[int]]) -> None:
    answer = ask("time_in_turns", request=request.to_json(), methods=[], schedules=schedules)
    if "failed" in answer:
        for row in rows:
            row["problem"] = "; ".join(filter(None, (row["problem"], f"not timed: {answer['failed']}")))
        return
    # Whatever else the machine does only adds time: the least of each is compared.
    emitted, *scheduled = map(min, answer["schedules"])
    for row, seconds in zip(rows, scheduled, strict=True):
        row["seconds"]["measured"] = seconds
        row["overhead"]["measured"] = seconds / emitted - 1


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return how many rows ended how, and medians and worst cases of the predictions' errors.

    Peaks: |predicted / measured − 1|. Overheads: the difference, a fraction.
    """
    ran = [row for row in rows if "peak_bytes" in row]
    overheads = [row["overhead"] for row in ran if "measured" in row["overhead"]]
    statuses = [row["status"] for row in rows]
    return {
        "rows": len(rows),
        "within_budget": statuses.count("fits"),
        "over_budget": statuses.count("over"),
        "failed": statuses.count("failed"),
        "without_schedule": statuses.count("infeasible"),
        "allocated": _errors(
            row["peak_bytes"]["predicted"] / row["peak_bytes"]["measured"] - 1 for row in ran
        ),
        "overhead_points": _errors(each["predicted"] - each["measured"] for each in overheads),
        "gradients_equal": sum(bool(row["gradients"]["equal"]) for row in ran),
        "gradients_compared": sum(row["gradients"]["equal"] is not None for row in ran),
    }


def _errors(found: Iterable[float]) -> dict[str, float | int | None]:
    sizes = [abs(each) for each in found]
    median = statistics.median(sizes) if sizes else None
    return {"count": len(sizes), "median": median, "worst": max(sizes, default=None)}


def main() -> None:
    """Measure the models that are named, and write after each; all of the zoo by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(ZOO))
    parser.add_argument("--budgets", default="75,50,35", help="in percent of the plain step's peak")
    parser.add_argument("--time-limit", type=float, default=8.0, help="seconds for each solve")
    parser.add_argument("--eigen", action="store_true", help="with Eigen's kernels in place of oneDNN's")
    parser.add_argument("-o", "--output", type=Path)
    chosen = parser.parse_args()
    if chosen.eigen:
        os.environ.update(EXACT)
    shares = [float(part) / 100 for part in chosen.budgets.split(",")]
    options = SolveOptions(time_limit_s=chosen.time_limit)
    machine, rows = this_machine(), list[Row]()
    for model in chosen.models:
        rows += measure(model, shares, options)
        made_with = {**versions(["tensorflow", "keras"]), "kernels": rows[-1].get("kernels")}
        facts = {"machine": machine, "made_with": made_with, "rows": rows, "summary": summary(rows)}
        print(*rows[-len(shares) :], sep="\n", flush=True)
        if chosen.output:
            write_json(chosen.output, facts)
    print(facts["summary"])


if __name__ == "__main__":
    main()
