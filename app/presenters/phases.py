"""The phases of a profile or an export: which are done, which one runs, and which will come."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from checkmate.runner import TORCH, Runner


@dataclass(frozen=True)
class Phase:
    """A phase of a job. ``stages``: the stages of its progress reports. ``certain``: whether it always
    comes."""

    title: str
    stages: tuple[str, ...]
    certain: bool = True


PROFILE = (
    Phase("Load the model", ("load",)),
    Phase("Trace the training step", ("trace",)),
    Phase("Fold it into a graph", ("fold",)),
    Phase("Measure every op on this device", ("measure",)),
)
_BEGIN = Phase("Load the model", ("load",)), Phase("Trace the training step", ("trace", "fold"))
_PLAIN, _RUN = Phase("Measure the plain step", ("measure",)), Phase("Measure the schedule", ("run",))
_SOLVE = Phase("Solve for a smaller schedule", ("solve", "prepare"), certain=False)
_COMPILE = Phase("Compile schedules until one keeps the budget", ("compile", "solve", "prepare"))
_WRITE = (  # it is compared and saved at the same time
    Phase("Compare gradients, write the SavedModel", ("verify", "export")),
    Phase("Reload and measure it, with TensorFlow alone", ("reload",)),
)
_HALVES = Phase("Write the two halves, and run them again", ("export",))
_JAX = Phase("Run it beside the plain step", ("verify",)), Phase("Write it, read it again", ("export",))


def export_phases(runner: Runner) -> tuple[Phase, ...]:
    if not runner.metered:
        return (*_BEGIN, _COMPILE, *_JAX)
    if runner.backend == TORCH:
        return (*_BEGIN, _PLAIN, _SOLVE, _RUN, _HALVES)
    middle = (_COMPILE, _PLAIN, _RUN) if runner.compiled else (_PLAIN, _SOLVE, _RUN)
    return (*_BEGIN, *middle, *_WRITE)


@dataclass(frozen=True)
class PhaseRow:
    mark: str
    title: str
    seconds: str = ""


DONE, PRESENT, COMING, BROKEN = "✓●○✕"
_LISTED = 12  # that have begun; of more, the first become one row


@dataclass(frozen=True)
class Story:
    """The course of a job through its phases. ``begun``: index in ``phases`` and start time of each phase
    that has begun; a phase may begin again. ``share``: how much of the current phase is done, if known."""

    phases: tuple[Phase, ...]
    begun: tuple[tuple[int, float], ...]
    share: float = 0.0

    def told(self, stage: str, done: float, total: float, now: float) -> Story:
        last = self.begun[-1][0]
        place = next((at for at, phase in enumerate(self.phases) if stage in phase.stages), last)
        passed = [at for at in range(last + 1, place) if self.phases[at].certain]
        begun = tuple((at, now) for at in (*passed, place) if at != last)
        return replace(self, begun=(*self.begun, *begun), share=done / total if total else 0.0)

    @property
    def coming(self) -> list[Phase]:
        return [phase for phase in self.phases[self.begun[-1][0] + 1 :] if phase.certain]

    @property
    def count(self) -> int:
        return len(self.begun) + len(self.coming)

    @property
    def finished(self) -> float:
        """The share of phases that are done."""
        return (len(self.begun) - 1 + self.share) / self.count

    def rows(self, now: float, mark: str = PRESENT) -> list[PhaseRow]:
        """``mark``: of the phase that began last."""
        ends, times = [*(at for _, at in self.begun[1:]), now], Counter[int]()
        rows: list[PhaseRow] = []
        for (place, began), end in zip(self.begun, ends, strict=True):
            times[place] += 1
            again = f", attempt {times[place]}" if times[place] > 1 else ""
            rows.append(PhaseRow(DONE, self.phases[place].title + again, f"{end - began:.0f} s"))
        rows[-1] = replace(rows[-1], mark=mark)
        if (more := len(rows) - _LISTED) > 0:
            spent = f"{ends[more] - self.begun[0][1]:.0f} s"
            rows = [PhaseRow(DONE, f"{more + 1} phases before", spent), *rows[more + 1 :]]
        return rows + [PhaseRow(COMING, phase.title) for phase in self.coming]
