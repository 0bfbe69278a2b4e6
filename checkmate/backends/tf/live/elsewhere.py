"""Measure a step's peak, as a SavedModel in a fresh process, where the user's own has no memory meter."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.tf.allocator.learn import learned_workspace
from checkmate.backends.tf.devices import as_emitted, peak_bytes, reset_peak, settings_here
from checkmate.backends.tf.emit.saved_model import save_function, save_step
from checkmate.backends.tf.live.measure import PeakSource, StepMeasurement
from checkmate.backends.tf.live.trace import LiveStep
from checkmate.backends.tf.profiler import MemoryEvent, OpRun, StepTrace, least_seconds, trace_run
from checkmate.backends.tf.tasks import run_task
from checkmate.errors import CheckmateError
from checkmate.ir import Schedule
from checkmate.progress import Report, never

HOW_TO_METER = "set TF_CPU_ALLOCATOR_USE_BFC=true before TensorFlow is imported to measure here"
_RUNS, _TRACES = 2, 2
_CALLS = re.compile(r"^(Stateful)?PartitionedCall(_\d+)?/((Stateful)?PartitionedCall(_\d+)?/)*")


def measure_elsewhere(
    step: LiveStep, schedule: Schedule | None, tensors: Sequence[tf.Tensor], report: Report
) -> StepMeasurement | None:
    """Measure the peak, parameters and batch included; also the ops' scratch, unless ops run side by side.

    ``schedule``: None for the plain step. Returns None if the step cannot run in another process: it is
    distributed, or holds what a SavedModel cannot (raw resources, Python functions).
    """
    if step.distributed:
        return None
    with tempfile.TemporaryDirectory(prefix="checkmate-elsewhere-") as folder:
        saved, batch = Path(folder, "saved_model"), Path(folder, "batch.npz")
        np.savez(batch, **{f"{number:03d}": tensor.numpy() for number, tensor in enumerate(tensors)})
        try:
            if schedule is None:
                save_function(step.folded, _plain(step), saved, alone=True)
            else:
                save_step(step.folded, schedule, saved, alone=True)
            task = {
                "do": "measure_saved",
                "saved_model": str(saved),
                "batch": str(batch),
                "scheduled": schedule is not None,
            }
            message = "measuring the step's memory in a fresh process"
            answer = run_task(task, message=message, report=report, cancelled=never)
        except CheckmateError:
            return None
    workspace: dict[int, int] = {}
    traces = [_trace(rows) for rows in answer["traces"]]
    if schedule is not None and not step.runs_side_by_side(schedule):
        workspace = learned_workspace(step.folded, traces, schedule.steps.tolist())
    return StepMeasurement(
        int(answer["peak_bytes"]),
        0,
        source=PeakSource.FRESH_PROCESS,
        workspace=workspace,
        seconds=float(answer["seconds"]),
        op_seconds=min(trace.op_seconds for trace in traces),
    )


def measure_saved(task: Mapping[str, Any]) -> dict[str, Any]:
    """Measure a saved step in this process; ``scheduled``: its step was emitted by a schedule.

    Returns ``peak_bytes`` (largest of all runs), ``traces`` (per traced run the fields of its ``OpRun`` and
    ``MemoryEvent``) and ``seconds``.
    """
    module = tf.saved_model.load(task["saved_model"])  # held: the variables live with it
    with np.load(task["batch"]) as stored:
        batch = [tf.constant(stored[name]) for name in sorted(stored.files)]
    meter = settings_here("cpu").meter
    peaks = []

    def step() -> None:
        module.train_step(*batch)["loss"].numpy()

    with as_emitted("cpu") if task["scheduled"] else nullcontext():
        for _ in range(_RUNS):
            reset_peak(meter)
            step()
            peaks.append(peak_bytes(meter))
        traces = [trace_run(step, device="cpu") for _ in range(_TRACES)]
        (seconds,) = least_seconds(step, device="cpu")
    rows = [
        {"runs": [astuple(run) for run in trace.runs], "memory": [astuple(event) for event in trace.memory]}
        for trace in traces
    ]
    return {"peak_bytes": max(peaks), "traces": rows, "seconds": seconds}


def _trace(rows: Mapping[str, Any]) -> StepTrace:
    runs = tuple(OpRun(_CALLS.sub("", name), *rest) for name, *rest in rows["runs"])
    return StepTrace(runs, tuple(MemoryEvent(*event) for event in rows["memory"]))


def _plain(step: LiveStep) -> Callable[..., dict[str, tf.Tensor]]:
    body = step.plain()

    def train_step(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        loss, *others = body(*tensors)
        return {"loss": loss, **{f"output_{number}": tensor for number, tensor in enumerate(others)}}

    return train_step
