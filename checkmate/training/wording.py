"""Say what was planned, and why nothing better was found: a first line for all, further ones for the log."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

from checkmate.backends.tf.live.elsewhere import HOW_TO_METER
from checkmate.backends.tf.live.measure import PeakSource, StepMeasurement
from checkmate.backends.tf.models.batch import BatchLayout
from checkmate.errors import NoScheduleError, UsageError
from checkmate.ir import Graph
from checkmate.memory.simulate import simulate
from checkmate.planning.plan_request import PlanRequest
from checkmate.planning.solving import Minimum
from checkmate.training.limit import NOTABLE, Limit
from checkmate.training.trials import Trials, TriedStep
from checkmate.units import format_bytes, format_bytes_apart, format_bytes_up, format_overhead, plural

_LOG = logging.getLogger(__name__)
_LOOPS = frozenset(("While", "StatelessWhile"))
_PART = re.compile(r"_\d+_of_\d+$")  # how the name of a part of a split loop ends
_FAR = 0.1  # of the plain step's time: a longer one is explained
_PROVED_OF = "each op whole and at its traced size"
_MARGIN = 1.02  # of a measured peak: what a budget should allow, since the peak varies


def tell_plan(request: PlanRequest, layout: BatchLayout, sentence: str) -> None:
    line, *further = sentence.splitlines()
    request.tell(line)
    for each in further:
        _LOG.info("%s: %s", layout.describe(), each)


def sentence_of(trials: Trials, tried: TriedStep, limit: Limit, proof: Minimum | None, what: str) -> str:
    """Say what was planned: ``what`` runs. ``proof``: no schedule requests as few bytes as the budget."""
    layout = trials.step.layout.describe()
    if tried.peak_bytes <= limit.bytes:
        peak, budget = format_bytes_apart(tried.peak_bytes, limit.bytes)
        said = f"{layout}: {what}; {_known(tried.found)} peak {peak} of {budget}"
        line = f"{said} ({_base(trials, limit, budget)})"
        return "\n".join([line, *_further(trials, tried, limit)])
    line = f"{layout}: {_over(tried, limit.bytes)}; {what}; {remedy(tried.peak_bytes)}"
    miss = "no schedule that was tried keeps the budget, so the closest one trains"
    if proof is not None:
        miss = "no schedule can keep the budget, so the one with the least memory known trains"
    why = why_missed(trials.graph, tried, allowed=limit.bytes, held=trials.held, proof=proof)
    return "\n".join([line, miss, why, *_further(trials, tried, limit)])


def nothing_to_save(trials: Trials, plain: TriedStep, limit: Limit, bound: int) -> str:
    """Say that plain training goes on over the budget: any schedule requests at least ``bound`` bytes,
    proved.
    """
    line = (
        f"{trials.step.layout.describe()}: plain training, since recomputation saves nothing here; "
        f"{_over(plain, limit.bytes)}; use a smaller batch"
    )
    why = (
        f"keeping everything requests {format_bytes(trials.everything)}, and it is proved that any schedule "
        f"requests at least {format_bytes(bound)}, {_PROVED_OF}"
    )
    return "\n".join([line, why, *_further(trials, plain, limit)])


def impossible(
    trials: Trials, closest: TriedStep | None, allowed: int, least: Minimum | None, *, proved: bool
) -> NoScheduleError:
    """Return the error for a budget that is not kept. ``closest``: None where nothing was run."""
    if closest is None and trials.all and not any(each.ran for each in trials.all):
        return NoScheduleError(
            f"nothing that was tried of a training step of {trials.step.name!r} with a "
            f"{trials.step.layout.describe()} runs in the device's memory",
            hint="use a smaller batch, or a device with more memory",
            details={"budget_bytes": allowed, "needed_bytes": 0},
        )
    needed, how = 0, "predicted"
    if closest is not None:
        needed, how = closest.peak_bytes, closest.found.source.value
    elif least is not None:
        needed = int(simulate(trials.graph, least.schedule).peak_bytes * trials.rate) + trials.held
    proof = least if proved else None
    why = why_missed(trials.graph, closest, allowed=allowed, held=trials.held, proof=proof)
    return NoScheduleError(
        f"{'no schedule keeps' if proved else 'no schedule was found that keeps'} a training step of "
        f"{trials.step.name!r} with a {trials.step.layout.describe()} within {format_bytes(allowed)}; "
        f"the least that is known takes about {format_bytes(needed)}",
        hint=f"{remedy(needed)}, or use a smaller batch",
        details={"budget_bytes": allowed, "needed_bytes": needed, "source": how, "why": why},
    )


def _base(trials: Trials, limit: Limit, budget: str) -> str:
    if limit.words:
        own = format_bytes(limit.own)
        if own == budget or not limit.others:
            return limit.words
        return f"{own}, {limit.words}, + {format_bytes(limit.others)} of others"
    if trials.plain is not None and trials.plain.measured:
        return f"plain {format_bytes(trials.plain.peak_bytes)}"
    return f"keeping everything requests {format_bytes(trials.everything)}"


def _further(trials: Trials, tried: TriedStep, limit: Limit) -> Iterator[str]:
    if tried.peak_bytes > limit.bytes and limit.words:
        yield f"the budget is {_base(trials, limit, format_bytes(limit.bytes))}"
    yield from limit.further
    yield from _why_slower(trials, tried)
    if not trials.metered:
        yield f"the peak is {tried.found.source.value}"
        yield f"this process has no memory meter: {HOW_TO_METER}"


def what_runs(trials: Trials, tried: TriedStep) -> str:
    if tried.schedule is None:
        return "plain training, without recomputation"
    count = plural(len(tried.schedule.steps) - trials.graph.n, "recomputation")
    more = measured_overhead(trials, tried)
    if more is None:
        predicted = tried.cost(trials.graph) / trials.graph.base_cost
        return f"{count}, {format_overhead(predicted, 1.0)} time predicted"
    written = 0.0 if trials.as_written is None else trials.as_written.found.seconds
    beside = (
        f" ({100 * (tried.found.seconds / written - 1):+.0f} % on the step as written)" if written else ""
    )
    return f"{count}, {100 * more:+.0f} % time measured{beside}"


def measured_overhead(trials: Trials, tried: TriedStep) -> float | None:
    """Return the extra time as a share of the plain step's; None if that step or this one was not timed."""
    plain = 0.0 if trials.plain is None else trials.plain.found.seconds
    if tried.schedule is None or not plain or not tried.found.seconds:
        return None
    return tried.found.seconds / plain - 1


