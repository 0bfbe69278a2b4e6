"""From a request to a folded step: load, choose the device, trace, fold."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any

import psutil
import tensorflow as tf

from checkmate.errors import CheckmateError, StepTooLargeError, UsageError
from checkmate.ir.graph import Device, Graph
from checkmate.machine.cost_store import CostStore
from checkmate.machine.gpus import gpu_in_use, gpu_number, is_device
from checkmate.machine.load import LoadMeter
from checkmate.machine.model_file import file_facts
from checkmate.machine.processor import processor_name
from checkmate.progress import Cancelled, Progress, Report, stop_if
from checkmate.request import ModelRequest
from checkmate.tf import private
from checkmate.tf.costs.cached import Known
from checkmate.tf.costs.profile import analytic_costs, measured_costs
from checkmate.tf.devices import kernels_here
from checkmate.tf.environment import allocator_note
from checkmate.tf.kernels import Kernels
from checkmate.tf.models.load import load_model, optimizer_bytes, parameter_bytes
from checkmate.tf.models.model import LoadedModel
from checkmate.tf.trace.coarsen import FoldedStep, fold
from checkmate.tf.trace.sizes import total_bytes
from checkmate.tf.trace.trace import trace_step

ESTIMATED = "costs are estimated, not measured"


def choose_device(request: ModelRequest, *, here: bool = False) -> Device:
    """Describe the device that ``request`` asks for. Only affects this process.

    ``here``: this process runs steps on it, and sees no other GPU, of which TensorFlow would take the memory too: here it is
    always GPU:0. Else every GPU is hidden from this process: a GPU's memory belongs to the one process that measures, which
    TensorFlow gives nearly all of it, and never takes any back.

    Raises:
        UsageError: a GPU was asked for and TensorFlow sees none. CheckmateError: this process has taken the GPU before.
    """
    gpus = tf.config.list_physical_devices("GPU")
    wanted = request.device or ("gpu" if gpus else "cpu")
    if not is_device(wanted):
        raise UsageError(f"unknown device {wanted!r}", hint="use cpu, gpu or gpu:1")
    if wanted != "cpu":
        number = gpu_number(wanted)
        _require_gpu(gpus, number)
        name = str(tf.config.experimental.get_device_details(gpus[number]).get("device_name", "GPU"))
        _show_only([gpus[number]] if here else [])
        return Device(name, "gpu", _gpu_bytes(number, name))
    if gpus:
        _show_only([])
    return Device(processor_name(), "cpu", int(psutil.virtual_memory().total))


def _require_gpu(gpus: Sequence[Any], number: int) -> None:
    if not gpus:
        raise UsageError(
            "TensorFlow sees no GPU on this machine",
            hint="install tensorflow[and-cuda] and check nvidia-smi, or use --device cpu",
        )
    if number >= len(gpus):
        count = f"{len(gpus)} GPU{'' if len(gpus) == 1 else 's'}"
        raise UsageError(
            f"TensorFlow sees {count}, so there is no gpu:{number}",
            hint=f"use gpu:{len(gpus) - 1} or less; CUDA_VISIBLE_DEVICES says which ones TensorFlow may see",
        )


@cache
def _gpu_bytes(number: int, name: str) -> int:
    """Memory of TensorFlow's GPU ``number``; 0: not known."""
    found = gpu_in_use(number, name)
    return 0 if found is None else found.total_bytes or 0


def _show_only(gpus: Sequence[Any]) -> None:
    """Let this process use ``gpus`` and no others."""
    try:
        tf.config.set_visible_devices(list(gpus), "GPU")
    except RuntimeError as error:
        if len(tf.config.list_logical_devices("GPU")) > len(gpus):
            raise CheckmateError(
                "TensorFlow has already started with the GPU in this process, and holds its memory",
                hint="call this before TensorFlow is used, or use the command line",
            ) from error


def visible_devices() -> list[dict[str, object]]:
    """One row per device: name, description, available, why not."""
    gpus = tf.config.list_physical_devices("GPU")
    rows: list[dict[str, object]] = [
        {"name": "cpu", "description": processor_name(), "available": True, "why": ""}
    ]
    for number, gpu in enumerate(gpus):
        name = str(tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name))
        rows.append(
            {"name": f"gpu:{number}" if number else "gpu", "description": name, "available": True, "why": ""}
        )
    if not gpus:
        rows.append({"name": "gpu", "description": "", "available": False, "why": "TensorFlow sees no GPU"})
    return rows


