"""Say in one sentence what was planned, and why nothing better was found."""

from __future__ import annotations

import re

from checkmate.errors import NoScheduleError, UsageError
from checkmate.ir.graph import Graph
from checkmate.memory.simulate import simulate
from checkmate.tf.models.batch import BatchLayout
from checkmate.tf.training.elsewhere import HOW_TO_METER
from checkmate.tf.training.measure import PeakSource, StepMeasurement
from checkmate.tf.training.plans.limit import NOTABLE, Limit
from checkmate.tf.training.plans.plan import Least
from checkmate.tf.training.plans.trials import Trials, TriedStep
from checkmate.units import format_bytes, format_bytes_apart, format_bytes_up, format_overhead, plural

_LOOPS = frozenset(("While", "StatelessWhile"))
_PART = re.compile(r"_\d+_of_\d+$")  # how the name of a part of a split loop ends
_MARGIN = 1.02  # of a measured peak: what a budget should allow, since the peak varies


def sentence_of(trials: Trials, tried: TriedStep, limit: Limit, proof: Least | None, what: str) -> str:
    """Say what was planned.

    ``what``: what runs. ``proof``: no schedule requests as few bytes as the budget.
    """
    if tried.peak_bytes > limit.bytes:
        miss = "no schedule that was tried keeps the budget, so the closest one trains"
        if proof is not None:
            miss = "no schedule can keep the budget, so the one with the least memory known trains"
        why = why_missed(trials.graph, tried, allowed=limit.bytes, held=trials.held, proof=proof)
        said = f"{miss}: {_over(tried, limit.bytes)}{_base(trials, limit)}; {what}; {why}; "
        said += remedy(tried.peak_bytes)
    else:
        said = f"{what}; {_peak(tried.found, limit.bytes)}{_base(trials, limit)}"
    how = "" if trials.metered else f"; this process has no memory meter: {HOW_TO_METER}"
    return f"{trials.step.layout.describe()}: {said}{how}"


def nothing_to_save(trials: Trials, plain: TriedStep, limit: Limit, bound: int) -> str:
    """Say that plain training goes on over the budget.

    ``bound``: it is proved that any schedule requests at least as many bytes.
    """
    kept, least = format_bytes(trials.everything), format_bytes(bound)
    how = "" if trials.metered else f"; this process has no memory meter: {HOW_TO_METER}"
    return (
        f"{trials.step.layout.describe()}: plain training, without recomputation, which saves nothing here: "
        f"keeping everything requests {kept}, and it is proved that any schedule requests at least {least}; "
        f"{_over(plain, limit.bytes)}{_base(trials, limit)}; a smaller batch takes less{how}"
    )


def impossible(
    trials: Trials, closest: TriedStep | None, allowed: int, least: Least | None, *, proved: bool
) -> NoScheduleError:
    """Return the error for a budget that is not kept.

    ``closest`` is what comes nearest to it; None: nothing was run.
    """
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
        f"{trials.step.name!r} with a {trials.step.layout.describe()} within {format_bytes(allowed)}: "
        f"{why}; the least that is known takes about {format_bytes(needed)} ({how})",
        hint=remedy(needed),
        details={"budget_bytes": allowed, "needed_bytes": needed},
    )


def _base(trials: Trials, limit: Limit) -> str:
    """Say what the budget is of, or what there is to compare it with."""
    if limit.words:
        return f" ({limit.words})"
    if trials.plain is not None and trials.plain.measured:
        return f" (the plain step's {trials.plain.found.peak_words(format_bytes(trials.plain.peak_bytes))})"
    return f" (keeping everything requests {format_bytes(trials.everything)})"


def what_runs(graph: Graph, tried: TriedStep) -> str:
    """Return recomputations and extra computation in words."""
    if tried.schedule is None:
        return "plain training, without recomputation"
    count = plural(len(tried.schedule.steps) - graph.n, "recomputation")
    return f"{count}, {format_overhead(tried.cost(graph), graph.base_cost)} computation"


def _peak(found: StepMeasurement, allowed: int) -> str:
    """Return the peak beside the budget in words, and how it is known."""
    peak, budget = format_bytes_apart(found.peak_bytes, allowed)
    if found.source is PeakSource.FRESH_PROCESS:
        return f"peak {peak}, {found.source.value}, of {budget}"
    return f"{found.source.value} peak {peak} of {budget}"


def _over(tried: TriedStep, allowed: int) -> str:
    """Say by how much the closest step is over the budget."""
    peak, budget = format_bytes_apart(tried.peak_bytes, allowed)
    over = tried.peak_bytes - allowed
    share = f"{100 * over / max(1, allowed):.1f} %"
    how = tried.found.source
    said = f"peak {peak} {how.value}" if how is PeakSource.FRESH_PROCESS else f"{how.value} peak {peak}"
    return f"{said}, {format_bytes(over)} ({share}) over the budget of {budget}"


def why_missed(graph: Graph, tried: TriedStep | None, *, allowed: int, held: int, proof: Least | None) -> str:
    """Return the reason why nothing was found within ``allowed`` bytes.

    ``tried`` is the closest that was measured. ``held`` is what others hold beside the step. ``proof``: no
    schedule requests as few bytes as there are.
    """
    beside = f" beside the {format_bytes(held)} that others hold" if held > NOTABLE * allowed else ""
    if proof is not None and tried is not None and tried.measured and tried.own_bytes < proof.bound_bytes:
        least = format_bytes(proof.bound_bytes)  # some op takes less than it is counted with
        return f"its ops were counted with at least {least}, more than was measured, so nothing is proved"
    if proof is not None:
        proved = "it is proved that no schedule requests so few bytes"
        if proof.bound_bytes > allowed - held:  # what the solver proved may be more than this bound
            least = format_bytes(proof.bound_bytes)
            proved = f"it is proved that the ops of any schedule request at least {least}{beside}"
        return f"{proved}{_loop(graph, tried)}"
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
    """Return the names of loops and of parts of loops."""
    return [op.name for op in graph.ops if not _LOOPS.isdisjoint(op.type.split("+"))]


def _loop(graph: Graph, tried: TriedStep | None) -> str:
    """Say so where the peak lies in a loop, which no schedule can change."""
    if tried is None:
        return ""
    schedule = tried.on(graph)
    op = graph.ops[int(schedule.steps[int(simulate(graph, schedule).live_bytes.argmax())])]
    if _LOOPS.isdisjoint(op.type.split("+")):
        return ""
    if _PART.search(op.name):
        return f"; the peak is in {op.name!r}, a part of a loop"
    return f"; the peak is in the loop {op.name!r}, whose inside is not scheduled"


def remedy(peak_bytes: int) -> str:
    """Say what budget would do."""
    return f"raise the budget to {format_bytes_up(int(peak_bytes * _MARGIN))} or more, or use a smaller batch"


def not_planned(layout: BatchLayout, hint: str) -> UsageError:
    """Return the error for a step without a plan in a traced function.

    Raises:
        TraceError: there can be no plan for it.
    """
    layout.require_plannable()
    return UsageError(
        f"the step was called inside a tf.function with a {layout.describe()} that it has no plan for",
        hint=hint,
    )
