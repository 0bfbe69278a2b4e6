"""Measure a step in a process of its own: the plain step, a scheduled one beside it, and ops one by one."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from checkmate.backends.outcomes import Outcome, difference
from checkmate.backends.torch.emission import emitted
from checkmate.backends.torch.graph import Region
from checkmate.backends.torch.running import Task, op_readings, outcome_of, peak_of, seconds_of
from checkmate.errors import StepTooLargeError, WorkerDiedError
from checkmate.ir import Schedule
from checkmate.processes.own import die_with_parent
from checkmate.processes.stages import Probe, Teller, probe
from checkmate.progress import Cancelled, Progress, Report

_LIMIT_S = 3600.0
_ROUNDING = 1e-6
_SPREADS = 10.0  # times the difference of two plain steps, which is not 0: some kernels sum in random order
_OUT_OF_MEMORY = ("SIGKILL", "MemoryError", "OutOfMemoryError", "can't allocate memory")


@dataclass(frozen=True)
class OpReadings:
    """By op: the least seconds, and the most bytes that its scratch and outputs took."""

    seconds: Mapping[int, float]
    bytes: Mapping[int, int]


@dataclass(frozen=True)
class Beside:
    """A scheduled step compared with the plain one. ``peak_bytes``: above its inputs. ``loss``: the first
    result that is a single number. ``bitwise``: results and gradients are equal to the bit. ``apart``: their
    overall relative difference; ``spread``: the same between two plain steps, one of them not compiled.
    ``worst``: the array that differs most, and by how much, as a share of the largest array. Fields that need
    the plain step are None if it did not run."""

    peak_bytes: int
    seconds: float
    loss: float | None
    plain_seconds: float | None = None
    plain_loss: float | None = None
    bitwise: bool | None = None
    apart: float | None = None
    spread: float = 0.0
    worst: tuple[str, float] = ("", 0.0)

    @property
    def equal(self) -> bool | None:
        """Whether results and gradients equal the plain step's, up to the difference of two plain steps."""
        if self.apart is None:
            return None
        return bool(self.bitwise) or self.apart <= max(_ROUNDING, _SPREADS * self.spread)


def measure_plain(
    region: Region, inputs: Sequence[Any], report: Report, cancelled: Cancelled, *, ops: bool = True
) -> tuple[int, OpReadings]:
    """Return the most bytes that the plain step held above its inputs, and readings of its ``ops`` if wanted.

    Raises:
        StepTooLargeError: it does not fit. WorkerDiedError: it cannot be run. CancelledError: the user
        cancelled.
    """
    report(Progress("measure", message="measuring the plain step"))
    told = _probed(region, inputs, None, ops=ops, cancelled=cancelled)
    _require(told, "plain", *(["ops"] if ops else []))
    read = told.found.get("ops", {"seconds": {}, "bytes": {}})
    found = {name: {int(op): value for op, value in each.items()} for name, each in read.items()}
    return told.found["plain"], OpReadings(**found)


def measure_beside(
    region: Region, inputs: Sequence[Any], schedule: Schedule, what: str, report: Report, cancelled: Cancelled
) -> Beside:
    """Measure a scheduled step, and compare it with the plain one. Errors are those of ``measure_plain``."""
    report(Progress("run", message=f"measuring the scheduled step{what}"))
    told = _probed(region, inputs, schedule, ops=False, cancelled=cancelled)
    if "scheduled" not in told.found and told.stage == "plain":  # the plain step crashed the process
        told = _probed(region, inputs, schedule, ops=False, cancelled=cancelled, plain=False)
    _require(told, "scheduled", "told")
    return Beside(
        told.found["scheduled"], **{**told.found["told"], "worst": tuple(told.found["told"]["worst"])}
    )


def _probed(
    region: Region,
    inputs: Sequence[Any],
    schedule: Schedule | None,
    *,
    ops: bool,
    cancelled: Cancelled,
    plain: bool = True,
) -> Probe:
    with tempfile.TemporaryDirectory(prefix="checkmate-") as folder:
        path = Path(folder) / "task.pt"
        vals = [node.meta["val"] for node in region.joint.tangents]
        wanted = {"plain": Schedule.plain(region.graph) if plain else None, "scheduled": schedule}
        halves = {name: emitted(region, each) for name, each in wanted.items() if each is not None}
        tasks = {
            "halves": halves,
            # Detached, because attributes set on the user's tensors may not be picklable.
            "inputs": [each.detach() if isinstance(each, torch.Tensor) else each for each in inputs],
            "tangents": [(tuple(each.shape), each.dtype, each.device) for each in vals],
            "device": region.device,
            "compiler": region.compiler,
            "ops": ops,
            "threads": torch.get_num_threads(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "precision": torch.get_float32_matmul_precision(),
        }
        torch.save(tasks, path)
        return probe([__name__, str(path)], limit_s=_LIMIT_S, cancelled=cancelled)


def _require(told: Probe, *stages: str) -> None:
    for stage in stages:
        if stage in told.found:
            continue
        why = told.errors.get(stage) or told.why() or "it ended without a word"
        if any(word in f"{why} {told.why()}" for word in _OUT_OF_MEMORY):
            raise StepTooLargeError(f"the {stage} step does not fit the device's memory: {why}")
        raise WorkerDiedError(f"the {stage} step could not be run in a process of its own: {why}")


def _answer(path: Path) -> None:
    teller, given, tasks = Teller(), dict[str, Any](), dict[str, Task]()
    outcomes: dict[str, Outcome] = {}

    def load() -> None:
        given.update(torch.load(path, weights_only=False))
        torch.set_num_threads(given["threads"])
        torch.use_deterministic_algorithms(given["deterministic"])
        torch.set_float32_matmul_precision(given["precision"])
        common = {name: given[name] for name in ("inputs", "tangents", "device", "compiler")}
        tasks.update((name, Task(halves, **common)) for name, halves in given["halves"].items())

    def run(name: str) -> int:
        peak, outcomes[name] = peak_of(tasks[name])
        return peak

    def ops() -> dict[str, Any]:
        taken, held = op_readings(tasks["plain"])
        return {"seconds": taken, "bytes": held}

    def beside() -> dict[str, Any]:
        seconds = dict(zip(outcomes, seconds_of([tasks[name] for name in outcomes]), strict=True))
        found, plain = outcomes["scheduled"], outcomes.get("plain")
        told = {"seconds": seconds["scheduled"], "loss": found.loss, "worst": ("", 0.0)}
        if plain is not None:
            apart = difference(found, plain)
            told |= {"plain_seconds": seconds["plain"], "plain_loss": plain.loss, "bitwise": apart.bitwise}
            again = plain if apart.bitwise else outcome_of(replace(tasks["plain"], compiler="eager"))
            told |= {"apart": apart.overall, "worst": apart.largest}
            told["spread"] = difference(again, plain).overall
        return told

    if teller.stage("load", load):
        for name in tasks:
            teller.stage(name, partial(run, name))
        if given["ops"]:
            teller.stage("ops", ops)
        if "scheduled" in outcomes:
            teller.stage("told", beside)
    teller.end()


if __name__ == "__main__":
    die_with_parent()
    _answer(Path(sys.argv[1]))
