"""Reports on a schedule that was checked, and on a run that was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Violation:
    """One broken rule. ``step`` is the position in the schedule; None for the schedule as a whole."""

    message: str
    step: int | None = None


@dataclass(frozen=True)
class CheckReport:
    """The result of an independent replay; peak (with fixed bytes) and cost are the checker's own."""

    violations: tuple[Violation, ...]
    peak_bytes: int
    peak_step: int | None
    cost: float
    base_cost: float
    recomputations: int
    budget_bytes: int | None = None

    @property
    def valid(self) -> bool:
        """Return whether every rule holds; the budget is a separate question."""
        return not self.violations

    @property
    def within_budget(self) -> bool:
        return self.budget_bytes is None or self.peak_bytes <= self.budget_bytes

    @property
    def ok(self) -> bool:
        return self.valid and self.within_budget


@dataclass(frozen=True)
class VerificationReport:
    """Loss, gradients, peak and time of the emitted step beside the plain one.

    ``checkmate-report`` stores these fields.

    ``gradients``, ``loss``, ``peak_bytes``, ``seconds``: as in the format; a quantity that was not measured
    is None.
    ``budget_bytes``: the user's budget: what the device's allocator may show.
    ``plain``: whether the plain step fits, why not if it does not, and the largest batch tried at which it
    does.
    ``settings``: the ``kernels`` that ran, and ``metered_from``: the smallest request in bytes that the meter
    sees.
    ``live_bytes``: requested bytes per step of the schedule, measured, or as XLA assigned them.
    """

    model: str
    device: str
    batch_size: int | None
    budget_bytes: int
    gradients: Mapping[str, Any]
    loss: Mapping[str, float | None]
    peak_bytes: Mapping[str, int | None]
    seconds: Mapping[str, float | None]
    recomputations: int
    steps: int
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    plain: Mapping[str, Any] = field(default_factory=dict)
    live_bytes: tuple[int, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether gradients agree, the peak is within the budget, and so on."""
        return not self.problems


@dataclass(frozen=True, eq=False)
class MeasuredSchedule:
    """What a measured run of ``steps`` showed.

    ``live_bytes``: requested bytes per step, fixed bytes included, or as XLA assigned them.
    ``peak_bytes``: the peak of the allocator's meter.
    ``seconds``: time of one warm step.
    ``device``: the device's name.
    """

    steps: tuple[int, ...]
    live_bytes: tuple[int, ...]
    peak_bytes: int
    seconds: float
    device: str = ""