def prepare(request: ModelRequest, *, here: bool = False, report: Report, cancelled: Cancelled) -> FoldedStep:
    """Load the model, trace its training step, fold it. Costs are still 0. ``here``: as for ``choose_device``.

    Raises:
        LoadError, TraceError: with the reason. CancelledError: the user cancelled.
    """
    device = choose_device(request, here=here)
    kernels = Kernels(request.kernels) if request.kernels else kernels_here(device.kind)
    report(Progress("load", message=f"loading {request.model}"))
    with private.keras_sees_gpu() if device.kind == "gpu" else nullcontext():
        loaded = load_model(request)
        stop_if(cancelled)
        report(Progress("trace", message="tracing the training step"))
        traced = trace_step(loaded)
    stop_if(cancelled)
    report(Progress("fold", message=f"folding {len(traced.ops)} TensorFlow ops"))
    fixed = {
        "parameters": parameter_bytes(loaded.model),
        "optimizer": optimizer_bytes(loaded.model),
        "inputs": total_bytes([*traced.function.inputs]),
    }
    metadata: dict[str, Any] = {
        "request": dataclasses.replace(request, kernels=None).to_json(),
        "notes": [*loaded.notes, *_allocator_notes(device)],
        "tensorflow": tf.__version__,
        "tensorflow_ops": len(traced.ops),
    }
    facts = file_facts(request.model)
    if facts is not None:
        metadata["model_file"] = facts
    return fold(traced, kernels, fixed=fixed, device=device, metadata=metadata)


def _allocator_notes(device: Device) -> list[str]:
    note = allocator_note(os.environ) if device.kind == "gpu" else ""
    return [note] if note else []


def settled(request: ModelRequest, graph: Graph) -> ModelRequest:
    """Return ``request`` with the kernels whose memory rules ``graph`` follows, so that it folds into that graph anywhere.

    Graphs of before 0.2 name none; they follow oneDNN's.
    """
    return dataclasses.replace(request, kernels=str(graph.metadata.get("kernels", Kernels.ONEDNN.value)))


def pinned(request: ModelRequest) -> ModelRequest:
    """Return ``request`` with the kernels named that run here, for processes that compare with others."""
    return dataclasses.replace(request, kernels=kernels_here(choose_device(request).kind).value)


def with_costs(
    folded: FoldedStep,
    costs: str,
    *,
    seed: int = 0,
    store: CostStore | None = None,
    refresh: bool = False,
    estimated: Callable[[Graph], object] | None = None,
    meter: LoadMeter | None = None,
    report: Report,
    cancelled: Cancelled,
) -> FoldedStep:
    """``folded`` with ``measured`` or ``analytic`` costs.

    ``store``: where costs measured before are looked up, and those measured now are kept; None: neither. ``refresh``: nothing
    is looked up. ``estimated``: told the graph with analytic costs before anything is measured, which takes a while; not where
    all is known. ``meter``: says how busy the machine is; None: the machine's own CPU times. Costs that were read on a busy
    machine are measured again when it is quiet.

    Raises:
        UsageError: ``costs`` is neither. ProfileError: measuring failed. CancelledError: the user cancelled.
    """
    if costs == "analytic":
        return dataclasses.replace(folded, graph=analytic_costs(folded))
    if costs != "measured":
        raise UsageError(f"unknown costs {costs!r}", hint="use measured or analytic")
    meter = meter or LoadMeter()
    known = Known.of(folded, store, refresh=refresh, is_quiet=meter.is_quiet)
    if estimated is not None and not known.is_all:
        estimated(analytic_costs(folded))
    graph = measured_costs(
        folded, lambda: flat_batch(folded.traced.loaded, seed), known, report, cancelled, meter
    )
    return dataclasses.replace(folded, graph=graph)


def estimated_because(folded: FoldedStep, why: StepTooLargeError) -> Graph:
    """With analytic costs instead of measured ones; a note in the metadata says why."""
    graph = analytic_costs(folded)
    notes = [*graph.metadata["notes"], f"{ESTIMATED}: {why}"]
    return dataclasses.replace(graph, metadata={**graph.metadata, "notes": notes})


def flat_batch(loaded: LoadedModel, seed: int = 0) -> list[tf.Tensor]:
    """One random but legal batch, inputs then labels, as the traced step takes them."""
    inputs, labels = loaded.make_batch(seed)
    return [*inputs, *labels]
