"""What each node of the folded step costs: seconds measured on this device, or operations counted.

Measured: the plain schedule is emitted, run warm under TensorFlow's profiler a few times, and each node's
seconds are the median over the runs of what its ops took, scaled so that together they are what the step
takes at least without the profiler. These are the kernels, fusions and threads that the scheduled step will
really use, so a recomputation is priced at what it costs there.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from checkmate.errors import CancelledError, ProfileError, StepTooLargeError
from checkmate.ir.graph import CostOrigin, CostUnit, Graph
from checkmate.ir.schedule import Schedule
from checkmate.machine.cost_store import ENOUGH_RUNS
from checkmate.machine.load import LoadMeter
from checkmate.machine.readings import Reading, step_spread
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, Progress, Report, stop_if
from checkmate.tf import private
from checkmate.tf.allocator.learn import learned_workspace, with_workspace
from checkmate.tf.allocator.learn_by_op import LearnedByOp, learned_by_op, sizes_of_reserves
from checkmate.tf.costs.cached import Known, NodeCosts
from checkmate.tf.costs.launches import NO_KERNEL_TIMES, launched_seconds, shared_out
from checkmate.tf.devices import peak_bytes, reset_peak, settings_here
from checkmate.tf.emit.emit import EmittedOutputs, step_from_schedule
from checkmate.tf.profiler import StepTrace, trace_run
from checkmate.tf.room import require_room
from checkmate.tf.trace.coarsen import FoldedStep
from checkmate.tf.trace.dataflow import Structure
from checkmate.tf.xla_calls import node_seconds

_WARM_RUNS = 2
_LEAST_RUNS, _MOST_RUNS = ENOUGH_RUNS, 9
_NOT_RUN = "use a smaller batch, or --costs analytic"
_SECONDS = 8.0  # time after which no further run is started


def measured_costs(
    folded: FoldedStep,
    make_batch: Callable[[], Sequence[tf.Tensor]],
    known: Known,
    report: Report,
    cancelled: Cancelled,
    meter: LoadMeter,
    *,
    schedule: Schedule | None = None,
) -> Graph:
    """The graph with measured costs in seconds; ``metadata["profile"]`` says how they were measured, and when.

    Nothing is run where ``known`` has every op. Else the step is measured, in fewer runs where most ops are
    known, and what is known is merged into it. Updates of the model's state made by the measuring runs are
    undone. ``meter`` says what other programs took of the machine meanwhile;
    ``metadata["profile"]["reading"]`` has that and how far the runs were apart.
    ``schedule``: what is run to measure, where the plain step does not fit; None: the plain step.

    Raises:
        StepTooLargeError: the step does not fit the device's memory.
        ProfileError: TensorFlow could not run the step, or its profiler saw no ops.
        CancelledError: the user cancelled; its hint says what is kept.
    """
    if known.is_all:
        report(Progress("measure", 1, 1, f"all {folded.graph.n} ops were measured before"))
        costs = known.costs()
        notes: dict[str, Any] = {"runs": costs.runs, "step_seconds": sum(costs.seconds)}
    else:
        run = schedule or Schedule.of(folded.graph, np.arange(folded.graph.n))
        what = "the plain step" if schedule is None else "a scheduled step"
        require_room(folded.graph, run, what=what, hint=_NOT_RUN)
        measured, notes = _measured(folded, make_batch(), known, report, cancelled, meter, run)
        if schedule is not None:
            notes["measured_on"] = what
        costs = known.merged(measured)
        if "caveat" not in notes:
            known.keep(costs, folded.graph, ended=True)
        # Costs from the cache are of another day: the plain step of today says how much slower or faster that
        # was.
        notes["plain_per_predicted"] = notes["least_wall_seconds"] / max(sum(costs.seconds), 1e-12)
    notes |= {
        "allocated_per_requested": costs.slack,
        "noisy_ops": costs.noisy,
        "reading": costs.reading_facts(),
    }
    notes["op_spread"] = [
        round(spread, 3) for spread in costs.spread
    ]  # per op, the runs' deviation over their median
    if known.store is not None:
        notes["cache"] = known.facts()
    workspace = {node: size for node, size in enumerate(costs.workspace) if size}
    reserves = sizes_of_reserves(folded, dict(enumerate(costs.reserves)))
    return graph_of_costs(folded.graph, costs.seconds, notes, workspace, reserves)


def graph_of_costs(
    graph: Graph,
    seconds: Sequence[float],
    notes: dict[str, Any],
    workspace: Mapping[int, int],
    reserves: Mapping[int, int] = {},
) -> Graph:
    """Return ``graph`` with measured ``seconds`` per op, ``notes`` on how, and what was learned in bytes.

    ``workspace``: per op; ``reserves``: per value whose size no shape tells. What ``notes`` has as ``caveat``
    is a note of the graph.
    """
    costed = _with_costs(graph, list(seconds), CostUnit.SECONDS, CostOrigin.MEASURED, notes)
    if "caveat" in notes:
        said = [*costed.metadata.get("notes", []), notes["caveat"]]
        costed = dataclasses.replace(costed, metadata={**costed.metadata, "notes": said})
    return with_workspace(costed, workspace, reserves)


def kept_hint(runs: int) -> str:
    """Return what is kept of a profile that was cancelled after ``runs`` runs; empty for none."""
    if not runs:
        return ""
    count = f"{runs} run{'' if runs == 1 else 's'}"
    return f"what {count} measured is kept in the cache, and the next profile goes on from there"


def _measured(
    folded: FoldedStep,
    batch: Sequence[tf.Tensor],
    known: Known,
    report: Report,
    cancelled: Cancelled,
    meter: LoadMeter,
    schedule: Schedule,
) -> tuple[NodeCosts, dict[str, Any]]:
    """What the step's nodes cost when it runs as ``schedule``, and the notes on how it was measured."""
    graph = folded.graph
    # Where most is known, the runs that the rest needs are enough, and fewer to warm up: the rest warms up
    # meanwhile.
    brief = 2 * len(known.nodes) >= graph.n or known.runs_wanted < _LEAST_RUNS
    least = known.runs_wanted if known.keys else _LEAST_RUNS
    earlier = _LEAST_RUNS - least  # runs of an interrupted profile
    most, warm = (least, 1) if brief else (_MOST_RUNS, _WARM_RUNS)
    what = "a scheduled step" if schedule.recomputations else "the plain step"
    times = np.bincount(schedule.steps, minlength=graph.n)
    report(Progress("measure", message="building the step that is measured"))
    function = _compiled(folded, schedule)
    device = "gpu" if graph.device is not None and graph.device.kind == "gpu" else "cpu"
    saved = [variable.numpy() for variable in folded.traced.variables]
    runs: list[list[float]] = []
    walls: list[float] = []
    traces: list[StepTrace] = []
    kept = 0
    started = time.perf_counter()
    try:
        for number in range(warm):
            stop_if(cancelled)
            report(Progress("measure", number, warm + least, "warming up"))
            # To its end: what a GPU's libraries try out at first must not reach the meter.
            _timed(function, batch, meter.clock)
        ratio = _allocated_per_requested(function, batch, graph, schedule, device)
        begun = meter.read()
        walls += [_timed(function, batch, meter.clock) for _ in range(0 if brief else _LEAST_RUNS)]
        started = time.perf_counter()
        while len(runs) < least or (len(runs) < most and time.perf_counter() - started < _SECONDS):
            stop_if(cancelled)
            report(Progress("measure", warm + len(runs), warm + most, f"run {len(runs) + 1}"))
            walls.append(_timed(function, batch, meter.clock))
            trace = trace_run(lambda: function(*batch)[0].numpy(), device=device)
            runs.append(node_seconds(folded, trace, schedule.steps.tolist()))
            traces.append(trace)
            seen = any(runs[-1])
            if device == "gpu":
                runs = [
                    launched_seconds(folded, each, schedule.steps.tolist(), min(walls)) for each in traces
                ]
            # Kept at once: whatever ends this process, the next profile goes on from here.
            reading = Reading(meter.load_since(begun), meter.cores, step_spread(walls))
            so_far = dataclasses.replace(
                _summed_up(runs, walls, ratio, LearnedByOp({}, {}), times), reading=reading
            )
            if seen and known.keep(known.merged(so_far), graph, ended=False):
                kept = len(runs)
    except (
        CancelledError,
        KeyboardInterrupt,
    ) as error:  # the latter: a press that no stage asked for in time
        if kept:
            raise CancelledError("cancelled", hint=kept_hint(kept)) from error
        raise
    except tf.errors.ResourceExhaustedError as error:
        raise StepTooLargeError(
            f"{what} does not fit the device's memory: {_first_line(error)}", hint=_NOT_RUN
        ) from error
    except tf.errors.OpError as error:
        raise ProfileError(
            f"the step could not be run to measure it: {_first_line(error)}",
            hint=_NOT_RUN,
        ) from error
    finally:
        for variable, value in zip(folded.traced.variables, saved, strict=True):
            variable.assign(value)
    caveat: dict[str, Any] = {}
    if not any(any(run) for run in runs):
        if device == "cpu":
            raise ProfileError("TensorFlow's profiler reported no ops", hint="use --costs analytic")
        runs = [shared_out(min(walls), _all_operations(folded), schedule.steps.tolist())]
        caveat["caveat"] = NO_KERNEL_TIMES
    # A GPU's kernels are launched ahead of time, so that the moment of a request does not tell whose it is.
    ran = schedule.steps.tolist()
    if device == "cpu":
        learned = LearnedByOp(learned_workspace(folded, traces, ran), {})
    else:
        learned = learned_by_op(folded, traces, ran)
    costs = dataclasses.replace(_summed_up(runs, walls, ratio, learned, times), reading=reading)
    return costs, {
        **caveat,
        "runs": len(runs) + earlier,
        "step_seconds": float(statistics.median(sum(run) for run in runs)),
        "wall_seconds": float(statistics.median(walls)),
        "least_wall_seconds": min(walls),
        "scale": min(walls) / float((times * np.median(np.array(runs), axis=0)).sum()),
    }


