"""Replay every request and release of the emitted step, op by op.

Unlike ``simulate``, an allocator's peak depends on the order of single requests. The replay follows the
emission (``backends.tf.emit.ordered``), with the same rules for take-overs, views and kept buffers as the
folding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from checkmate.backends.tf.trace.coarsen import FoldedStep, written_over
from checkmate.backends.tf.trace.dataflow import Key
from checkmate.backends.tf.trace.sizes import tensor_bytes
from checkmate.ir import Graph
from checkmate.memory.step_requests import AskedBuffer, StepRequests, order_of

_IN_PLACE = frozenset({"AssignAddVariableOp", "AssignSubVariableOp"})


@dataclass(frozen=True)
class Allocation:
    """One buffer of the emitted step. An *execution* is the index of an emitted op.

    ``op``: trace index of the op that requests it. ``position``: that op's place in the schedule. ``born``,
    ``freed``: the executions that allocate and free it. ``released_at``: the schedule position of the last
    reader (of ``op`` if there is none; -1: the end of the step). ``assigned_to``: the variable that takes the
    buffer over when it would be freed, and frees its own instead. ``readers``: the executions that use it,
    ``born`` included. ``ends``: pairs of executions whose order must not change, because the second
    overwrites what the first reads, or hands it to a variable. If a variable is updated while a tensor read
    from it is in use, it gets a new buffer, and the old one is freed after the last reader."""

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
        copy.buffer = self
        self.readers |= {execution, *copy.readers}

    def closed(self) -> Allocation:
        sets = {"readers": tuple(sorted(self.readers)), "ends": tuple(sorted(self.ends))}
        return Allocation(**{**vars(self), **sets})


@dataclass(eq=False)
class _TensorCopy:
    """One copy of a tensor. ``last``: the last execution that reads it, at ``position`` of the schedule."""

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
    over: int  # number of the output that may be written over one of these inputs
    candidates: tuple[_TensorCopy, ...]
    given: Mapping[int, _TensorCopy]  # number of a list that a loop returns → the list that dies into it


@dataclass(eq=False)
class _StepReplay:
    folded: FoldedStep
    sizes: Mapping[Key, int]
    executions: list[_Execution] = field(default_factory=list)
    current: dict[Key, _TensorCopy] = field(default_factory=dict)
    variable_readers: dict[str, list[int]] = field(default_factory=dict)  # executions, by resource

    def emit(self, steps: Sequence[int]) -> None:
        traced, structure = self.folded.traced, self.folded.structure
        for position, node in enumerate(steps):
            for op in self.folded.nodes[node]:
                self._execute(op, position, self.folded.nodes[node])
        for tensor in (traced.loss, *traced.predictions):
            if (root := structure.root(tensor)) is not None and root in self.current:
                self.current[root].last, self.current[root].position = len(self.executions), -1

    def _execute(self, op: int, position: int, members: tuple[int, ...]) -> None:
        structure, now = self.folded.structure, len(self.executions)
        reads = tuple(self.current[key] for key in structure.direct_inputs(op) if key in self.current)
        for copy in reads:
            copy.last, copy.position = now, position
            copy.readers.append(now)
        for variable in structure.variables_read(op):
            self.variable_readers.setdefault(variable, []).append(now)
        over, keys = written_over(structure, op, members)
        candidates = tuple(self.current[key] for key in keys if key in self.current)
        writes = []
        given: dict[int, _TensorCopy] = {}
        for number, key in enumerate(structure.outputs(op)):
            if structure.given.get(key) in self.current:
                given[number] = self.current[structure.given[key]]
            self.current[key] = _TensorCopy(self.sizes.get(key, 0), now, position)
            writes.append(self.current[key])
        self.executions.append(_Execution(op, position, reads, tuple(writes), over, candidates, given))

    def allocations(self) -> list[Allocation]:
        found: list[_OpenAllocation] = []
        for now, execution in enumerate(self.executions):
            ending = [read for read in execution.reads if read.last == now and read.buffer is not None]
            for number, written in enumerate(execution.writes):
                source = execution.given.get(number)
                if source not in ending:
                    over = execution.candidates if number == execution.over else ()
                    source = next((c for c in over if c in ending and c.bytes == written.bytes), None)
                if source is not None and source.buffer is not None:
                    source.buffer.ends.update((reader, now) for reader in source.readers if reader != now)
                    source.buffer.hold(written, now)
                    ending.remove(source)
                elif written.bytes:
                    found.append(_OpenAllocation(execution.op, execution.position, written.bytes, now))
                    found[-1].hold(written, now)
            found += self._beside(now, execution)
            ending += [written for written in execution.writes if written.last == now]
            self._release([copy.buffer for copy in ending if copy.buffer is not None], now, execution)
        for buffer in found:
            if buffer.freed < 0:
                buffer.freed = len(self.executions)
        return [buffer.closed() for buffer in found]

    def _release(self, buffers: Sequence[_OpenAllocation], now: int, execution: _Execution) -> None:
        op = self.folded.structure.ops[execution.op]
        variable = str(op.inputs[0].name) if op.type == "AssignVariableOp" else ""
        for buffer in buffers:
            buffer.freed, buffer.released_at, buffer.assigned_to = now, execution.position, variable
            if variable:
                buffer.ends.update((reader, now) for reader in buffer.readers - {now})

    def _beside(self, now: int, execution: _Execution) -> Iterator[_OpenAllocation]:
        at = execution.position
        if scratch := self.folded.structure.scratch.get(execution.op, 0):
            yield _OpenAllocation(execution.op, at, scratch, now, now, at, readers={now})
        op = self.folded.structure.ops[execution.op]
        if op.type not in _IN_PLACE:
            return
        name = str(op.inputs[0].name)
        readers = self.variable_readers.get(name, ())
        # A read that comes after the update in the trace reads the new value, and does not count.
        later = [each for each in readers if each > now and self.executions[each].op < execution.op]
        if later:
            freed, size = later[-1], tensor_bytes(op.inputs[1])
            released = self.executions[freed].position
            yield _OpenAllocation(execution.op, at, size, now, freed, released, name, readers={now, *later})


def allocations(
    folded: FoldedStep, steps: Sequence[int], graph: Graph | None = None, *, plain: bool = False
) -> list[Allocation]:
    """Return every buffer that the emitted ``steps`` (nodes) request, in order. ``graph``: gives learned
    sizes of values; None: sizes as traced. ``plain``: assigned variables get new buffers, as in the plain
    step."""
    sizes = dict(folded.structure.bytes_of)
    if graph is not None:
        sizes |= {key: value.bytes for key, value in zip(folded.values, graph.values, strict=True)}
    if plain:
        sizes |= folded.structure.plain_bytes
    replay = _StepReplay(folded, sizes)
    replay.emit(steps)
    return replay.allocations()


def scratch_of_nodes(folded: FoldedStep, graph: Graph, steps: Sequence[int]) -> Iterator[Allocation]:
    """Yield the learned scratch of nodes, requested by the op that was seen to, else by the node's last
    op."""
    learned, pieces = graph.origin.learned_workspace, graph.origin.learned_pieces
    executed = 0
    for position, node in enumerate(steps):
        members, name = folded.nodes[node], graph.ops[node].name
        if name in learned:
            member, *sizes = pieces.get(name, (len(members) - 1, learned[name]))
            at = executed + member
            for size in sizes:
                yield Allocation(members[member], position, size, at, at, position, readers=(at,))
        executed += len(members)


def requests_of_step(folded: FoldedStep, graph: Graph, steps: Sequence[int]) -> StepRequests:
    """Return the requests of ``steps``, with one part per emitted op. A step that overwrites a buffer must
    stay after the steps that read it."""
    found = allocations(folded, steps, graph)
    lengths = [len(folded.nodes[node]) for node in steps]
    first = np.array([0, *accumulate(lengths)], np.int64)
    step_of = np.repeat(np.arange(len(steps)), lengths).tolist()
    names = list(dict.fromkeys(buffer.assigned_to for buffer in found if buffer.assigned_to))
    buffers = []
    for buffer in (*found, *scratch_of_nodes(folded, graph, steps)):
        variable = names.index(buffer.assigned_to) if buffer.assigned_to else -1
        kept = buffer.freed >= first[-1]
        buffers.append(AskedBuffer(buffer.bytes, buffer.born, buffer.readers, kept, variable))
    buffers.sort(key=lambda each: each.part)
    over = [(step_of[before], step_of[after]) for b in found for before, after in b.ends]
    return StepRequests(tuple(steps), first, tuple(buffers), order_of(graph, steps, over))
