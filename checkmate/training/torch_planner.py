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
from checkmate.errors import InfeasibleError, NoScheduleError
from checkmate.ir import Graph, Schedule, SolveResult, SolveStatus
from checkmate.machine.plan_store import KeptPlan
from checkmate.machine.processor import processor_name
from checkmate.memory.check import check
from checkmate.memory.simulate import simulate
from checkmate.planning.metered import fit_metered
from checkmate.planning.plan_request import PlanRequest
from checkmate.planning.schedule_solver import ScheduleSolver
from checkmate.planning.solving import least_memory
from checkmate.progress import Report, never
from checkmate.request import OnMiss
from checkmate.solvers.certify import with_schedule
from checkmate.solvers.problem import Problem, SolveOptions
from checkmate.units import format_bytes, format_bytes_apart, format_bytes_up, plural

_LEAST_S = 5.0  # the time limit of a search for the least memory
_USED = 0.9  # of a budget: an earlier schedule that takes less recomputes too much to be reused
_VERSION = 1  # of keys; plans of lower versions are not found


@dataclass(frozen=True, eq=False)
class RegionPlan:
    """The schedule of a region. ``peak_bytes``: measured, inputs included. ``sentence``: its memory and cost,
    for the user."""

    region: Region
    schedule: Schedule
    peak_bytes: int
    budget_bytes: int
    sentence: str


def planned_region(
    region: Region,
    inputs: Sequence[Any],
    request: PlanRequest,
    report: Report,
    known: Sequence[RegionPlan] = (),
) -> RegionPlan:
    """Return the plan of a region with ``inputs``. ``known``: earlier plans of the program, whose schedules
    may be reused for other shapes. A share is of the largest step so far, so ``known`` sets its least value.

    Raises:
        NoScheduleError: no schedule that was found keeps the budget, and that is to raise an error.
        InfeasibleError: none can. WorkerDiedError: the region cannot be run in a process of its own.
    """
    share = request.budget.share is not None
    least_allowed = max((plan.budget_bytes for plan in known), default=0) if share else 0
    key = _key(region, request, least_allowed)
    if request.store is not None:
        for each in dict.fromkeys((_key(region, request, 0), key)):
            kept = _recalled(region, request.store.look_up(each))
            if kept is None or kept.budget_bytes < least_allowed:
                continue
            if kept.peak_bytes <= kept.budget_bytes or request.on_miss is not OnMiss.RAISE:
                return kept
    step = RegionStep(region, inputs, report, never)
    solver = request.solver_for(report)
    wanted = request.budget.resolve(keep_everything_peak=step.plain_bytes, minimum=0)
    allowed = max(wanted, least_allowed) or _least(step).budget_bytes
    measured, why = _closest(step, solver, allowed, request.on_miss, _neighbour(step, allowed, known))
    plan = _plan(step, measured, allowed, why if measured.expected_bytes > allowed else "")
    if request.store is not None:
        request.store.keep(key, _to_keep(step, plan))
    return plan


def _neighbour(step: RegionStep, allowed: int, known: Sequence[RegionPlan]) -> SolveResult | None:
    """Return an earlier schedule of the same ops that also fits with these shapes, and uses the budget
    well."""
    graph, problem = step.graph, Problem(step.graph, allowed)
    for plan in reversed(known):
        if _structure(plan.region.graph) == _structure(graph):
            schedule = Schedule.of(graph, plan.schedule.steps.tolist())
            if _USED * allowed <= simulate(graph, schedule).peak_bytes <= allowed:
                return with_schedule(problem, "neighbour", schedule.steps, lower_bound=None, seconds=0.0)
    return None


def _structure(graph: Graph) -> list[tuple[object, ...]]:
    return [(op.type, op.recomputable, op.inputs, op.outputs) for op in graph.ops]


def _closest(
    step: RegionStep, solver: ScheduleSolver, allowed: int, on_miss: OnMiss, first: SolveResult | None
) -> tuple[Measured, str]:
    """Return the measured schedule that fits, else the closest one; and the end of a sentence on why none
    fits. ``first`` is tried before any other."""
    if step.plain_peak is not None and step.plain_bytes <= allowed:
        return _keeping_everything(step), ""
    why = no_proof = "; no schedule was found that keeps it, which is no proof"
    try:
        found = fit_metered(step, solver, allowed, first)
        if found.result.status is SolveStatus.INFEASIBLE and found.result.budget_bytes >= allowed:
            why = f"; {found.result.message}"
        measured = found.require_fit() if on_miss is OnMiss.RAISE else found.measured
    except InfeasibleError as error:
        if on_miss is OnMiss.RAISE and step.region.compiler == "eager":
            raise
        if on_miss is OnMiss.RAISE:
            sentence = "no schedule was found whose ops keep the budget one by one, so none was compiled"
            raise NoScheduleError(sentence, hint='use on_miss="closest", or a larger budget') from error
        measured, why = None, f"; {error}"
    if measured is None:
        least = _least(step)
        cheapest = solver.solve(step.graph, least.budget_bytes, start=least.schedule)
        measured = step.measure(cheapest, " that takes the least memory")
    if step.plain_peak is not None and step.plain_bytes <= measured.expected_bytes:
        measured = _keeping_everything(step)
    assert isinstance(measured, Measured)
    # A proof for ops that run one by one does not hold for ops that a compiler fuses.
    return measured, why if step.region.compiler == "eager" else no_proof


def _keeping_everything(step: RegionStep) -> Measured:
    plain = Schedule.plain(step.graph)
    problem = Problem(step.graph, simulate(step.graph, plain).peak_bytes)
    result = with_schedule(problem, "keep-all", plain.steps, lower_bound=step.graph.base_cost, seconds=0.0)
    return step.measure(result, " that keeps everything")


def _least(step: RegionStep) -> SolveResult:
    return least_memory(step.graph, options=SolveOptions(time_limit_s=_LEAST_S), report=step.report).result


def _plan(step: RegionStep, measured: Measured, allowed: int, why: str) -> RegionPlan:
    """``why``: the end of the sentence, if no schedule keeps the budget; else empty."""
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


def _key(region: Region, request: PlanRequest, least_allowed: int) -> str:
    """A hash of all that decides what a step takes: its nodes, sizes, machine and libraries, and the wish."""
    nodes = [
        (str(node.target), str(node.args), str(node.kwargs), _layout(node.meta.get("val")))
        for node in region.joint.nodes
    ]
    facts = (
        _VERSION,
        region.graph.fingerprint,
        region.compiler,
        nodes,
        str(request.budget),
        least_allowed,
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
