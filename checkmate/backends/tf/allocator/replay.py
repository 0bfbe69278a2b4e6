"""Replay every request and release of the emitted step, op by op.

``simulate`` counts bytes, but an allocator also cares which tensor comes and goes when. The replay follows
the emission (``backends.tf.emit.emit``) copy by copy, with the same rules for taking over, viewing and
keeping buffers as the folding (``backends.tf.trace.coarsen``). The replica of the allocator is fed with it,
and traced steps are compared with it per op.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checkmate.backends.tf.trace.coarsen import FoldedStep, scaled_next
from checkmate.backends.tf.trace.dataflow import Key
from checkmate.backends.tf.trace.op_kinds import GRADIENT_OVER_LOGITS
from checkmate.backends.tf.trace.sizes import tensor_bytes
from checkmate.ir.graph import Graph

_IN_PLACE = frozenset({"AssignAddVariableOp", "AssignSubVariableOp"})


@dataclass(frozen=True)
class Allocation:
    """Hold one buffer of the emitted step.

    ``op``: trace index of the op that asked. ``position``: its place in the schedule. ``assigned_to``: name
    of the variable that takes the buffer over when it is freed here, and gives back its own.
    ``born``, ``freed``: execution counters (one per emitted op) after which the buffer exists, and after
    which it is gone. ``released_at``: the schedule position of the last reader (of the op itself if nobody
    reads it; -1: at the end of the step). ``readers``: the executions that use it, ``born`` among them.
    ``ends``: pairs of executions that must keep their order for that: the second one writes over what the
    first one reads, or hands it to a variable.

    A variable that is updated while what was read of it is still in use gets a new buffer, and gives the old
    one back after the last reader.
    """

    op: int
    position: int
    bytes: int
    born: int
    freed: int
    released_at: int
    assigned_to: str = ""
    readers: tuple[int, ...] = ()
    ends: tuple[tuple[int, int], ...] = ()


@dataclass(eq=False)
class _OpenAllocation:
    op: int
    position: int
    bytes: int
    born: int
    freed: int = -1
    released_at: int = -1
    assigned_to: str = ""
    readers: set[int] = field(default_factory=set)
    ends: set[tuple[int, int]] = field(default_factory=set)

    def hold(self, copy: _TensorCopy, execution: int) -> None:
        """Let it hold ``copy``, which ``execution`` makes."""
        copy.buffer = self
        self.readers |= {execution, *copy.readers}

    def closed(self) -> Allocation:
        """Return it as it is known in the end."""
        return Allocation(
            self.op,
            self.position,
            self.bytes,
            self.born,
            self.freed,
            self.released_at,
            self.assigned_to,
            tuple(sorted(self.readers)),
            tuple(sorted(self.ends)),
        )


@dataclass(eq=False)
class _TensorCopy:
    """Hold one copy of a tensor.

    ``last``: the execution that reads it last. ``position``: the position of that execution. ``readers``: all
    executions that read it.
    """

    bytes: int
    last: int = -1
    position: int = -1
    buffer: _OpenAllocation | None = None
    readers: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Execution:
    op: int
    position: int
    reads: tuple[_TensorCopy, ...]
    writes: tuple[_TensorCopy, ...]
    in_order: bool  # only the buffer of its first input can be taken over
    given: Mapping[int, _TensorCopy]  # number of a list that a loop returns → the list that dies into it


@dataclass(eq=False)
class _StepReplay:
    folded: FoldedStep
    sizes: Mapping[Key, int]
    executions: list[_Execution] = field(default_factory=list)
    current: dict[Key, _TensorCopy] = field(default_factory=dict)
    variable_readers: dict[str, list[int]] = field(default_factory=dict)  # executions, by resource

    def emit(self, steps: Sequence[int]) -> None:
        """Run ``steps`` as the emission does, copy by copy."""
        structure = self.folded.structure
        for position, node in enumerate(steps):
            members = self.folded.nodes[node]
            for op in members:
                now = len(self.executions)
                reads = tuple(self.current[key] for key in structure.direct_inputs(op) if key in self.current)
                for instance in reads:
                    instance.last, instance.position = now, position
                    instance.readers.append(now)
                for variable in structure.variables_read(op):
                    self.variable_readers.setdefault(variable, []).append(now)
                writes = []
                given: dict[int, _TensorCopy] = {}
                for number, key in enumerate(structure.outputs(op)):
                    if structure.given.get(key) in self.current:
                        given[number] = self.current[structure.given[key]]
                    instance = _TensorCopy(self.sizes.get(key, 0), now, position)
                    self.current[key] = instance
                    writes.append(instance)
                scaled = scaled_next(structure, op, members)
                self.executions.append(_Execution(op, position, reads, tuple(writes), scaled, given))
        self._keep_results()

    def _keep_results(self) -> None:
        traced, structure = self.folded.traced, self.folded.structure
        for tensor in (traced.loss, *traced.predictions):
            root = structure.root(tensor)
            if root is not None and root in self.current:
                self.current[root].last, self.current[root].position = len(self.executions), -1

    def allocations(self) -> list[Allocation]:
        """Return the buffers that the executions asked for, with their lifetimes."""
        found: list[_OpenAllocation] = []
        for now, execution in enumerate(self.executions):
            ending = [read for read in execution.reads if read.last == now and read.buffer is not None]
            for number, written in enumerate(execution.writes):
                source = execution.given.get(number)
                if source not in ending:
                    source = self._reused_input(execution, number, ending, written)
                if source is not None and source.buffer is not None:
                    source.buffer.ends.update((reader, now) for reader in source.readers if reader != now)
                    source.buffer.hold(written, now)
                    ending.remove(source)
                elif written.bytes:
                    found.append(_OpenAllocation(execution.op, execution.position, written.bytes, now))
                    found[-1].hold(written, now)
            found += self._beside(now, execution)
            ending += [written for written in execution.writes if written.last == now]
            for instance in ending:
                if instance.buffer is not None:
                    instance.buffer.freed, instance.buffer.released_at = now, execution.position
                    instance.buffer.assigned_to = self._assigned_to(execution)
                    if instance.buffer.assigned_to:
                        others = instance.buffer.readers - {now}
                        instance.buffer.ends.update((reader, now) for reader in others)
        for buffer in found:
            if buffer.freed < 0:
                buffer.freed = len(self.executions)
        return [buffer.closed() for buffer in found]

    def _beside(self, now: int, execution: _Execution) -> Iterator[_OpenAllocation]:
        """Yield what an execution asks for beside its outputs. That is scratch, and a copy of a variable."""
        at = execution.position
        scratch = self.folded.structure.scratch.get(execution.op, 0)
        if scratch:
            yield _OpenAllocation(execution.op, at, scratch, now, now, at, readers={now})
        op = self.folded.structure.ops[execution.op]
        if op.type not in _IN_PLACE:
            return
        name = str(op.inputs[0].name)
        readers = self.variable_readers.get(name, ())
        # What stands behind the update in the traced step reads what the update wrote.
        later = [each for each in readers if each > now and self.executions[each].op < execution.op]
        if later:
            freed, size = later[-1], tensor_bytes(op.inputs[1])
            released = self.executions[freed].position
            yield _OpenAllocation(execution.op, at, size, now, freed, released, name, readers={now, *later})

    def _assigned_to(self, execution: _Execution) -> str:
        op = self.folded.structure.ops[execution.op]
        return str(op.inputs[0].name) if op.type == "AssignVariableOp" else ""

    def _reused_input(
        self, execution: _Execution, number: int, ending: list[_TensorCopy], written: _TensorCopy
    ) -> _TensorCopy | None:
        """Return the input that output ``number`` is written over, if any."""
        structure = self.folded.structure
        if structure.ops[execution.op].type in GRADIENT_OVER_LOGITS:
            over = execution.reads[:1] if number == 1 else ()
            return next((read for read in over if read in ending and read.bytes == written.bytes), None)
        if number or not structure.takes_over(execution.op):
            return None
        candidates = execution.reads[:1] if execution.in_order else execution.reads
        return next((read for read in candidates if read in ending and read.bytes == written.bytes), None)


def allocations(
    folded: FoldedStep, steps: Sequence[int], graph: Graph | None = None, *, plain: bool = False
) -> list[Allocation]:
    """Return every buffer that the emitted ``steps`` ask for, in that order.

    ``steps`` are indices of nodes. ``graph``: the step's graph with the sizes that were learned of its
    values; None: as traced. ``plain``: they are the plain step, which gives assigned variables new buffers.
    """
    sizes = dict(folded.structure.bytes_of)
    if graph is not None:
        sizes |= {key: value.bytes for key, value in zip(folded.values, graph.values, strict=True)}
    if plain:
        sizes |= folded.structure.plain_bytes
    replay = _StepReplay(folded, sizes)
    replay.emit(steps)
    return replay.allocations()
