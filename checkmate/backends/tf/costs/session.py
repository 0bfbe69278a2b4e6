"""Turn a request into a folded step: load, choose the device, trace, fold."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from functools import cache
from typing import Any

import psutil
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.costs.profile import analytic_costs
from checkmate.backends.tf.devices import Kernels, kernels_here
from checkmate.backends.tf.environment import allocator_note
from checkmate.backends.tf.models.load import load_model
from checkmate.backends.tf.models.model import LoadedModel
from checkmate.backends.tf.models.own_step import naming
from checkmate.backends.tf.trace.coarsen import FoldedStep, fold, fused
from checkmate.backends.tf.trace.of_function import fixed_bytes, trace_own_step
from checkmate.backends.tf.trace.sizes import total_bytes, variable_bytes
from checkmate.backends.tf.trace.trace import TracedStep, trace_step
from checkmate.errors import CheckmateError, StepTooLargeError, UsageError
from checkmate.ir.graph import Device, Graph
from checkmate.machine.cost_origin import file_facts
from checkmate.machine.device_memory import gpu_in_use, gpu_number, is_device
from checkmate.machine.processor import processor_name
from checkmate.progress import Cancelled, Progress, Report, stop_if
from checkmate.request import ModelRequest, Target

ESTIMATED = "costs are estimated, not measured"


def choose_device(request: ModelRequest, *, here: bool = False) -> Device:
    """Describe the device that ``request`` asks for, and hide the other GPUs from this process.

    TensorFlow gives the one process that measures nearly all memory of a GPU, and never takes any back.
    ``here``: this process runs steps on the device, as GPU:0. Otherwise every GPU is hidden.
    """
    gpus = tf.config.list_physical_devices("GPU")
    wanted = request.device or ("gpu" if gpus else "cpu")
    if not is_device(wanted):
        raise UsageError(f"unknown device {wanted!r}", hint="use cpu, gpu or gpu:1")
    if wanted != "cpu":
        number = gpu_number(wanted)
        _require_gpu(len(gpus), number)
        name = _gpu_name(gpus[number])
        _show_only([gpus[number]] if here else [])
        return Device(name, "gpu", _gpu_bytes(number, name))
    if gpus:
        _show_only([])
    return Device(processor_name(), "cpu", int(psutil.virtual_memory().total))


def _gpu_name(gpu: Any, unknown: str = "GPU") -> str:
    return str(tf.config.experimental.get_device_details(gpu).get("device_name", unknown))


def _require_gpu(count: int, number: int) -> None:
    if not count:
        raise UsageError(
            "TensorFlow sees no GPU on this machine",
            hint="install tensorflow[and-cuda] and check nvidia-smi, or use --device cpu",
        )
    if number >= count:
        seen = f"{count} GPU{'' if count == 1 else 's'}"
        raise UsageError(
            f"TensorFlow sees {seen}, so there is no gpu:{number}",
            hint=f"use gpu:{count - 1} or less; CUDA_VISIBLE_DEVICES says which ones TensorFlow may see",
        )


@cache
def _gpu_bytes(number: int, name: str) -> int:
    found = gpu_in_use(number, name)
    return 0 if found is None else found.total_bytes or 0


def _show_only(gpus: Sequence[Any]) -> None:
    try:
        tf.config.set_visible_devices(list(gpus), "GPU")
    except RuntimeError as error:
        if len(tf.config.list_logical_devices("GPU")) > len(gpus):
            raise CheckmateError(
                "TensorFlow has already started with the GPU in this process, and holds its memory",
                hint="call this before TensorFlow is used, or use the command line",
            ) from error


def visible_devices() -> list[dict[str, object]]:
    found = enumerate(tf.config.list_physical_devices("GPU"))
    gpus = [(f"gpu:{number}" if number else "gpu", _gpu_name(gpu, gpu.name), "") for number, gpu in found]
    rows = [("cpu", processor_name(), ""), *(gpus or [("gpu", "", "TensorFlow sees no GPU")])]
    return [{"name": name, "description": told, "available": not why, "why": why} for name, told, why in rows]


def prepare(request: ModelRequest, *, here: bool = False, report: Report, cancelled: Cancelled) -> FoldedStep:
    """Load the model, trace its training step and fold it; costs are still 0."""
    device = choose_device(request, here=here)
    kernels = Kernels(request.kernels) if request.kernels else kernels_here(device.kind)
    report(Progress("load", message=f"loading {request.shown}"))
    # What the user's code prints while it is traced goes to standard error, as when it is loaded.
    with private.keras_sees_gpu() if device.kind == "gpu" else nullcontext(), redirect_stdout(sys.stderr):
        loaded = load_model(request)
        stop_if(cancelled)
        report(Progress("trace", message="tracing the training step"))
        if loaded.own is None:
            traced = trace_step(loaded, for_xla=loaded.jit_compiled, with_gradients=True)
        else:
            traced = trace_own_step(loaded)
    stop_if(cancelled)
    report(Progress("fold", message=f"folding {len(traced.ops)} TensorFlow ops"))
    metadata = _metadata(request, traced, device)
    with nullcontext() if loaded.own is None else naming(loaded.own.spec):
        folded = fold(traced, kernels, fixed=_fixed_bytes(traced), device=device, metadata=metadata)
    return fused(folded) if metadata["fused"] else folded


def _fixed_bytes(traced: TracedStep) -> dict[str, int]:
    if traced.unplanned is not None:
        return fixed_bytes(traced, len(traced.loaded.input_specs))
    model = traced.loaded.model
    return {
        "parameters": variable_bytes(model.variables),
        "optimizer": variable_bytes(model.optimizer.variables),
        "inputs": total_bytes([*traced.function.inputs]),
    }


def _metadata(request: ModelRequest, traced: TracedStep, device: Device) -> dict[str, Any]:
    batch = traced.loaded.batch_size
    plain = dataclasses.replace(request, batch_size=batch, batch_chosen=False, kernels=None, fused=None)
    note = allocator_note(os.environ) if device.kind == "gpu" else ""
    metadata: dict[str, Any] = {
        "request": plain.to_json(),
        "notes": [*traced.loaded.notes, *([note] if note else [])],
        "tensorflow": tf.__version__,
        "tensorflow_ops": len(traced.ops),
        "target": (Target.XLA if traced.loaded.jit_compiled else Target.EXECUTOR).value,
        "fused": traced.loaded.jit_compiled if request.fused is None else request.fused,
    }
    facts = file_facts(request.model)
    if facts is not None:
        metadata["model_file"] = facts
    return metadata


def with_kernels_of(request: ModelRequest, graph: Graph) -> ModelRequest:
    """Return ``request`` with the batch, kernels and folding of ``graph``, to fold into that graph in any
    process.

    Graphs of before 0.2 name no kernels; they follow oneDNN's.
    """
    kernels = graph.origin.kernels or Kernels.ONEDNN.value
    batch, known = graph.batch_size or request.batch_size, graph.origin.fused
    return dataclasses.replace(request, batch_size=batch, kernels=kernels, fused=known)


def with_kernels_here(request: ModelRequest) -> ModelRequest:
    """Return ``request`` with the kernels named that run here, for comparing processes with each other."""
    return dataclasses.replace(request, kernels=kernels_here(choose_device(request).kind).value)


def estimated_graph(folded: FoldedStep, why: StepTooLargeError) -> Graph:
    graph = analytic_costs(folded)
    notes = [*graph.origin.notes, f"{ESTIMATED}: {why}"]
    return dataclasses.replace(graph, metadata={**graph.metadata, "notes": notes})


def flat_batch(loaded: LoadedModel) -> list[tf.Tensor]:
    inputs, labels = loaded.make_batch()
    return [*inputs, *labels]
