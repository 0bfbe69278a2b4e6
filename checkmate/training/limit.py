"""Say in bytes what the user's budget is for a step."""

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

NOTABLE = 0.01  # of the budget: what others hold beside the step, if it is worth a word
_ALIKE = 1.02  # peaks of a plain step that differ by less are one, in words


@dataclass(frozen=True)
class Limit:
    """What the allocator may show, in bytes. ``words`` say what ``own`` is, where the user gave no bytes;
    ``further``: what else is to say of it. ``others``: what of it was added to a share for what others held
    when it was told.
    """

    bytes: int
    words: str = ""
    others: int = 0
    further: tuple[str, ...] = ()

    @property
    def own(self) -> int:
        """What is given to the step itself, or to all if in bytes."""
        return self.bytes - self.others

    def beside(self, more: int) -> Limit:
        return replace(self, bytes=self.bytes + more, others=self.others + more)


@dataclass
class Phases:
    """What the phases of a training have in common; one begins where a model is compiled again. ``largest``:
    the limit that gave a phase's step the most. ``beside``: by batch layout, bytes that others were seen to
    hold where that was more than foreseen: in ``fit`` the same arrays are copied to the device in one call
    and not in another.
    """

    largest: Limit | None = None
    beside: dict[Key, int] = field(default_factory=dict)

    def note(self, limit: Limit) -> None:
        if self.largest is None or limit.own > self.largest.own:
            self.largest = limit

    def widened(self, limit: Limit, plain: TriedStep | None) -> Limit:
        """Return ``limit``, or an earlier phase's where the plain step fits: the device must have that memory
        anyway.
        """
        most = self.largest
        if most is None or plain is None or not plain.measured:
            return limit
        if not limit.own < plain.peak_bytes - limit.others <= most.own:
            return limit
        return Limit(most.own + limit.others, "as in an earlier phase", limit.others)


class RisingLimit:
    """The limit of a training whose budget may be a share: of the largest step, by what this one requests. It
    does not rise because others hold more. ``now``: None until a first step tells.
    """

    def __init__(self, request: PlanRequest, phases: Phases) -> None:
        given = request.budget.bytes_
        self.now = None if given is None else Limit(given)
        self._phases, self._in_bytes, self._told_by = phases, given is not None, 0

    def tells(self, step: LiveStep) -> bool:
        return not self._in_bytes and _everything(step) > self._told_by

    def would_be(self, limit: Limit, plain: TriedStep | None) -> Limit:
        """Return the limit as it would be after a step has set its own."""
        widened = self._phases.widened(limit, plain)
        return widened if self.now is None or widened.own > self.now.own else self.now

    def told(self, step: LiveStep, limit: Limit, plain: TriedStep | None = None) -> bool:
        """Take what ``step`` told; return whether the limit rose. ``plain``: the step as measured without a
        schedule.
        """
        self._told_by = max(self._told_by, _everything(step))
        before, self.now = self.now, self.would_be(limit, plain)
        rose = self.now is not before
        if rose:
            self._phases.note(self.now)
        return rose


def _everything(step: LiveStep) -> int:
    return simulate(step.graph, step.everything).peak_bytes


def limit_of(request: PlanRequest, trials: Trials) -> Limit:
    """Return what the allocator may show for the step of ``trials``. A share is of what the plain step takes
    by itself, so that step is measured; of what it takes as the user wrote it, where its own recomputation
    was taken out and that is less. TensorFlow orders the ops of a plain step anew in each run, and its
    peak varies: a share is of the lowest. What others hold is added: a share asks the same of the step beside
    another model. ``min`` is the least that was kept on the meter.
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
    """Return the bytes that a share is of. For 100 % and more, these are all that plain training takes."""
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
    if not ran:  # nothing less is known: the search says so
        return Limit(1 + trials.held, "the least memory")
    least = min(ran, key=lambda each: each.peak_bytes)
    how = "kept on the meter" if least.measured else "predicted"
    return Limit(
        int((least.own_bytes + foreseen(trials.step, trials.held)) / HEADROOM),
        f"the least that was {how}, with room to vary",
    )
