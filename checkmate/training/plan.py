"""What is decided for a batch layout, and how the allocator's bytes relate to those that ops request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from checkmate.backends.tf.devices import has_meter, held_bytes
from checkmate.backends.tf.emit.set_aside import SmallChunks
from checkmate.backends.tf.live.measure import ReadyStep
from checkmate.backends.tf.live.trace import LiveStep
from checkmate.backends.tf.models.batch import BatchLayout
from checkmate.backends.tf.trace.sizes import tensor_bytes
from checkmate.ir import Graph, Schedule
from checkmate.memory.layers import activation_bytes
from checkmate.memory.simulate import simulate
from checkmate.training.memory_figures import MemoryFigures

# Allocated bytes per requested byte, before anything is measured: 1.02 to 1.17 on the networks tried.
FIRST_RATE = 1.15
# The share of the budget to plan for, because the same step's peak varies with the free chunks it finds.
HEADROOM = 0.98
_READ_AHEAD = 4  # batches that a data set prepares beside a step, as observed on two cores


class StepSubject(ABC):
    """A model's step, or a function, that is planned for each layout of what it is called with."""

    @abstractmethod
    def trace(
        self, layout: BatchLayout, tensors: Sequence[tf.Tensor] = (), *, for_xla: bool = False
    ) -> LiveStep:
        """Trace the step for a layout. ``tensors``: such a batch, to learn sizes that are known only at run
        time. ``for_xla``: XLA will compile the whole step."""

    @abstractmethod
    def plainly(self, layout: BatchLayout, tensors: Sequence[tf.Tensor]) -> Any:
        """Run the step without a schedule."""

    def finish(self, step: LiveStep, layout: BatchLayout, tensors: Sequence[tf.Tensor], found: Any) -> Any:
        """Return the result of a call, given the scheduled step's results ``found``."""
        return found


@dataclass(frozen=True, eq=False)
class StepPlan:
    """How the step of one layout runs.

    ``schedule``: None for the plain step. ``step``: None if there is nothing to schedule. ``peak_bytes``: on
    the allocator's meter; 0 if it shows nothing. ``sentence``: the first line is for the user, further lines
    are for the log. ``over_bytes``: by how much the peak exceeds the budget, if nothing better was found.
    ``held_bytes``: the part of the peak that other allocations held; ``foreseen_bytes``: what they may hold
    in training. ``small_chunks``: chunks set aside, as long as the plan exists. ``name``: to keep the plan
    under for later runs; empty if there is nothing new to keep. ``measured``: the peak was measured, else
    predicted. ``constant_bytes``: what the step's function keeps between runs. ``ready``: the measured
    function, if it also trains. ``came_bytes``: growth of other allocations since the limit of a share was
    set, which the allocator may show on top. ``overhead``: extra time as a share of the plain step's; None:
    not measured.
    """

    layout: BatchLayout
    step: LiveStep | None
    schedule: Schedule | None
    peak_bytes: int
    sentence: str
    over_bytes: int = 0
    held_bytes: int = 0
    foreseen_bytes: int = 0
    small_chunks: SmallChunks | None = None
    name: str = ""
    measured: bool = True
    constant_bytes: int = 0
    ready: ReadyStep | None = None
    came_bytes: int = 0
    overhead: float | None = None

    def figures(self, budget: int | None) -> MemoryFigures:
        """Return the figures for logs. An excess over the budget observed in training is included."""
        seen = 0 if budget is None or not self.over_bytes else budget + self.over_bytes
        peak = max(self.peak_bytes, seen) or None
        if self.step is None:
            return MemoryFigures(peak, budget)
        graph, schedule = self.step.graph, self.schedule or self.step.everything
        overhead = self.overhead
        if overhead is None:
            overhead = schedule.recomputations and float(simulate(graph, schedule).cost / graph.base_cost - 1)
        return MemoryFigures(peak, budget, activation_bytes(graph, schedule), overhead)

    @property
    def keeps_all(self) -> bool:
        return self.step is None or self.schedule is None or len(self.schedule.steps) == self.step.graph.n

    @property
    def in_turn(self) -> bool:
        """Whether its ops are made to run one after another."""
        return self.step is not None and self.step.folded.in_turn

    @property
    def steps(self) -> tuple[int, ...] | None:
        return None if self.schedule is None else tuple(self.schedule.steps.tolist())


def read_ahead(graph: Graph) -> int:
    """Return the bytes that prepared batches of a data set may hold beside the step."""
    return _READ_AHEAD * graph.fixed["inputs"]


def foreseen(step: LiveStep, held: int) -> int:
    """Estimate the memory that other allocations (models, data sets) will hold during training, if they hold
    ``held`` now: at least a data set's prepared batches, plus what variables' chunks have beyond their
    size."""
    return max(held, read_ahead(step.graph)) + _loose_bytes(step)


def _loose_bytes(step: LiveStep) -> int:
    """Return the most bytes by which a variable's chunk may exceed the variable. Unless it is updated in
    place, a variable takes over the buffer of its new value. That chunk may have nearly twice the requested
    bytes, because the allocator splits only larger ones. In 170 steps of a model whose largest averaged
    weights take 2 MiB, up to 2.0 MiB were lost like this."""
    structure = step.folded.structure
    in_place = {update.assign for update in structure.in_variables}
    assigns = (
        op for i, op in enumerate(structure.ops) if op.type == "AssignVariableOp" and i not in in_place
    )
    assigned = [op.inputs[1] for op in assigns if op.inputs[1].shape.is_fully_defined()]
    return max(map(tensor_bytes, assigned), default=0)


def meter_of(graph: Graph) -> str:
    return f"{graph.device_kind.upper()}:0"


def held_by_others(graph: Graph) -> int:
    """Return the bytes in use on the device that are not the step's own."""
    meter = meter_of(graph)
    return max(0, held_bytes(meter) - graph.fixed_bytes) if has_meter(meter) else 0
