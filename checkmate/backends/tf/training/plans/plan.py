"""What is decided for a batch layout, and what the user wants.

Here is also how allocated bytes relate to a schedule's. The user's budget counts what the device's allocator
holds; schedules count what ops request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from checkmate.backends.tf.devices import has_meter, held_bytes
from checkmate.backends.tf.emit.set_aside import SmallChunks
from checkmate.backends.tf.models.batch import BatchLayout
from checkmate.backends.tf.trace.sizes import tensor_bytes
from checkmate.backends.tf.training.ready import ReadyStep
from checkmate.backends.tf.training.trace import LiveStep
from checkmate.ir.graph import Graph
from checkmate.ir.result import SolveResult
from checkmate.ir.schedule import Schedule
from checkmate.machine.plan_store import PlanStore
from checkmate.progress import Cancelled, Report, never
from checkmate.request import OnMiss, Target
from checkmate.units import Budget

FIRST_RATE = (
    1.15  # allocated per requested bytes, before anything is measured: 1.02 to 1.17 on the networks tried
)
# The same step's peak varies with where the allocator finds room for it. Training is watched.
HEADROOM = 0.98
_READ_AHEAD = 4  # batches that a data set prepares beside a step: as many were seen on two cores

Solve = Callable[[Graph, int, Schedule | None, float | None, Report, Cancelled], SolveResult]


@dataclass(frozen=True, eq=False)
class SolveRequest:
    """What is asked of the solver.

    ``target`` are the bytes that ops may request, ``start`` a schedule to begin with. ``seconds``: None: the
    user's own limit.
    """

    graph: Graph
    target: int
    start: Schedule | None
    seconds: float | None


@dataclass(frozen=True, eq=False)
class MinimumMemory:
    """Hold the schedule that requests the fewest bytes of all that are known.

    ``bound_bytes``: it is proved that no schedule requests fewer bytes.
    """

    schedule: Schedule
    bound_bytes: int


@dataclass(frozen=True)
class PlanRequest:
    """What the user wants, and how it is to be found.

    ``solve`` takes a graph, a budget of requested bytes, a schedule to start from, seconds (None: the user's
    own limit), where to report progress and whether to stop; it gives a result. ``least`` gives the least
    that is known for a graph. ``progress`` shows progress while it is open. ``tell`` writes one line per
    decision. ``on_miss`` is what to do where nothing keeps the budget. ``store`` keeps plans for later runs;
    None: none are kept. ``decides``: what else decides a plan, such as the solver and its options. ``wait``:
    training waits until the search is over. ``bound`` gives bytes that any schedule of a graph requests.
    ``target``: what runs the step; None: what the model says. ``segments`` gives a schedule that XLA makes
    more of than of a result's, or the result; ``whole`` gives more of that kind, within a budget.
    ``limit_s``: the user's own limit for a solve, as far as it is known.
    """

    budget: Budget
    solve: Solve
    least: Callable[[Graph, Report], MinimumMemory]
    progress: Callable[[], AbstractContextManager[Report]]
    tell: Callable[[str], None]
    on_miss: OnMiss = OnMiss.CLOSEST
    store: PlanStore | None = None
    decides: Mapping[str, Any] = field(default_factory=dict)
    wait: bool = True
    bound: Callable[[Graph], int] = lambda graph: 0
    target: Target | None = None
    segments: Callable[[Graph, SolveResult, Report], SolveResult] = lambda graph, found, report: found
    whole: Callable[[Graph, int], Sequence[Schedule]] = lambda graph, asked: ()
    limit_s: float = math.inf

    def answer(self, ask: SolveRequest, report: Report, cancelled: Cancelled = never) -> SolveResult:
        return self.solve(ask.graph, ask.target, ask.start, ask.seconds, report, cancelled)


@dataclass(frozen=True, eq=False)
class StepPlan:
    """How the step of one layout runs.

    It runs by ``schedule``, or as TensorFlow would run it by itself where ``schedule`` is None. ``step`` is
    None where the step has nothing to schedule. ``peak_bytes`` was measured on the allocator; it is 0 where
    the allocator shows nothing. ``sentence``: its first line is for all, the further ones are for the log.
    ``over_bytes`` is by how much the peak is over the budget, where nothing better was found. ``held_bytes``
    of the peak were not the step's own; ``foreseen_bytes`` is how much others may come to hold in training.
    ``small_chunks`` stay as long as the plan does. ``name`` is the plan's for later runs; it is empty where
    there is nothing new to keep. ``measured``: the peak was read off a meter; else it was predicted.
    ``constant_bytes``: what the step's function goes on holding between its runs. ``ready``: that function,
    where the one that was measured trains. ``came_bytes``: what others came to hold after a share was told;
    the allocator may show so much more.
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


def read_ahead(graph: Graph) -> int:
    """Return the bytes that prepared batches may hold beside the step. They are batches of a data set."""
    return _READ_AHEAD * graph.fixed["inputs"]


def foreseen(step: LiveStep, held: int) -> int:
    """Return what others will hold beside a step, if they hold ``held`` now.

    Others are other models and data sets on the same device, or what a data set will prepare there if that is
    more; and what chunks are larger than the variables in them.
    """
    return max(held, read_ahead(step.graph)) + _loose_bytes(step)


def _loose_bytes(step: LiveStep) -> int:
    """Return the bytes that a variable's chunk may hold beside it.

    A variable that is assigned takes over the buffer of its new value, unless that is its own. The allocator
    splits only chunks of twice the bytes that are asked for, so the chunk may be nearly that large, until the
    next assignment. In 170 steps of a model whose largest averaged weights take 2 MiB, up to 2.0 MiB were
    held so.
    """
    structure = step.folded.structure
    in_place = {update.assign for update in structure.in_variables}
    assigns = (
        op for i, op in enumerate(structure.ops) if op.type == "AssignVariableOp" and i not in in_place
    )
    assigned = [op.inputs[1] for op in assigns if op.inputs[1].shape.is_fully_defined()]
    return max(map(tensor_bytes, assigned), default=0)


def meter_of(graph: Graph) -> str:
    """Return the name of the device whose allocator counts."""
    return f"{graph.device_kind.upper()}:0"


def held_by_others(graph: Graph) -> int:
    """Return the bytes in use on the device that are not the step's own.

    A data set in memory, for example, or another model.
    """
    meter = meter_of(graph)
    return max(0, held_bytes(meter) - graph.fixed_bytes) if has_meter(meter) else 0
