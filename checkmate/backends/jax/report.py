"""What is known of a scheduled JAX step."""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.backends.jax.compiled import StepMemory
from checkmate.ir import SolveStatus
from checkmate.units import format_bytes, format_bytes_apart, format_bytes_up, plural


@dataclass(frozen=True)
class JaxReport:
    """What was asked, and what XLA's compiled step takes.

    ``budget_bytes`` is what the whole compiled step may hold: arguments, results and temporary buffers.
    ``plain`` and ``reached`` (the plain and the scheduled step) were compiled, not run. ``base``: what a
    budget in percent refers to: ``plain``, or the step with the user's own recomputation.
    ``predicted_overhead``: the extra cost by counted operations and bytes, a fraction. ``status`` and
    ``gap``: the solver's, for the graph's model of memory. ``compilations``: how many; they took
    ``compile_seconds``. ``recomputations``: how many fusions run again.
    """

    budget_bytes: int
    plain: StepMemory
    reached: StepMemory
    base: StepMemory
    predicted_overhead: float
    recomputations: int
    ops: int
    status: SolveStatus | None
    gap: float | None
    compilations: int
    compile_seconds: float
    solve_seconds: float

    @property
    def over_bytes(self) -> int:
        return max(0, self.reached.whole - self.budget_bytes)

    @property
    def is_plain(self) -> bool:
        return self.recomputations == 0 and self.reached == self.plain

    @property
    def sentence(self) -> str:
        whole, budget = format_bytes_apart(self.reached.whole, self.budget_bytes)
        plain = f"plain {format_bytes(self.plain.whole)}"
        if self.base != self.plain:
            plain = f"as written {format_bytes(self.base.whole)}, {plain}"
        if self.is_plain and not self.over_bytes:
            return f"{whole} of {budget}: training plainly fits (compiled, not run)"
        temp = f"{format_bytes(self.plain.temporary)} to {format_bytes(self.reached.temporary)}"
        extra = max(0.0, 100 * self.predicted_overhead)
        count = plural(self.recomputations, "recomputation")
        if self.over_bytes:
            over, enough = format_bytes(self.over_bytes), format_bytes_up(self.reached.whole)
            said = f"{whole}, over the budget of {budget} by {over}: {count}, predicted {extra:+.1f} %"
            return f"{said}; raise the budget to {enough} or more, or use a smaller batch"
        what = f"{count} among {plural(self.ops, 'op')}, predicted {extra:+.1f} %"
        return f"{whole} of {budget}: {what}; temporary {temp}, {plain} (compiled, not run)"
