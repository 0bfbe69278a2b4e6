"""Run the halves of a schedule node by node, and account for every storage that they make.

This shares no code with the program's interpreter, its meter and its analysis of views: a storage is what
``untyped_storage`` says once a node has run. Dead storages are overwritten, by what the halves read and by
what the schedule's timeline says; results and gradients must stay what they are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_iter

from checkmate.backends.torch.emission import Halves, emitted
from checkmate.backends.torch.graph import Region
from checkmate.ir import Schedule
from checkmate.memory.simulate import simulate
from tests.torch.regions import Traced

SEED, BOUNDARY, VIEW = 3, -2, -1
ODD = 101  # what dead whole numbers become


@dataclass(frozen=True)
class Event:
    """A node that ran. ``op``: of the region's graph; VIEW, or BOUNDARY: the caller has the results and makes
    the tangents. ``reads``, ``makes``: storages, by number.
    """

    name: str
    op: int
    reads: frozenset[int]
    makes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Outcome:
    """Results and gradients, and what the caller drew between the halves and after them."""

    outputs: list[Any]
    drawn: tuple[Tensor, Tensor]

    def apart(self, other: Outcome) -> list[int]:
        """The outputs that differ in a bit; -1 and -2: the draws."""
        pairs = enumerate(zip(self.outputs, other.outputs, strict=True))
        found = [n for n, (one, two) in pairs if not _same(one, two)]
        draws = zip((-1, -2), self.drawn, other.drawn, strict=True)
        return found + [n for n, one, two in draws if not torch.equal(one, two)]


def _same(one: Any, two: Any) -> bool:
    if not (isinstance(one, Tensor) and isinstance(two, Tensor)):
        return bool(one == two)
    if (one.shape, one.dtype) != (two.shape, two.dtype):
        return False
    return torch.equal(*(each.contiguous().reshape(-1).view(torch.uint8) for each in (one, two)))


def _tensors(value: Any) -> Iterator[Tensor]:
    return (each for each in tree_iter(value) if isinstance(each, Tensor))


def _copied(values: Sequence[Any]) -> list[Any]:
    return [each.clone() if isinstance(each, Tensor) else each for each in values]


def _tangents(traced: Traced) -> list[Tensor]:
    drawn = torch.Generator().manual_seed(SEED)
    vals = [node.meta["val"] for node in traced.joint.tangents]
    return [torch.randn(tuple(each.shape), generator=drawn).to(each.dtype) for each in vals]


def reference(traced: Traced) -> Outcome:
    """What the joint graph computes in its own order."""
    joint = traced.joint
    inputs = [*_copied(traced.inputs), *_tangents(traced)]
    env: dict[fx.Node, Any] = dict(zip((*joint.primals, *joint.tangents), inputs, strict=True))
    calls = [node for node in joint.nodes if node.op == "call_function"]
    forward = max(n for n, node in enumerate(calls) if node.meta.get("partitioner_tag") == "is_forward")
    torch.manual_seed(SEED)
    for n, node in enumerate(calls):
        args, kwargs = fx.map_arg((node.args, node.kwargs), env.__getitem__)
        env[node] = node.target(*args, **kwargs)
        if n == forward:
            between = torch.rand(4)
    return Outcome(_copied(fx.map_arg(joint.outputs, env.__getitem__)), (between, torch.rand(4)))


@dataclass(eq=False)
class Machine:
    """Runs halves. ``after`` is told of each event, when it has happened."""

    traced: Traced
    halves: Halves
    after: Callable[[int], None] = lambda _: None
    events: list[Event] = field(default_factory=list)
    made: list[Tensor] = field(default_factory=list)  # one of each storage; held, so that none comes back
    snapshots: set[int] = field(default_factory=set)
    results: frozenset[int] = frozenset()
    gradients: frozenset[int] = frozenset()
    _number: dict[int, int] = field(default_factory=dict)  # by address; -1: of an input

    def run(self) -> Outcome:
        inputs, tangents = _copied(self.traced.inputs), _tangents(self.traced)
        self._number = dict.fromkeys(map(_address, _tensors(inputs)), -1)
        torch.manual_seed(SEED)
        given = self._half(self.halves.forward, self.halves.forward_ops, inputs)
        results, saved = given[: self.halves.results], given[self.halves.results :]
        kept = _copied(results)
        for number, new in zip(sorted(self.traced.joint.written), results, strict=False):
            inputs[number].copy_(new)  # as AOTAutograd does; new values are the first results
        between = torch.rand(4)
        self.results = self._numbers(results)
        self._happened("boundary", BOUNDARY, self.results, tangents)
        gradients = self._half(self.halves.backward, self.halves.backward_ops, [*saved, *tangents])
        self.gradients = self._numbers(gradients)
        assert all(map(_same, results, kept)), "the backward half changed a result"
        return Outcome([*kept, *gradients], (between, torch.rand(4)))

    def _half(self, module: fx.GraphModule, ops: Sequence[int], given: Sequence[Any]) -> list[Any]:
        places = iter(given)
        env: dict[fx.Node, Any] = {}
        calls = iter(ops)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(places)
                continue
            args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), env.__getitem__)
            if node.op == "output":
                return list(args[0])
            env[node] = value = node.target(*args, **kwargs)
            taken = value if node.target is operator.getitem else (args, kwargs)
            first = len(self.made)
            self._happened(node.name, op := next(calls), self._numbers(taken), value)
            if node.target is torch.ops.higher_order.run_and_save_rng_state:
                self.snapshots.add(first)
            if op == VIEW and node.target is torch.ops.aten.clone.default:
                self.snapshots.add(first)  # of an input that the caller writes over
        raise AssertionError("a graph without an output")

    def _numbers(self, value: Any) -> frozenset[int]:
        return frozenset(self._number[_address(each)] for each in _tensors(value)) - {-1}

    def _happened(self, name: str, op: int, reads: frozenset[int], value: Any) -> None:
        first = len(self.made)
        for each in _tensors(value):
            if _address(each) not in self._number:
                self._number[_address(each)] = len(self.made)
                self.made.append(each)
        self.events.append(Event(name, op, reads, tuple(range(first, len(self.made)))))
        self.after(len(self.events) - 1)

    def bytes(self, storage: int) -> int:
        return self.made[storage].untyped_storage().nbytes()

    def poison(self, storage: int) -> None:
        """Write over all of a storage."""
        tensor = self.made[storage]
        whole = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            whole.fill_(float("nan"))
        else:
            whole.fill_(ODD)  # True, where it is a truth value


def _address(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


@dataclass(frozen=True)
class Replay:
    """What contradicts the schedule. ``bytes``: steps whose live bytes are not the timeline's. ``read``,
    ``planned``: outputs that differ when storages are overwritten after their last reader, or when the
    timeline has them dead. ``spare``: the most bytes of snapshots that the timeline has and nothing holds.
    ``overwritten``: how many storages were, after their last reader.
    """

    bytes: tuple[str, ...]
    read: tuple[int, ...]
    planned: tuple[int, ...]
    spare: int
    overwritten: int
    recomputations: int

    def __bool__(self) -> bool:
        return not (self.bytes or self.read or self.planned)


def replayed(traced: Traced, region: Region, schedule: Schedule, wanted: Outcome) -> Replay:
    halves = emitted(region, schedule)
    first = Machine(traced, halves)
    first.run()
    account = _Account(region, schedule, first)
    told = []
    for dead in (account.read_last(), account.planned_last()):
        machine = Machine(traced, halves)
        machine.after = _Poisoning(machine, dead)
        told.append(tuple(machine.run().apart(wanted)))
    problems, spare = account.compared()
    overwritten = sum(map(len, account.read_last().values()))
    return Replay(tuple(problems), *told, spare, overwritten, schedule.recomputations)


@dataclass(frozen=True)
class _Poisoning:
    machine: Machine
    dead: dict[int, list[int]]

    def __call__(self, event: int) -> None:
        for storage in self.dead.get(event, ()):
            self.machine.poison(storage)


class _Account:
    """Storages of a run beside the buffers of the schedule's timeline."""

    def __init__(self, region: Region, schedule: Schedule, ran: Machine) -> None:
        self._graph, self._ran = region.graph, ran
        self._steps = schedule.steps.tolist()
        self._timeline = simulate(region.graph, schedule)
        self._at = self._events_of_steps(region)
        self._last = self._last_reads()

    def _events_of_steps(self, region: Region) -> list[int | None]:
        """Of each step its event; None where nothing runs for it."""
        ran = iter([(n, each.op) for n, each in enumerate(self._ran.events) if each.op != VIEW])
        at: list[int | None] = []
        for step in self._steps:
            if region.nodes[step] is None and step != region.boundary:
                at.append(None)
                continue
            event, op = next(ran)
            assert op == (BOUNDARY if step == region.boundary else step), "ops do not run as scheduled"
            at.append(event)
        assert next(ran, None) is None, "more ops run than are scheduled"
        return at

    def _last_reads(self) -> dict[int, int]:
        """By storage. The caller holds results and tangents, and has the gradients in the end."""
        events = self._ran.events
        last = {storage: n for n, each in enumerate(events) for storage in each.makes}
        last |= {storage: n for n, each in enumerate(events) for storage in each.reads}
        (boundary,) = (each for each in events if each.op == BOUNDARY)
        held = self._ran.results.union(boundary.makes, self._ran.gradients)
        return last | dict.fromkeys(held, len(events))

    def read_last(self) -> dict[int, list[int]]:
        """By event the storages that nobody reads after it."""
        return _by_place(self._last)

    def planned_last(self) -> dict[int, list[int]]:
        """By event the storages that the timeline has dead after it."""
        timeline, found = self._timeline, dict[int, int]()
        buffers = zip(timeline.buffer_value, timeline.buffer_born, timeline.buffer_last, strict=True)
        for value, born, last in buffers:
            event = self._at[born]
            if event is None or last == len(self._steps):
                continue
            outputs = self._graph.ops[self._steps[born]].outputs
            makes = [each for each in self._ran.events[event].makes if each not in self._ran.snapshots]
            if self._ran.events[event].op != BOUNDARY and (place := outputs.index(value)) < len(makes):
                found[makes[place]] = self._event_before(last + 1)
        return _by_place(found)

    def _event_before(self, step: int) -> int:
        """The event of the last op before a step; a view that a later op reads is made after it."""
        return max(event for event in self._at[:step] if event is not None)

    def compared(self) -> tuple[list[str], int]:
        problems, spare = [], 0
        snapshots = {value for op in self._graph.ops if op.type == "snapshot" for value in op.outputs}
        for step, event in enumerate(self._at):
            if event is None:
                continue
            alive = [each for each, last in self._last.items() if self._born(each) <= event <= last]
            taken = sum(self._ran.bytes(each) for each in alive if each in self._ran.snapshots)
            held = sum(self._ran.bytes(each) for each in alive) - taken
            buffers = self._timeline.alive_at(step)
            planned = sum(each.bytes for each in buffers if each.value in snapshots)
            said = sum(each.bytes for each in buffers) - planned
            workspace = self._graph.ops[self._steps[step]].workspace_bytes
            whole = self._graph.fixed_bytes + said + planned + workspace
            assert whole == self._timeline.live_bytes[step], "its buffers are not what the timeline counts"
            name = self._ran.events[event].name
            if held != said:
                problems.append(f"step {step}, {name}: {held} bytes live, {said} by the timeline")
            if taken > planned:
                problems.append(f"step {step}, {name}: snapshots hold {taken} bytes, not {planned}")
            spare = max(spare, planned - taken)
        return problems, spare

    def _born(self, storage: int) -> int:
        return next(n for n, each in enumerate(self._ran.events) if storage in each.makes)


def _by_place(last: dict[int, int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for storage, place in last.items():
        found.setdefault(place, []).append(storage)
    return found