def _summed_up(
    runs: Sequence[Sequence[float]],
    walls: Sequence[float],
    ratio: float,
    learned: LearnedByOp,
    times: NDArray[np.int64],
) -> NodeCosts:
    """Traced seconds per run and node, and the whole step's seconds without the profiler, as costs of the nodes.

    ``times``: int64[n], how often the step runs each node.
    """
    seconds = np.median(np.array(runs), axis=0)
    spread = np.std(np.array(runs), axis=0) / np.maximum(seconds, 1e-9)
    # The profiler slows small ops down, and what the step spends between ops is in no op: what the whole step
    # takes without the profiler, run in turns with it, is shared out in proportion. Whatever else a machine
    # does only adds to a step's time, so the quickest run is the one to believe.
    seconds *= min(walls) / max(float((seconds * times).sum()), 1e-12)
    return NodeCosts(
        tuple(seconds.tolist()),
        tuple(spread.tolist()),
        tuple(learned.workspace.get(node, 0) for node in range(len(seconds))),
        len(runs),
        ratio,
        reserves=tuple(learned.reserves.get(node, 0) for node in range(len(seconds))),
    )


def analytic_costs(folded: FoldedStep) -> Graph:
    """The graph with operation counts as costs (TensorFlow's own counts; one operation per output element elsewhere)."""
    return _with_costs(folded.graph, _all_operations(folded), CostUnit.FLOP, CostOrigin.ANALYTIC, {})


