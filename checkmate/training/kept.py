"""Use the plan that an earlier run made for the same step.

A plan's name is a hash of everything that its peak depends on, so it is never used for another step. Its
schedule is checked, and measured again before it is used. Plans that a temporary shortage decided are not
kept.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import keras
import tensorflow as tf

import checkmate
from checkmate.backends.tf import private
from checkmate.backends.tf.costs.known import described_bodies, signatures
from checkmate.backends.tf.devices import settings_here
from checkmate.backends.tf.live.measure import PeakSource
from checkmate.backends.tf.live.trace import LiveStep
from checkmate.backends.tf.memory_check import require_room
from checkmate.backends.tf.models.batch import Key
from checkmate.errors import StepTooLargeError
from checkmate.machine.plan_store import KeptPlan
from checkmate.machine.processor import processor_name
from checkmate.memory.check import check
from checkmate.planning.plan_request import PlanRequest
from checkmate.training.known import WHENCE, facts_of, planned, seen_over
from checkmate.training.limit import Limit
from checkmate.training.plan import StepPlan
from checkmate.training.search import PlanSearch

_MOST_ROOMS = 20


class PlanMemory:
    """The measurements of a training's steps by batch layout, including those of earlier runs."""

    def __init__(self, request: PlanRequest) -> None:
        self._request = request
        self._names: dict[Key, str] = {}  # the name that a layout's plan may be kept under
        self._kept: dict[Key, str] = {}  # the name that the store has its plan under
        self._facts: dict[Key, KeptPlan] = {}
        self._fingerprints: dict[Key, str] = {}  # of the graph that a layout's facts belong to

    def name_of(self, step: LiveStep) -> str:
        """Return the name that the plan of ``step`` may be kept under, if any."""
        if self._request.store is None:
            return ""
        if step.layout.key not in self._names:
            self._names[step.layout.key] = name_of(step, self._request)
        return self._names[step.layout.key]

    def name(self, key: Key) -> str:
        return self._names.get(key, "")

    def of(self, step: LiveStep) -> KeptPlan | None:
        """Return the measurements of ``step``; None if there are none, or the machine lacks the memory
        now."""
        key, fingerprint = step.layout.key, step.graph.fingerprint
        if self._fingerprints.setdefault(key, fingerprint) != fingerprint:  # sizes changed with the data
            for facts in (self._names, self._kept, self._facts):
                facts.pop(key, None)
            self._fingerprints[key] = fingerprint
        found = self._facts.get(key) or look_up(step, self._request, self.name_of(step))
        if found is None:
            return None
        try:
            require_room(step.graph, planned(found, step.graph))
        except StepTooLargeError as error:
            self._request.tell(f"a kept plan is not used: {error}")
            return None
        self._facts[key] = found
        return found

    def knows(self, step: LiveStep) -> bool:
        return step.layout.key in self._facts

    def was_wrong(self, step: LiveStep) -> None:
        """Forget the measurements of ``step``, because it took more when it ran; also for later runs."""
        self._facts.pop(step.layout.key, None)
        self._forget(self.name_of(step))

    def note(self, search: PlanSearch) -> None:
        """Remember the measurements of ``search``, and the room for which it was completed."""
        key = search.trials.step.layout.key
        before = self._facts.get(key)
        rooms = () if before is None else before.rooms
        self._facts[key] = facts_of(search.trials, [*rooms, search.room][-_MOST_ROOMS:])

    def keep(self, plan: StepPlan, limit: Limit) -> None:
        """Keep ``plan`` for later runs, if it has a name and its step's measurements were not forgotten."""
        key = plan.layout.key
        if plan.name and key in self._facts:
            self._facts[key] = _with_plan(self._facts[key], plan, limit)
            if self._request.store is not None:
                dated = dataclasses.replace(self._facts[key], date=datetime.now(UTC).date().isoformat())
                self._request.store.keep(plan.name, dated)
                _tell_problem(self._request)
            self._kept[key] = plan.name

    def uses_kept(self, step: LiveStep) -> None:
        self._kept[step.layout.key] = self.name_of(step)

    def takes_turns(self, plan: StepPlan, limit: Limit) -> None:
        """Remember that the ops of ``plan`` run one after another from now on."""
        key = plan.layout.key
        if key in self._facts:
            facts = self._facts[key]
            tried = tuple(
                dataclasses.replace(each, in_turn=each.in_turn or each.steps == plan.steps)
                for each in facts.tried
            )
            self._facts[key] = dataclasses.replace(facts, in_turn=True, tried=tried)
        if key in self._kept:
            self.keep(dataclasses.replace(plan, name=self._kept[key]), limit)

    def seen_over(self, plan: StepPlan, peak_bytes: int) -> None:
        """Remember that ``plan`` reached ``peak_bytes``, over the budget, and remove it from the store."""
        key = plan.layout.key
        if key in self._kept:
            self._forget(self._kept.pop(key))
        if key in self._facts:
            self._facts[key] = seen_over(self._facts[key], plan, peak_bytes)

    def _forget(self, name: str) -> None:
        if self._request.store is not None:
            self._request.store.remove(name)
            _tell_problem(self._request)


# The version of names and of planning; plans of lower versions are not found.
_LAYOUT = 9
_VARIABLES = ("TF_", "XLA_", "CUDA_", "OMP_", "KMP_", "DNNL_", "ONEDNN_", "MKL_")  # of the environment
_NO_MATTER = ("TF_CPP_", "TF_CONFIG")  # variables without effect: logging, a cluster's machine names
_OF_STEP = 24  # the digits of a name that do not depend on versions and device
_SETTINGS = "settings of the device"  # named without their value, which is too long for a sentence
_SOURCES = frozenset(each.value for each in PeakSource)


