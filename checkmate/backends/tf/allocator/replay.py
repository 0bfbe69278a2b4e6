"""Replay every request and release of the emitted step, op by op.

An allocator, unlike ``simulate``, cares which tensor comes and goes when. The replay follows the emission
(``backends.tf.emit.ordered``) with the folding's rules for taking over, viewing and keeping buffers."""

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
    """One buffer of the emitted step. An *execution* counts the emitted ops. ``op``: trace index of the op
    that asked. ``position``: its place in the schedule. ``born``, ``freed``: the executions after which the
    buffer exists, and after which it is gone. ``released_at``: the schedule position of the last reader (of
    the op itself if nobody reads it; -1: at the end of the step). ``assigned_to``: name of the variable that
    takes the buffer over when it is freed here, and gives back its own. ``readers``: the executions that use
    it, ``born`` among them. ``ends``: pairs of executions that must keep their order: the second one writes
    over what the first one reads, or hands it to a variable. A variable that is updated while what was read
    of it is still in use gets a new buffer, and gives the old one back after the last reader."""

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
    """One copy of a tensor. ``last``: the execution that reads it last; ``position``: that one's position."""

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
        # What stands behind the update in the traced step reads what the update wrote.
        later = [each for each in readers if each > now and self.executions[each].op < execution.op]
        if later:
            freed, size = later[-1], tensor_bytes(op.inputs[1])
            released = self.executions[freed].position
            yield _OpenAllocation(execution.op, at, size, now, freed, released, name, readers={now, *later})


def allocations(
    folded: FoldedStep, steps: Sequence[int], graph: Graph | None = None, *, plain: bool = False
) -> list[Allocation]:
    """Return every buffer that the emitted ``steps`` (nodes) ask for, in that order. ``graph``: with the
    learned sizes of its values; None: as traced. ``plain``: assigned variables get new buffers."""
    sizes = dict(folded.structure.bytes_of)
    if graph is not None:
        sizes |= {key: value.bytes for key, value in zip(folded.values, graph.values, strict=True)}
    if plain:
        sizes |= folded.structure.plain_bytes
    replay = _StepReplay(folded, sizes)
    replay.emit(steps)
    return replay.allocations()


def scratch_of_nodes(folded: FoldedStep, graph: Graph, steps: Sequence[int]) -> Iterator[Allocation]:
    """Yield what nodes ask for beyond the rules, at the op that asked, else at the node's last."""
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
    """Return what ``steps`` ask for: one part per op of the emitted step. Two steps that must keep their
    order are one that writes over a buffer, and one that reads it before."""
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