def _all_operations(folded: FoldedStep) -> list[float]:
    """Operation counts per node."""
    structure = folded.structure
    return [sum(_operations(structure, op) for op in members) for members in folded.nodes]


def _compiled(folded: FoldedStep, schedule: Schedule) -> Any:
    step = step_from_schedule(folded, schedule)

    def run(*tensors: tf.Tensor) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
        outputs: EmittedOutputs = step(*tensors)
        return outputs.loss, outputs.predictions

    loaded = folded.traced.loaded
    return tf.function(run, autograph=False).get_concrete_function(*loaded.input_specs, *loaded.label_specs)


def _timed(function: Any, batch: Sequence[tf.Tensor], clock: Callable[[], float]) -> float:
    begun = clock()
    function(*batch)[0].numpy()  # waits for the device
    return clock() - begun


def _allocated_per_requested(
    function: Any, batch: Sequence[tf.Tensor], graph: Graph, schedule: Schedule, device: str
) -> float:
    """How many bytes the allocator's meter shows at the peak per byte that the plain schedule asks for."""
    meter = settings_here(device).meter
    reset_peak(meter)
    function(*batch)[0].numpy()
    return float(peak_bytes(meter)) / simulate(graph, schedule).peak_bytes


def _operations(structure: Structure, index: int) -> float:
    op = structure.ops[index]
    counted = private.flops(structure.traced.graph, op)
    if counted is not None:
        return counted
    return float(
        sum(tensor.shape.num_elements() or 0 for tensor in op.outputs if tensor.shape.is_fully_defined())
    )


def _with_costs(
    graph: Graph, costs: list[float], unit: CostUnit, origin: CostOrigin, notes: dict[str, Any]
) -> Graph:
    ops = tuple(dataclasses.replace(op, cost=float(cost)) for op, cost in zip(graph.ops, costs, strict=True))
    metadata = {**graph.metadata, "profile": notes} if notes else graph.metadata
    return dataclasses.replace(graph, ops=ops, cost_unit=unit, cost_origin=origin, metadata=metadata)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