def name_of(step: LiveStep, request: PlanRequest) -> str:
    """Return a hexadecimal hash of everything that the measurements of ``step`` depend on. Its first digits
    depend only on the ops and the request, so that the user can be told of a plan for the same step made with
    other versions or on another device. Other allocations and the limit of a share are not part of it; kept
    plans are compared with them when they are used."""
    graph, budget, options = step.graph, request.budget, request.solver.options
    chosen = {each.name: getattr(options, each.name) for each in dataclasses.fields(options)}
    start = None if options.start is None else options.start.steps.tolist()
    chosen |= {"solver": request.solver.name, "on_miss": request.on_miss.value, "start": start}
    wanted = {
        "layout": _LAYOUT,
        "budget": [budget.bytes_, budget.share],
        "wanted": chosen,
        "step": [dict(graph.fixed), step.distributed],
        "arguments": [[spec.shape.as_list(), spec.dtype.name] for spec in step.layout.specs],
    }
    around = {
        "made with": made_with(step),
        "fingerprint": graph.fingerprint,
        "nodes": signatures(step.folded),
    }
    return _hash(wanted, *_ops(step))[:_OF_STEP] + _hash(around)[_OF_STEP:]


def _hash(facts: Mapping[str, Any], *lines: str) -> str:
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode("utf-8"))
    for line in lines:
        digest.update(line.encode("utf-8"))
    return digest.hexdigest()


def made_with(step: LiveStep) -> dict[str, str]:
    """Return what a plan of ``step`` holds for beside the step: versions, device, settings, by name."""
    kind = step.graph.device_kind
    return {
        "Checkmate Explorer": checkmate.__version__,
        "TensorFlow": tf.__version__,
        "Keras": keras.__version__,
        "Python": platform.python_version(),
        **_device_facts(kind),
    }


def look_up(step: LiveStep, request: PlanRequest, name: str) -> KeptPlan | None:
    """Return what earlier runs kept of ``step``, if its schedules are sound."""
    if request.store is None:
        return None
    kept = request.store.look_up(name)
    _tell_problem(request)
    if kept is None:
        _tell_what_differs(step, request, name)
        return None
    if any(each.source not in _SOURCES for each in kept.tried):
        request.tell("a kept plan is not used: it does not say how its peaks are known")
        return None
    for steps in (kept.steps, *(each.steps for each in kept.tried)):
        if steps is not None and not check(step.graph, steps).ok:
            request.tell("a kept plan is not used: the independent check rejects its schedule for this step")
            return None
    return kept


def _with_plan(facts: KeptPlan, plan: StepPlan, limit: Limit) -> KeptPlan:
    return dataclasses.replace(
        facts,
        steps=plan.steps,
        peak_bytes=plan.peak_bytes,
        held_bytes=plan.held_bytes,
        limit_bytes=limit.bytes,
        limit_words=limit.words,
        over_bytes=plan.over_bytes,
        sentence=plan.sentence.partition(WHENCE)[0],  # the origin is added when a plan is used
        measured=plan.measured,
        in_turn=plan.in_turn,
        made_with={} if plan.step is None else made_with(plan.step),
    )


def _tell_what_differs(step: LiveStep, request: PlanRequest, name: str) -> None:
    """Say why a kept plan of the same step is not used, if there is one."""
    assert request.store is not None
    other = request.store.made_otherwise(name, _OF_STEP)
    if other is None:
        return
    here = made_with(step)
    words = [
        f"{what} {other.made_with[what]}, not {now}" if what != _SETTINGS else f"other {what}"
        for what, now in here.items()
        if what in other.made_with and other.made_with[what] != now
    ]
    if words:
        why = f"it was made with {', and with '.join(words)}"
        request.tell(f"a kept plan is not used: {why}; the step is planned anew")


def _tell_problem(request: PlanRequest) -> None:
    if request.store is not None and request.store.problem:
        request.tell(request.store.problem)
        request.store.problem = ""


def _device_facts(kind: str) -> dict[str, str]:
    physical = tf.config.list_physical_devices("GPU") if kind == "gpu" else []
    details = [tf.config.experimental.get_device_details(each).get("device_name", "GPU") for each in physical]
    settings = settings_here(kind)
    around = {
        "logical": [each.device_type for each in tf.config.list_logical_devices()],
        "memory": [_memory_limits(each) for each in tf.config.get_visible_devices()],
        "meter": settings.metered_from,
        "deterministic": private.is_deterministic(),
        "environment": {
            name: value
            for name, value in os.environ.items()
            if name.startswith(_VARIABLES) and not name.startswith(_NO_MATTER)
        },
    }
    return {
        "device": ", ".join(details) if kind == "gpu" else processor_name(),
        "kernels": settings.kernels.value,
        _SETTINGS: json.dumps(around, sort_keys=True, default=str),
    }


def _memory_limits(device: Any) -> list[Any]:
    found = tf.config.get_logical_device_configuration(device)
    return [] if found is None else [each.memory_limit for each in found]


def _ops(step: LiveStep) -> Iterator[str]:
    """Yield a line per traced op, with the bodies of loops, without names: Keras numbers those within a
    process."""
    for op in step.folded.structure.ops:
        yield f"{op.type} {[(tensor.dtype.name, str(tensor.shape)) for tensor in op.outputs]}\n"
        for line in described_bodies(op):
            yield f"  {line}\n"
