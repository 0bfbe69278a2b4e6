"""Trace and fold the step that a request names, on the device that it names."""

from __future__ import annotations

import dataclasses
import os
import sys
from contextlib import nullcontext, redirect_stdout
from typing import Any

import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.devices import Kernels, choose_device, kernels_here
from checkmate.backends.tf.environment import allocator_note
from checkmate.backends.tf.models.load import load_model
from checkmate.backends.tf.models.own_step import naming
from checkmate.backends.tf.trace.coarsen import FoldedStep, fold, fused
from checkmate.backends.tf.trace.of_function import fixed_bytes, require_repeatable, trace_own_step
from checkmate.backends.tf.trace.seen_sizes import with_seen_sizes
from checkmate.backends.tf.trace.sizes import total_bytes, variable_bytes
from checkmate.backends.tf.trace.trace import TracedStep, trace_step
from checkmate.ir import Device, Graph
from checkmate.machine.cost_origin import file_facts
from checkmate.models.weights import weights_and_slots
from checkmate.progress import Cancelled, Progress, Report, stop_if
from checkmate.request import ModelRequest, Target


def trace_request(
    request: ModelRequest, *, here: bool = False, report: Report, cancelled: Cancelled
) -> FoldedStep:
    """Load the model, trace its training step and fold it; costs are still 0."""
    device = choose_device(request, here=here)
    kernels = Kernels(request.kernels) if request.kernels else kernels_here(device.kind)
    report(Progress("load", message=f"loading {request.shown}"))
    # What the user's code prints while it is traced goes to standard error, as when it is loaded.
    with private.keras_sees_gpu() if device.kind == "gpu" else nullcontext(), redirect_stdout(sys.stderr):
        loaded = dataclasses.replace(load_model(request), as_written=request.as_written)
        stop_if(cancelled)
        report(Progress("trace", message="tracing the training step"))
        if loaded.own is None:
            traced = trace_step(loaded, for_xla=loaded.jit_compiled, with_gradients=True)
            require_repeatable(traced.ops, loaded.name)
        else:
            traced = trace_own_step(loaded)
    stop_if(cancelled)
    if not loaded.jit_compiled:
        traced = with_seen_sizes(traced, loaded.make_batch)
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
        "notes": [note] if note else [],
        "tensorflow": tf.__version__,
        "tensorflow_ops": len(traced.ops),
        "target": (Target.XLA if traced.loaded.jit_compiled else Target.EXECUTOR).value,
        "fused": traced.loaded.jit_compiled if request.fused is None else request.fused,
    }
    if traced.unplanned is None:
        metadata |= weights_and_slots(traced.loaded.model)
    facts = file_facts(request.model)
    if facts is not None:
        metadata["model_file"] = facts
    return metadata


def with_kernels_of(request: ModelRequest, graph: Graph) -> ModelRequest:
    """Return ``request`` with the batch, kernels and folding of ``graph``, to fold into that graph in any
    process. Graphs of before 0.2 name no kernels; they follow oneDNN's."""
    kernels = graph.origin.kernels or Kernels.ONEDNN.value
    batch, known = graph.batch_size or request.batch_size, graph.origin.fused
    return dataclasses.replace(request, batch_size=batch, kernels=kernels, fused=known)