def _why_slower(trials: Trials, tried: TriedStep) -> Iterator[str]:
    more, predicted = measured_overhead(trials, tried), tried.cost(trials.graph) / trials.graph.base_cost
    if more is None or trials.plain is None or more + 1 <= predicted + _FAR:
        return
    took, plain = tried.found.op_seconds, trials.plain.found.op_seconds
    if not took or not plain:  # the profiler saw no times of ops, or one run alone
        return
    ops = 100 * (took / plain - 1)
    yield (
        f"it takes more than the {format_overhead(predicted, 1.0)} predicted: its ops take {ops:+.0f} % in "
        "all, and the rest is lost while they wait for one another"
    )


def _over(tried: TriedStep, allowed: int) -> str:
    peak, budget = format_bytes_apart(tried.peak_bytes, allowed)
    share = f"{100 * (tried.peak_bytes / max(1, allowed) - 1):.1f} %"
    others = tried.others_bytes
    beside = f" ({format_bytes(others)} of others)," if others > NOTABLE * allowed else ","
    return f"{_known(tried.found)} peak {peak}{beside} {share} over the budget of {budget}"


def _known(found: StepMeasurement) -> str:
    source = PeakSource.HERE if found.source is PeakSource.FRESH_PROCESS else found.source
    return str(source.value)


def why_missed(
    graph: Graph, tried: TriedStep | None, *, allowed: int, held: int, proof: Minimum | None
) -> str:
    """Return why no schedule was found within ``allowed`` bytes, of which other allocations hold ``held``.
    ``tried``: the closest measured one. ``proof``: given if it is proved that no schedule fits."""
    beside = f" beside the {format_bytes(held)} that others hold" if held > NOTABLE * allowed else ""
    if proof is not None and tried is not None and tried.measured and tried.own_bytes < proof.bound.bytes:
        least = format_bytes(proof.bound.bytes)  # the graph counts too much for some op: no valid proof
        return f"its ops were counted with at least {least}, more than was measured, so nothing is proved"
    if proof is not None:
        proved = "it is proved that no schedule requests so few bytes"
        if proof.bound.bytes > allowed - held:  # else the solver proved it by other means than this bound
            least = format_bytes(proof.bound.bytes)
            proved = f"it is proved that the ops of any schedule request at least {least}{beside}"
        return f"{proved}, {_PROVED_OF}{_loop(graph, tried)}"
    if tried is None:
        return "none was found"
    requested = tried.requested_bytes(graph)
    if requested > allowed - held:
        least = f"{format_bytes(requested)}{beside}"
        return f"none was found that requests less than {least}{_loop(graph, tried)}"
    if tried.found.source is PeakSource.PREDICTED:
        return f"its ops request {format_bytes(requested)}, and the allocator is taken to hold more"
    lost = format_bytes(tried.own_bytes - requested)
    loops = loops_of(graph)
    inside = f", or used inside the loop {loops[0]!r}, which is not seen before it runs" if loops else ""
    return (
        f"its ops request only {format_bytes(requested)}, and {lost} are lost between the allocator's chunks "
        f"(fragmentation){inside}"
    )


def loops_of(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops if not _LOOPS.isdisjoint(op.type.split("+"))]


def _loop(graph: Graph, tried: TriedStep | None) -> str:
    """Return a sentence if the peak lies in a loop, whose inside no schedule can change."""
    if tried is None:
        return ""
    schedule = tried.on(graph)
    op = graph.ops[int(schedule.steps[int(simulate(graph, schedule).live_bytes.argmax())])]
    if _LOOPS.isdisjoint(op.type.split("+")):
        return ""
    if _PART.search(op.name):
        return f"\nthe peak is in {op.name!r}, a part of a loop"
    return f"\nthe peak is in the loop {op.name!r}, whose inside is not scheduled"


def remedy(peak_bytes: int) -> str:
    return f"raise the budget to {format_bytes_up(int(peak_bytes * _MARGIN))}"


def not_planned(layout: BatchLayout, hint: str) -> UsageError:
    """Return the error for a step without a plan in a traced function."""
    layout.require_plannable()
    return UsageError(
        f"the step was called inside a tf.function with a {layout.describe()} that it has no plan for",
        hint=hint,
    )
