"""Use the plan that an earlier run made of the same step.

The second run of a script finds its plans here and trains at once, by the schedules of the first. All that
decides a plan is in its key, so a plan is never used for anything else. What it was measured to hold is
believed; training is watched, as with every plan. What a shortage decided that may pass is not kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import keras
import tensorflow as tf

import checkmate
from checkmate.errors import StepTooLargeError
from checkmate.ir.schedule import Schedule
from checkmate.machine.processor import processor_name
from checkmate.machine.stores.plan_store import KeptPlan
from checkmate.memory.check import check
from checkmate.tf import private
from checkmate.tf.costs.signatures import described_bodies, signatures
from checkmate.tf.devices import settings_here
from checkmate.tf.room import require_room
from checkmate.tf.training.plans.limit import Limit
from checkmate.tf.training.plans.plan import PlanRequest, StepPlan, foreseen, held_by_others, read_ahead
from checkmate.tf.training.trace import LiveStep

# The version of keys, and of how plans are made. With a higher number older plans are not found.
_LAYOUT = 5
_LESS = 0.15  # of the budget: with so much less around a step, a cheaper plan may fit
_LEAST_APART = 2**20  # bytes: plans for amounts held by others that differ by less are one
_VARIABLES = ("TF_", "XLA_", "CUDA_", "OMP_", "KMP_", "DNNL_", "ONEDNN_", "MKL_")  # of the environment
_NO_MATTER = ("TF_CPP_", "TF_CONFIG")  # what is logged; names of a cluster's machines


@dataclass(frozen=True, eq=False)
class EarlierPlan:
    """Hold a plan of an earlier run, and what it teaches of other layouts.

    ``rate``: allocated bytes for each requested one; None: not known.
    """

    plan: StepPlan
    limit: Limit
    rate: float | None


def names_of(step: LiveStep, request: PlanRequest, limit: Limit | None) -> tuple[str, ...]:
    """Return the names that ``step``'s plan may be kept under, its own first.

    In ``fit`` an array is copied to the device or not, as it happens to lie in memory. So there is a plan for
    each amount that others hold, roughly; those for a little more and a little less may do too.
    """
    key, held = key_of(step, request, limit), held_by_others(step.graph)
    place = held // max(_LEAST_APART, 2 * read_ahead(step.graph))
    near = (place, place - 1, place + 1)
    return tuple(hashlib.sha256(f"{key} {each}".encode()).hexdigest() for each in near)


def key_of(step: LiveStep, request: PlanRequest, limit: Limit | None) -> str:
    """Return a hash of all that decides the plan of ``step``.

    It is a SHA-256 in hexadecimal. ``limit``: the budget in bytes; None where this step is the one to tell
    what a share is of.
    """
    graph, budget = step.graph, request.budget
    kind = "cpu" if graph.device is None else graph.device.kind
    facts = {
        "layout": _LAYOUT,
        "versions": [checkmate.__version__, tf.__version__, keras.__version__, platform.python_version()],
        "device": _device_facts(kind),
        "budget": [budget.bytes_, budget.share, None if limit is None or budget.bytes_ else limit.bytes],
        "wanted": dict(request.decides),
        "step": [graph.fingerprint, dict(graph.fixed), step.distributed],
        "arguments": [[spec.shape.as_list(), spec.dtype.name] for spec in step.layout.specs],
        "nodes": signatures(step.folded),
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode("utf-8"))
    for line in _ops(step):
        digest.update(line.encode("utf-8"))
    return digest.hexdigest()


def earlier_plan(step: LiveStep, request: PlanRequest, name: str) -> EarlierPlan | None:
    """Return the plan that an earlier run kept, if it can be used here.

    It cannot where what others hold of the device changes it, where its schedule is none of this step, or
    where the step has no room now.
    """
    if request.store is None:
        return None
    kept = request.store.look_up(name)
    _tell_problem(request)
    if kept is None:
        return None
    held = held_by_others(step.graph)
    if not _still_holds(kept, held, read_ahead(step.graph)):
        return None
    if kept.steps is not None and not check(step.graph, kept.steps).ok:
        request.tell("a kept plan is not used: the independent check rejects its schedule for this step")
        return None
    schedule = None if kept.steps is None else Schedule.of(step.graph, list(kept.steps))
    try:
        require_room(step.graph, schedule or step.everything)
    except StepTooLargeError as error:
        request.tell(f"a kept plan is not used: {error}")
        return None
    peak = kept.peak_bytes + held - kept.held_bytes
    known = "measured" if kept.measured else "predicted"
    plan = StepPlan(
        layout=step.layout,
        step=step,
        schedule=schedule,
        peak_bytes=peak,
        sentence=f"{kept.sentence}; from an earlier run's plan ({known} then, {kept.date})",
        over_bytes=max(0, peak - kept.limit_bytes),
        held_bytes=held,
        foreseen_bytes=foreseen(step, max(held, kept.held_bytes)),
        measured=kept.measured,
    )
    return EarlierPlan(plan, Limit(kept.limit_bytes, kept.limit_words), kept.rate or None)


def keep(plan: StepPlan, request: PlanRequest, limit: Limit, rate: float | None) -> None:
    """Keep ``plan`` for later runs, under its name."""
    if request.store is None or not plan.name:
        return
    steps = None if plan.schedule is None else tuple(plan.schedule.steps.tolist())
    kept = KeptPlan(
        steps=steps,
        peak_bytes=plan.peak_bytes,
        held_bytes=plan.held_bytes,
        limit_bytes=limit.bytes,
        limit_words=limit.words,
        over_bytes=plan.over_bytes,
        rate=rate or 0.0,
        sentence=plan.sentence,
        date=datetime.now(UTC).date().isoformat(),
        measured=plan.measured,
    )
    request.store.keep(plan.name, kept)
    _tell_problem(request)


def forget(name: str, request: PlanRequest) -> None:
    """Remove the plan that is kept under ``name``."""
    if request.store is not None:
        request.store.remove(name)
        _tell_problem(request)


def _still_holds(kept: KeptPlan, held: int, ahead: int) -> bool:
    """Return whether ``kept`` stays the plan beside ``held`` bytes of others.

    ``ahead``: what a data set may hold or not at any time. More may be held as long as the plan fits. With
    far less around it, a cheaper plan may fit.
    """
    more = held - kept.held_bytes
    near = max(int(_LESS * kept.limit_bytes), 2 * ahead)
    fits = more <= near if kept.over_bytes else kept.peak_bytes + more <= kept.limit_bytes
    return fits and -more <= near


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
