"""Use the plan that an earlier run made of the same step.

The second run of a script finds its plans here and trains at once, by the schedules of the first. All that
decides what a step takes is in its name, so a plan is never used for anything else. What was measured is
believed, of every schedule that was tried; training is watched, as with every plan. What a shortage decided
that may pass is not kept.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import keras
import tensorflow as tf

import checkmate
from checkmate.machine.processor import processor_name
from checkmate.machine.stores.plan_store import KeptPlan
from checkmate.memory.check import check
from checkmate.tf import private
from checkmate.tf.costs.signatures import described_bodies, signatures
from checkmate.tf.devices import settings_here
from checkmate.tf.training.plans.limit import Limit
from checkmate.tf.training.plans.plan import PlanRequest, StepPlan
from checkmate.tf.training.trace import LiveStep

# The version of keys, and of how plans are made. With a higher number older plans are not found.
_LAYOUT = 6
_VARIABLES = ("TF_", "XLA_", "CUDA_", "OMP_", "KMP_", "DNNL_", "ONEDNN_", "MKL_")  # of the environment
_NO_MATTER = ("TF_CPP_", "TF_CONFIG")  # what is logged; names of a cluster's machines


def name_of(step: LiveStep, request: PlanRequest) -> str:
    """Return a hash of all that decides what is measured of ``step``.

    It is a SHA-256 in hexadecimal. What others hold of the device is no part of it: in ``fit`` an array is
    copied to the device or not, as it happens to lie in memory. Neither is the limit of a share, which
    follows from that. Both are numbers, and what is kept is held against them.
    """
    graph, budget = step.graph, request.budget
    kind = "cpu" if graph.device is None else graph.device.kind
    facts = {
        "layout": _LAYOUT,
        "versions": [checkmate.__version__, tf.__version__, keras.__version__, platform.python_version()],
        "device": _device_facts(kind),
        "budget": [budget.bytes_, budget.share],
        "wanted": dict(request.decides),
        "step": [graph.fingerprint, dict(graph.fixed), step.distributed],
        "arguments": [[spec.shape.as_list(), spec.dtype.name] for spec in step.layout.specs],
        "nodes": signatures(step.folded),
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode("utf-8"))
    for line in _ops(step):
        digest.update(line.encode("utf-8"))
    return digest.hexdigest()


def look_up(step: LiveStep, request: PlanRequest, name: str) -> KeptPlan | None:
    """Return what earlier runs kept of ``step``, if its schedules are sound."""
    if request.store is None:
        return None
    kept = request.store.look_up(name)
    _tell_problem(request)
    if kept is None:
        return None
    for steps in (kept.steps, *(each.steps for each in kept.tried)):
        if steps is not None and not check(step.graph, steps).ok:
            request.tell("a kept plan is not used: the independent check rejects its schedule for this step")
            return None
    return kept


def kept_of(plan: StepPlan, limit: Limit, facts: KeptPlan) -> KeptPlan:
    """Return ``facts`` of a step with its plan."""
    return dataclasses.replace(
        facts,
        steps=None if plan.schedule is None else tuple(plan.schedule.steps.tolist()),
        peak_bytes=plan.peak_bytes,
        held_bytes=plan.held_bytes,
        limit_bytes=limit.bytes,
        limit_words=limit.words,
        over_bytes=plan.over_bytes,
        sentence=plan.sentence,
        measured=plan.measured,
    )


def keep(name: str, kept: KeptPlan, request: PlanRequest) -> None:
    """Keep a plan for later runs, under its name."""
    if request.store is not None:
        dated = dataclasses.replace(kept, date=datetime.now(UTC).date().isoformat())
        request.store.keep(name, dated)
        _tell_problem(request)


def forget(name: str, request: PlanRequest) -> None:
    """Remove the plan that is kept under ``name``."""
    if request.store is not None:
        request.store.remove(name)
        _tell_problem(request)


def _tell_problem(request: PlanRequest) -> None:
    if request.store is not None and request.store.problem:
        request.tell(request.store.problem)
        request.store.problem = ""


def _device_facts(kind: str) -> dict[str, Any]:
    """Return what runs the step: device, kernels, memory meter, settings."""
    physical = tf.config.list_physical_devices("GPU") if kind == "gpu" else []
    details = [tf.config.experimental.get_device_details(each).get("device_name", "GPU") for each in physical]
    return {
        "kind": kind,
        "name": details if kind == "gpu" else processor_name(),
        "logical": [each.device_type for each in tf.config.list_logical_devices()],
        "memory": [_memory_limits(each) for each in tf.config.get_visible_devices()],
        "settings": settings_here(kind).facts(),
        "deterministic": private.is_deterministic(),
        "environment": {
            name: value
            for name, value in os.environ.items()
            if name.startswith(_VARIABLES) and not name.startswith(_NO_MATTER)
        },
    }


def _memory_limits(device: Any) -> list[Any]:
    found = tf.config.get_logical_device_configuration(device)
    return [] if found is None else [each.memory_limit for each in found]


def _ops(step: LiveStep) -> Iterator[str]:
    """Yield a line per traced op, light ones too: its type and its outputs.

    Bodies of loops and conditions follow. Names are left out: Keras counts them on within a process.
    """
    for op in step.folded.structure.ops:
        yield f"{op.type} {[(tensor.dtype.name, str(tensor.shape)) for tensor in op.outputs]}\n"
        for line in described_bodies(op):
            yield f"  {line}\n"
