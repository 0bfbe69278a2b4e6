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

# Allocated per requested bytes, before anything is measured: 1.02 to 1.17 on the networks tried.
FIRST_RATE = 1.15
# The same step's peak varies with where the allocator finds room for it. Training is watched.
HEADROOM = 0.98
_READ_AHEAD = 4  # batches that a data set prepares beside a step: as many were seen on two cores


class StepSubject(ABC):
    """A model's step, or a function, that is planned for each layout of what it is called with."""

    @abstractmethod
    def trace(
        self, layout: BatchLayout, tensors: Sequence[tf.Tensor] = (), *, for_xla: bool = False
    ) -> LiveStep:
        """Trace the step for a layout. ``tensors``: of such a batch, to learn sizes that nothing else tells.
        ``for_xla``: XLA is to compile the whole of it."""

    @abstractmethod
    def plainly(self, layout: BatchLayout, tensors: Sequence[tf.Tensor]) -> Any:
        """Run the step without a schedule."""

    def finish(self, step: LiveStep, layout: BatchLayout, tensors: Sequence[tf.Tensor], found: Any) -> Any:
        """Return what a call returns, of what the scheduled step gave."""
        return found


@dataclass(frozen=True, eq=False)
class StepPlan:
    """How the step of one layout runs: by ``schedule``, or where that is None as TensorFlow would run it.
    ``step``: None where there is nothing to schedule. ``peak_bytes``: as measured on the allocator; 0 where
    it shows nothing. ``sentence``: its first line is for all, the further ones are for the log.
    ``over_bytes``: of the peak, over the budget, where nothing better was found. ``held_bytes`` of the peak
    were not the step's own; ``foreseen_bytes``: what others may come to hold in training. ``small_chunks``
    stay as long as the plan does. ``name``: the plan's for later runs; empty where there is nothing new to
    keep. ``measured``: the peak was read off a meter, else predicted. ``constant_bytes``: what the step's
    function holds between its runs. ``ready``: that function, where the one that was measured trains.
    ``came_bytes``: what others came to hold after a share was told; the allocator may show so much more.
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

    @property
    def keeps_all(self) -> bool:
        return self.step is None or self.schedule is None or len(self.schedule.steps) == self.step.graph.n

    @property
    def in_turn(self) -> bool:
        """Whether its ops run one after another."""
        return self.step is not None and self.step.folded.in_turn

    @property
    def steps(self) -> tuple[int, ...] | None:
        return None if self.schedule is None else tuple(self.schedule.steps.tolist())


def read_ahead(graph: Graph) -> int:
    """Return the bytes that prepared batches of a data set may hold beside the step."""
    return _READ_AHEAD * graph.fixed["inputs"]


def foreseen(step: LiveStep, held: int) -> int:
    """Return what others (models, data sets) will hold beside a step, if they hold ``held`` now. It is at
    least what a data set will prepare, and what chunks are larger than the variables in them.
    """
    return max(held, read_ahead(step.graph)) + _loose_bytes(step)


def _loose_bytes(step: LiveStep) -> int:
    """Return the most bytes by which a variable's chunk may exceed the variable. An assigned variable takes
    over the buffer of its new value, unless that is its own. The allocator splits only chunks of twice the
    bytes that are requested, so the chunk may be nearly that large, until the next assignment. In 170 steps
    of a model whose largest averaged weights take 2 MiB, up to 2.0 MiB were held so."""
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
