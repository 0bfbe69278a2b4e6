"""Say in bytes what the user's budget is for a step."""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.progress import Progress
from checkmate.tf.training.plan import HEADROOM, PlanRequest, foreseen
from checkmate.tf.training.trials import Trials, Tried
from checkmate.units import format_bytes


@dataclass(frozen=True)
class Limit:
    """Hold what the allocator may show, in bytes.

    ``words`` say what that is of, where the user gave no bytes.
    """

    bytes: int
    words: str = ""


def limit_of(request: PlanRequest, trials: Trials) -> Limit:
    """Return what the allocator may show for the step of ``trials``.

    A share is of the plain step's measured peak, so that step is measured. All that the allocator holds
    counts, as it does for the budget. ``min`` is the least that was kept on the meter.

    Raises:
        TraceError, ProfileError, CycleError: the step could not be run or measured.
    """
    budget = request.budget
    if budget.bytes_ is not None:
        return Limit(budget.bytes_)
    if budget.share is None:
        return _least(request, trials)
    share = f"{100 * budget.share:g} %"
    plain = trials.run_plain(f": the budget is {share} of its peak")
    if plain is None or not plain.measured:
        peak = trials.everything + trials.held
        why = trials.why_not_plain or "no meter sees its tensors"
        words = (
            f"{share} of the {format_bytes(peak)} that keeping everything requests, because the plain step's "
            f"peak was not measured: {why}"
        )
        return Limit(budget.resolve(keep_everything_peak=peak, minimum=0), words)
    words = f"{share} of the plain step's {plain.found.peak_words(format_bytes(plain.peak_bytes))}"
    return Limit(budget.resolve(keep_everything_peak=plain.peak_bytes, minimum=0), words)


def _least(request: PlanRequest, trials: Trials) -> Limit:
    """Return the least that was kept on the meter.

    It is that of the schedules that request the least.
    """
    found: list[Tried] = []
    for what in ("the least memory that is known", "the least memory, with what was learned of its ops"):
        trials.report(Progress("solve", message="solving for the least memory"))
        schedule = request.least(trials.graph, trials.report).schedule
        steps = schedule.steps.tolist()
        if all(each.on(trials.step.graph).steps.tolist() != steps for each in found):
            found.append(trials.run(schedule, what))
    ran = [each for each in found if each.ran]
    if not ran:  # nothing less is known: the search says so
        return Limit(1 + trials.held, "the least memory")
    least = min(ran, key=lambda each: each.peak_bytes)
    how = "kept on the meter" if least.measured else "predicted"
    return Limit(
        int((least.own_bytes + foreseen(trials.step, trials.held)) / HEADROOM),
        f"the least that was {how}, with room for its variation",
    )
