"""Choose among the schedules of a step that an earlier run measured.

Other allocations may hold more or less of the device now than then. So the earlier peaks are shifted by the
difference, and the cheapest schedule that fits is taken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from checkmate.backends.tf.live.measure import PeakSource, StepMeasurement
from checkmate.ir import CostUnit, Graph, Schedule
from checkmate.machine.plan_store import KeptPlan, KeptTrial
from checkmate.planning.plan_request import PlanRequest
from checkmate.request import OnMiss
from checkmate.training.limit import Limit, limit_of
from checkmate.training.neighbour import with_measured
from checkmate.training.plan import StepPlan, read_ahead
from checkmate.training.search import PlanSearch
from checkmate.training.trials import Trials, TriedStep
from checkmate.units import format_bytes

WHENCE = "; from an earlier run's plan"
_LESS = 0.15  # of the budget: if more is unused, a search may find a cheaper plan
_LEAST_APART = 2**20  # bytes: smaller changes of other allocations do not count
_ALIKE = 0.01  # of the budget: rooms that differ by less count as equal
_GAIN = 0.005  # of the step's cost: a search for a smaller gain is not worth it
_MOST_TRIED = 8
_RUNS = 2  # a kept plan that takes too much runs twice: at first, free chunks may lie differently
_DIGITS = 5  # of the seconds of an op that are kept


def shift_of(kept: KeptPlan, trials: Trials) -> int:
    """Return how much more other allocations hold now than when ``kept`` was measured; 0 if the plan fits
    anyway and the difference may be just the batches that a data set has prepared."""
    more = trials.others - kept.held_bytes
    fits = kept.over_bytes or kept.peak_bytes + max(0, more) <= kept.limit_bytes
    return 0 if fits and abs(more) <= _apart(trials.step.graph) else more


def recall(trials: Trials, kept: KeptPlan) -> None:
    """Add the measurements in ``kept`` to ``trials``, with peaks shifted by what others hold now."""
    graph, shift = trials.step.graph, shift_of(kept, trials)
    tried = [_tried(each, graph, shift) for each in _with_plan(kept)]
    trials.recall(tried, _learned_graph(kept, graph), kept.rate or None, in_turn=kept.in_turn)
    trials.as_written = None if kept.as_written is None else _tried(kept.as_written, graph, shift)


def _tried(kept: KeptTrial, graph: Graph, shift: int) -> TriedStep:
    schedule = None if kept.steps is None else Schedule.of(graph, list(kept.steps))
    held = max(0, kept.held_bytes + shift)
    moved = held - kept.held_bytes
    found = StepMeasurement(
        kept.peak_bytes + moved,
        held,
        source=PeakSource(kept.source),
        least_bytes=kept.least_bytes + moved,
        constant_bytes=kept.constant_bytes,
        seconds=kept.seconds,
        op_seconds=kept.op_seconds,
    )
    return TriedStep(schedule, found, held, kept.in_turn)


def known_limit(kept: KeptPlan, request: PlanRequest, trials: Trials) -> Limit | None:
    """Return the limit that this step sets, from earlier measurements; None if they do not tell it."""
    if request.budget.share is None:
        return Limit(kept.limit_bytes + shift_of(kept, trials), kept.limit_words)
    return None if trials.plain is None else limit_of(request, trials)


def known_plan(search: PlanSearch, kept: KeptPlan) -> StepPlan | None:
    """Return the best plan among earlier measurements. None if a search is needed: nothing fits beside the
    other allocations, or they leave far more room than any search was made for."""
    return _as_it_was(search, kept) or _chosen_anew(search, kept)


def measured_again(search: PlanSearch, plan: StepPlan) -> StepPlan | str:
    """Return ``plan`` with its peak measured in this process, or a sentence if that is too much. A plain
    step, and any step in a process without a meter, is not measured again. If the budget is a share, growth
    of other allocations since the limit was set does not count."""
    trials = search.trials
    if plan.schedule is None or not trials.metered:
        return plan
    most, trials.in_turn = search.allowed, plan.in_turn
    if plan.over_bytes:  # it never fitted; it was the closest
        most = max(most, plan.peak_bytes + int(_ALIKE * search.allowed))
    for _ in range(_RUNS):
        tried = trials.run(plan.schedule, "an earlier run's plan", within=most, keep=True)
        more = search.come_since(tried) if tried.peak_bytes > most else 0
        if tried.ran and tried.peak_bytes <= most + more:
            break
    else:
        trials.ready = None  # its constants would count in the next measurements
        held = f"its step held {format_bytes(tried.peak_bytes)}" if tried.ran else "its step could not be run"
        why = f"{held} in this process, and {format_bytes(plan.peak_bytes)} were expected"
        return not_used(search, why)
    search.leave_room(more)
    now = search.plan_of(tried)
    sentence = f"{plan.sentence}\nits step held {format_bytes(now.peak_bytes)} now"
    return dataclasses.replace(now, sentence=sentence, ready=trials.ready, overhead=plan.overhead)


def why_searched(search: PlanSearch, kept: KeptPlan) -> str:
    """Return a sentence on why a search is needed although a plan was kept."""
    more = shift_of(kept, search.trials)
    why = "nothing that was measured then keeps to the budget with room to spare"
    if search.request.budget.share is not None:
        why = "the budget is another one than then, because it is a share of the largest batch"
    if more:
        why = f"others hold {format_bytes(abs(more))} {'more' if more > 0 else 'less'} than then"
    return not_used(search, why)


def not_used(search: PlanSearch, why: str) -> str:
    layout = search.trials.step.layout
    return f"{layout.describe()}: a kept plan is not used: {why}; the step is planned anew"


def planned(kept: KeptPlan, graph: Graph) -> Schedule:
    return Schedule.plain(graph) if kept.steps is None else Schedule.of(graph, list(kept.steps))


def facts_of(trials: Trials, rooms: Sequence[int]) -> KeptPlan:
    """Return the measurements of ``trials`` for later runs, without a plan. ``rooms``: the bytes for the step
    alone for which a search was completed."""
    known = trials.learned is not None and trials.graph.cost_unit is CostUnit.SECONDS
    return KeptPlan(
        steps=None,
        rate=trials.rate if trials.known else 0.0,
        tried=tuple(_kept_trial(each) for each in _worth_keeping(trials)),
        seconds=tuple(float(f"{op.cost:.{_DIGITS}g}") for op in trials.graph.ops) if known else (),
        scratch=tuple(op.workspace_bytes for op in trials.graph.ops) if known else (),
        rooms=tuple(rooms),
        in_turn=trials.in_turn,
        as_written=None if trials.as_written is None else _kept_trial(trials.as_written),
    )


def seen_over(kept: KeptPlan, plan: StepPlan, peak_bytes: int) -> KeptPlan:
    """Return ``kept`` with the higher peak that ``plan`` reached in training. ``rooms`` is emptied, because
    the plans found for these rooms may exceed them."""
    own = peak_bytes - plan.held_bytes
    tried = tuple(
        dataclasses.replace(each, peak_bytes=max(each.peak_bytes, own + each.held_bytes))
        if (each.steps, each.in_turn) == (plan.steps, plan.in_turn)
        else each
        for each in kept.tried
    )
    return dataclasses.replace(kept, tried=tried, rooms=())


def _as_it_was(search: PlanSearch, kept: KeptPlan) -> StepPlan | None:
    """Return the kept plan if budget and other allocations are the same as then."""
    trials = search.trials
    kept_well = kept.over_bytes or kept.peak_bytes <= kept.limit_bytes
    alike = not shift_of(kept, trials) and search.allowed == kept.limit_bytes
    if not (kept_well and alike and kept.sentence):
        return None
    same = (each for each in trials.all if each.steps == kept.steps and each.in_turn == kept.in_turn)
    tried = next(same, None)
    if tried is None or tried.peak_bytes > max(kept.peak_bytes, kept.limit_bytes):
        return None
    how = "measured" if kept.measured else "predicted"
    sentence = _from_before(kept.sentence, f"it was {how} then, {kept.date}")
    return dataclasses.replace(search.plan_of(tried), sentence=sentence)


def _chosen_anew(search: PlanSearch, kept: KeptPlan) -> StepPlan | None:
    trials = search.trials
    found = None
    if trials.plain is not None:
        found = search.plain()  # runs nothing, because the plain step's peak is known
    if found is None:
        for search.cautious in (True, False):
            if search.best_fitting() is not None:
                break
        else:
            search.cautious = True
        best = search.best_fitting()
        known = _missed(search, kept) if best is None else _good_enough(search, kept, best)
        found = search.best_known() if known else None
    if found is None or not kept.date:
        return found
    more = shift_of(kept, trials)
    beside = f"others hold {format_bytes(abs(more))} {'more' if more > 0 else 'less'} than then"
    since = beside if more else "the budget changed"
    why = f"it was chosen among what was measured then, {kept.date}, since {since}"
    return dataclasses.replace(found, sentence=_from_before(found.sentence, why))


def _from_before(sentence: str, how: str) -> str:
    line, *further = sentence.splitlines()
    return "\n".join([f"{line}{WHENCE}", *further, how])


def _good_enough(search: PlanSearch, kept: KeptPlan, best: TriedStep) -> bool:
    """Whether to use ``best`` without a search for a cheaper one."""
    near = max(int(_LESS * search.allowed), _apart(search.trials.step.graph))
    graph = search.trials.graph
    return (
        search.room - best.own_bytes <= near
        or any(abs(room - search.room) <= near for room in kept.rooms)
        or search.trials.cost(best) - graph.base_cost <= _GAIN * graph.base_cost
    )


def _missed(search: PlanSearch, kept: KeptPlan) -> bool:
    """Whether an earlier search for about as much room found nothing that fits."""
    ran = [each.own_bytes for each in search.trials.all if each.ran]
    if not ran or search.request.on_miss is OnMiss.RAISE:
        return False
    least, alike = min(ran), int(_ALIKE * search.allowed)
    return any(search.room - alike <= room < least for room in kept.rooms)


def _with_plan(kept: KeptPlan) -> tuple[KeptTrial, ...]:
    if not kept.sentence or any(each.steps == kept.steps for each in kept.tried):
        return kept.tried
    source = PeakSource.HERE if kept.measured else PeakSource.PREDICTED
    peak, in_turn = kept.peak_bytes, kept.in_turn
    plan = KeptTrial(kept.steps, peak, peak, kept.held_bytes, source.value, in_turn=in_turn)
    return (*kept.tried, plan)


def _learned_graph(kept: KeptPlan, graph: Graph) -> Graph | None:
    if not len(kept.seconds) == len(kept.scratch) == graph.n:
        return None
    return with_measured(graph, kept.seconds, kept.scratch)


def _worth_keeping(trials: Trials) -> list[TriedStep]:
    """Return the plain step, and the schedules on the frontier of bytes and cost."""
    ran = [each for each in trials.all if each.ran]
    plain = [each for each in ran if each.schedule is None]
    best: list[TriedStep] = []
    for each in sorted((each for each in ran if each.schedule is not None), key=trials.cost):
        if not best or each.own_bytes < min(other.own_bytes for other in best):
            best.append(each)
    return [*plain[:1], *best[-_MOST_TRIED:]]


def _kept_trial(tried: TriedStep) -> KeptTrial:
    return KeptTrial(
        steps=tried.steps,
        peak_bytes=tried.peak_bytes,
        least_bytes=tried.least_bytes,
        held_bytes=tried.others_bytes,
        source=tried.found.source.value,
        constant_bytes=tried.found.constant_bytes,
        seconds=tried.found.seconds,
        op_seconds=tried.found.op_seconds,
        in_turn=tried.in_turn,
    )


def _apart(graph: Graph) -> int:
    return max(_LEAST_APART, 2 * read_ahead(graph))
