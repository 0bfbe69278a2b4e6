"""The user's budget for a step, in bytes. *Others* are all allocations on the device that are not the
step's."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from checkmate.backends.tf.live.trace import LiveStep
from checkmate.backends.tf.models.batch import Key
from checkmate.memory.simulate import simulate
from checkmate.planning.plan_request import PlanRequest
from checkmate.progress import Progress
from checkmate.training.plan import HEADROOM, foreseen
from checkmate.training.trials import Trials, TriedStep
from checkmate.units import format_bytes

NOTABLE = 0.01  # of the budget: other allocations are mentioned if they take more
_ALIKE = 1.02  # the highest of several plain peaks is mentioned if it is this many times the lowest


@dataclass(frozen=True)
class Limit:
    """What the allocator may show, in bytes. ``words``: what ``own`` is, if the budget was not given in
    bytes; ``further``: more sentences on it. ``others``: the part of ``bytes`` that was added to a share,
    because other allocations held it when the limit was set."""

    bytes: int
    words: str = ""
    others: int = 0
    further: tuple[str, ...] = ()

    @property
    def own(self) -> int:
        """The bytes for the step itself; for a budget in bytes, for the step and all others together."""
        return self.bytes - self.others

    def beside(self, more: int) -> Limit:
        return replace(self, bytes=self.bytes + more, others=self.others + more)


@dataclass
class Phases:
    """What the phases of a training share; a new phase begins when the model is compiled again. ``largest``:
    the limit of the phase with the largest ``own``. ``beside``: batch layout → bytes that others held in
    training, if more than foreseen (``fit`` copies the same arrays to the device in one call, but not in
    another)."""

    largest: Limit | None = None
    beside: dict[Key, int] = field(default_factory=dict)

    def note(self, limit: Limit) -> None:
        if self.largest is None or limit.own > self.largest.own:
            self.largest = limit

    def widened(self, limit: Limit, plain: TriedStep | None) -> Limit:
        """Return ``limit``, or an earlier phase's larger one if the plain step fits only that: the earlier
        phase needs that memory anyway."""
        most = self.largest
        if most is None or plain is None or not plain.measured:
            return limit
        if not limit.own < plain.peak_bytes - limit.others <= most.own:
            return limit
        return Limit(most.own + limit.others, "as in an earlier phase", limit.others)


class RisingLimit:
    """The limit of a training. A share is of the largest step so far (by the bytes that keeping everything
    requests), so the limit may rise, but not because others hold more. ``now``: None until a step has set
    it."""

    def __init__(self, request: PlanRequest, phases: Phases) -> None:
        given = request.budget.bytes_
        self.now = None if given is None else Limit(given)
        self._phases, self._in_bytes, self._told_by = phases, given is not None, 0

    def tells(self, step: LiveStep) -> bool:
        return not self._in_bytes and _everything(step) > self._told_by

    def would_be(self, limit: Limit, plain: TriedStep | None) -> Limit:
        """Return what the limit would become if a step set it to ``limit``."""
        widened = self._phases.widened(limit, plain)
        return widened if self.now is None or widened.own > self.now.own else self.now

    def told(self, step: LiveStep, limit: Limit, plain: TriedStep | None = None) -> bool:
        """Let ``step`` set the limit; return whether it rose. ``plain``: the plain step's measurement."""
        self._told_by = max(self._told_by, _everything(step))
        before, self.now = self.now, self.would_be(limit, plain)
        rose = self.now is not before
        if rose:
            self._phases.note(self.now)
        return rose


def _everything(step: LiveStep) -> int:
    return simulate(step.graph, step.everything).peak_bytes


def limit_of(request: PlanRequest, trials: Trials) -> Limit:
    """Return what the allocator may show for the step of ``trials``.

    A share is of the plain step's own measured bytes; or of those of the step with the user's own
    recomputation, if that is less. The plain peak varies, because TensorFlow orders its ops anew in each run:
    a share is of the lowest. What others hold is added, so that a share means the same beside another model.
    ``min`` is the lowest peak measured for schedules of least memory.
    """
    budget = request.budget
    if budget.bytes_ is not None:
        return Limit(budget.bytes_)
    if budget.share is None:
        return _least(request, trials)
    share = f"{100 * budget.share:g} %"
    tried = trials.run_plain(f": the budget is {share} of its peak")
    plain = tried if tried is not None and tried.measured else None
    if plain is not None:
        others, own, most = plain.others_bytes, _own(plain, budget.share), plain.own_bytes
        words, further = f"{share} of the plain {format_bytes(own)}", list[str]()
    else:
        others, own, most = trials.held, trials.everything, trials.everything
        words = f"{share} of the {format_bytes(own)} requested"
        why = trials.why_not_plain or "no meter sees its tensors"
        further = [
            "what keeping everything requests counts",
            f"the plain step's peak was not measured: {why}",
        ]
    written = trials.run_as_written()
    if written is not None and _own(written, budget.share) < own:
        further.append(f"without its own recomputation the step takes {format_bytes(own)}")
        own, most = _own(written, budget.share), written.own_bytes
        words = f"{share} of the {format_bytes(own)} as written"
    if most > _ALIKE * own:
        lowest = "the plain step's lowest peak of several runs counts"
        further.append(f"{lowest}; the highest was {format_bytes(most)}")
    allowed = budget.resolve(keep_everything_peak=own, minimum=0)
    return Limit(others + allowed, words, others, tuple(further))


def _own(tried: TriedStep, share: float) -> int:
    """Return the bytes that a share refers to: the lowest peak, but from 100 % on the highest one, so that
    plain training fits."""
    return tried.own_bytes if share >= 1 else tried.least_own_bytes


def _least(request: PlanRequest, trials: Trials) -> Limit:
    """Return the lowest peak of the schedules that request the least memory."""
    found: list[TriedStep] = []
    for what in ("the least memory that is known", "the least memory, with what was learned of its ops"):
        trials.report(Progress("solve", message="solving for the least memory"))
        schedule = request.solver_for(trials.report).minimum(trials.graph).schedule
        steps = schedule.steps.tolist()
        if all(each.on(trials.step.graph).steps.tolist() != steps for each in found):
            found.append(trials.run(schedule, what))
    ran = [each for each in found if each.ran]
    if not ran:  # no limit is known; with this one the search fails and says why
        return Limit(1 + trials.held, "the least memory")
    least = min(ran, key=lambda each: each.peak_bytes)
    how = "kept on the meter" if least.measured else "predicted"
    return Limit(
        int((least.own_bytes + foreseen(trials.step, trials.held)) / HEADROOM),
        f"the least that was {how}, with room to vary",
    )
