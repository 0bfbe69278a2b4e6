"""The plan of one region of PyTorch: a schedule that was measured within the budget, now or earlier."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import torch

import checkmate
from checkmate.backends.torch.fresh import Beside, OpReadings
from checkmate.backends.torch.graph import Region
from checkmate.backends.torch.step import Measured, RegionStep, with_readings
from checkmate.errors import InfeasibleError
from checkmate.ir import Schedule, SolveResult
from checkmate.machine.plan_store import KeptPlan
from checkmate.machine.processor import processor_name
from checkmate.memory.check import check
from checkmate.planning.metered import fit_metered
from checkmate.planning.plan_request import PlanRequest
from checkmate.planning.schedule_solver import ScheduleSolver
from checkmate.planning.solving import least_memory
from checkmate.progress import Report, never
from checkmate.request import OnMiss
from checkmate.solvers.problem import SolveOptions
from checkmate.units import format_bytes, format_bytes_apart, format_bytes_up, plural

_LEAST_S = 5.0  # of looking for the least memory
_VERSION = 1  # of keys: with a higher one, older plans are not found


@dataclass(frozen=True, eq=False)
class RegionPlan:
    """``peak_bytes``: measured, what the region is called with included. ``sentence``: what it holds and
    costs.
    """

    region: Region
    schedule: Schedule
    peak_bytes: int
    budget_bytes: int
    sentence: str


def planned_region(region: Region, inputs: Sequence[Any], request: PlanRequest, report: Report) -> RegionPlan:
    """Return the plan of a region that is called with ``inputs``.

    Raises:
        NoScheduleError: no schedule that was found keeps the budget, and that is to raise an error.
        InfeasibleError: none can. WorkerDiedError: the region cannot be run in a process of its own.
    """
    key = _key(region, request)
    kept = None if request.store is None else _recalled(region, request.store.look_up(key))
    if kept is not None and (kept.peak_bytes <= kept.budget_bytes or request.on_miss is not OnMiss.RAISE):
        return kept
    step = RegionStep(region, inputs, report, never)
    solver = request.solver_for(report)
    allowed = (
        request.budget.resolve(keep_everything_peak=step.plain_bytes, minimum=0) or _least(step).budget_bytes
    )
    measured, why = _closest(step, solver, allowed, request.on_miss)
    plan = _plan(step, measured, allowed, why if measured.expected_bytes > allowed else "")
    if request.store is not None:
        request.store.keep(key, _to_keep(step, plan))
    return plan


def _closest(step: RegionStep, solver: ScheduleSolver, allowed: int, on_miss: OnMiss) -> tuple[Measured, str]:
    """Return the schedule that was measured closest to what is allowed, and why none keeps it, if so."""
    why = "; no schedule was found that keeps it, which is no proof"
    try:
        found = fit_metered(step, solver, allowed)
        measured = found.require_fit() if on_miss is OnMiss.RAISE else found.measured
    except InfeasibleError as error:
        if on_miss is OnMiss.RAISE:
            raise
        measured, why = None, f"; {error}"
    if measured is None:
        least = _least(step)
        cheapest = solver.solve(step.graph, least.budget_bytes, start=least.schedule)
        measured = step.measure(cheapest, " that takes the least memory")
    assert isinstance(measured, Measured)
    return measured, why


def _least(step: RegionStep) -> SolveResult:
    return least_memory(step.graph, options=SolveOptions(time_limit_s=_LEAST_S), report=step.report).result


def _plan(step: RegionStep, measured: Measured, allowed: int, why: str) -> RegionPlan:
    """``why``: the end of a sentence that says why no schedule keeps the budget; or empty."""
    schedule, graph, beside = measured.result.require_schedule(), step.graph, measured.beside
    peak, budget = format_bytes_apart(measured.expected_bytes, allowed)
    count = plural(schedule.recomputations, "recomputation")
    what = f"region of {plural(graph.n, 'op')}: measured peak {peak}"
    if measured.expected_bytes > allowed:
        enough = format_bytes_up(measured.expected_bytes)
        what += f", over the budget of {budget}; raise it to {enough}, or use a smaller batch"
    else:
        what += f" of {budget}"
    plain = (
        f"plain {format_bytes(step.plain_bytes)}"
        if step.plain_peak is not None
        else "the plain step does not fit"
    )
    sentence = f"{what} ({plain}), {count}, {_time(beside, measured)}, {_equal(beside)}{why}"
    return RegionPlan(step.region, schedule, measured.expected_bytes, allowed, sentence)


def _time(beside: Beside, measured: Measured) -> str:
    predicted = 100 * (measured.result.overhead or 0.0)
    if beside.plain_seconds is None:
        return f"{predicted:+.1f} % time predicted"
    taken = 100 * (beside.seconds / beside.plain_seconds - 1)
    return f"{taken:+.0f} % time measured ({predicted:+.1f} % predicted)"


def _equal(beside: Beside) -> str:
    if beside.bitwise is None:
        return "gradients were not compared"
    return "gradients equal to the bit" if beside.bitwise else f"gradients {beside.apart:.1g} apart"


def _recalled(region: Region, kept: KeptPlan | None) -> RegionPlan | None:
    if kept is None or kept.steps is None or len(kept.seconds) != region.graph.n:
        return None
    readings = OpReadings(dict(enumerate(kept.seconds)), dict(enumerate(kept.scratch)))
    known = with_readings(region, readings)
    if not check(known.graph, list(kept.steps)).ok:
        return None
    schedule = Schedule.of(known.graph, list(kept.steps))
    sentence = f"{kept.sentence}; from an earlier run's plan"
    return RegionPlan(known, schedule, kept.peak_bytes, kept.limit_bytes, sentence)


def _to_keep(step: RegionStep, plan: RegionPlan) -> KeptPlan:
    return KeptPlan(
        steps=tuple(plan.schedule.steps.tolist()),
        peak_bytes=plan.peak_bytes,
        held_bytes=0,
        limit_bytes=plan.budget_bytes,
        limit_words="",
        over_bytes=max(0, plan.peak_bytes - plan.budget_bytes),
        rate=0.0,
        sentence=plan.sentence,
        date=datetime.now(UTC).date().isoformat(),
        seconds=tuple(step.readings.seconds.get(op, 0.0) for op in range(step.graph.n)),
        scratch=tuple(step.readings.bytes.get(op, 0) for op in range(step.graph.n)),
    )


def _key(region: Region, request: PlanRequest) -> str:
    """A hash of all that decides what a step takes: its nodes, sizes, machine and libraries, and the wish."""
    nodes = [
        (str(node.target), str(node.args), str(node.kwargs), _layout(node.meta.get("val")))
        for node in region.joint.nodes
    ]
    facts = (
        _VERSION,
        region.graph.fingerprint,
        nodes,
        str(request.budget),
        request.solver.name,
        str(request.solver.options),
        torch.__version__,
        checkmate.__version__,
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
        torch.cuda.get_device_name() if region.device == "cuda" else processor_name(),
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _layout(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{tuple(value.shape)} {tuple(value.stride())} {value.dtype} {value.device}"
    return str([_layout(each) for each in value]) if isinstance(value, tuple | list) else ""
