from __future__ import annotations

from checkmate.backends.tf.live.trace import LiveStep
from checkmate.backends.tf.memory_check import require_room
from checkmate.backends.tf.models.batch import Key
from checkmate.errors import StepTooLargeError
from checkmate.machine.plan_store import KeptPlan
from checkmate.planning.plan_request import PlanRequest
from checkmate.training.kept import forget, keep, kept_of, look_up, name_of
from checkmate.training.known import facts_of, planned, seen_over
from checkmate.training.limit import Limit
from checkmate.training.plan import StepPlan
from checkmate.training.search import PlanSearch

_MOST_ROOMS = 20


class PlanMemory:
    """What was measured of the steps of one training, by batch layout, by earlier runs too."""

    def __init__(self, request: PlanRequest) -> None:
        self._request = request
        self._names: dict[Key, str] = {}  # of plans that are kept for later runs
        self._kept: dict[Key, str] = {}  # the name under which the store has the plan
        self._facts: dict[Key, KeptPlan] = {}

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
        """Return what was measured of ``step``, if it has room now."""
        key = step.layout.key
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
        """Forget what was known of ``step``: it held more when it ran. No later run may use it."""
        self._facts.pop(step.layout.key, None)
        forget(self.name_of(step), self._request)

    def note(self, search: PlanSearch) -> None:
        """Remember what ``search`` measured, and that it is over."""
        key = search.trials.step.layout.key
        before = self._facts.get(key)
        rooms = () if before is None else before.rooms
        self._facts[key] = facts_of(search.trials, [*rooms, search.room][-_MOST_ROOMS:])

    def keep(self, plan: StepPlan, limit: Limit) -> None:
        """Keep ``plan`` for later runs, if it has a name and something true is known of its step."""
        key = plan.layout.key
        if plan.name and key in self._facts:
            self._facts[key] = kept_of(plan, limit, self._facts[key])
            keep(plan.name, self._facts[key], self._request)
            self._kept[key] = plan.name

    def uses_kept(self, step: LiveStep) -> None:
        self._kept[step.layout.key] = self.name_of(step)

    def seen_over(self, plan: StepPlan, peak_bytes: int) -> None:
        """Remember that ``plan`` was seen at ``peak_bytes``, over the budget; no later run may use it as it
        is kept.
        """
        key = plan.layout.key
        if key in self._kept:
            forget(self._kept.pop(key), self._request)
        if key in self._facts:
            self._facts[key] = seen_over(self._facts[key], plan, peak_bytes)
