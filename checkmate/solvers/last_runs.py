"""Prove that no schedule fits a budget, from what is live during the last run of some ops.

Take a moment (the end, or the first run of some op) and a set of ops that all run before it. Let j be the op
of the set that runs last before the moment. Between that run and the moment, no op of the set runs again, nor
does an op that may run only once and has run. So what is needed at the moment (the kept values, or that op's
inputs) is computed from buffers that are live while j runs: every path to it from an op of the set contains
such a buffer. Beside its own buffers, j therefore needs at least the bytes of a minimum cut of these paths.
If that exceeds the budget for every op of the set, no schedule fits, in any order and with any recomputation.

A larger set gives larger cuts. So the search starts with all candidates, and leaves out the ops that fit
until none does. If no op is left, no set proves it for this moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from checkmate.ir import Graph
from checkmate.progress import Cancelled, never
from checkmate.solvers.bounds import op_need
from checkmate.solvers.graph_sets import buffer_owners, closures
from checkmate.units import format_bytes_apart

_NAMED = 3  # of the ops, in a sentence
_ANY = 2**62  # bytes


@dataclass(frozen=True)
class LastRuns:
    """At least ``bytes`` are live during the last run of any of ``ops`` before the first run of op ``before``
    (None: before the end). The ops that need most by themselves come first."""

    ops: tuple[int, ...]
    before: int | None
    bytes: int

    def explained(self, graph: Graph, budget_bytes: int) -> str:
        given, least = format_bytes_apart(budget_bytes, self.bytes)
        names = ", ".join(repr(graph.ops[op].name) for op in self.ops[:_NAMED])
        names += f" and {len(self.ops) - _NAMED} more" if len(self.ops) > _NAMED else ""
        which = "op" if len(self.ops) == 1 else "any of the ops"
        moment = "the end" if self.before is None else f"op {graph.ops[self.before].name!r} first runs"
        return (
            f"budget {given} is below the {least} that are held in the last run, before {moment}, "
            f"of {which} {names}"
        )


class LastRunProver:
    """Looks for proofs for one graph, budget by budget. They hold for every order of the ops."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.buffers = graph, _Buffers(graph)
        self.up, self.down = closures(graph)
        self._need = np.array([op_need(graph, op).bytes for op in range(graph.n)], np.int64)

    def proof(self, budget_bytes: int, over: Cancelled = never) -> LastRuns | None:
        """Return a proof that no schedule fits; None if none was found before ``over`` ended the search."""
        once = self.buffers.bytes({owner for _, owner, _ in self.buffers.made_once})
        for before in (None, *range(self.graph.n)):
            most = once + self.buffers.bytes(self.buffers.needed(before))
            ops = np.flatnonzero(self._need + most > budget_bytes).tolist()
            if before is not None:
                ops = [op for op in ops if self.up[before] >> op & 1]
            ops.sort(key=lambda op: int(self._need[op]))
            left: list[int] = []
            while ops != left and not over():
                left, last = ops, _LastRun(self, ops, before)
                ops = [op for op in left if not over() and last.need(op, budget_bytes) > budget_bytes]
            if over():
                return None
            if ops:
                least = _ANY
                for op in ops:
                    least = min(least, last.need(op, least))
                return LastRuns(tuple(reversed(ops)), before, least)
        return None


class _LastRun:
    """What is needed if one of ``ops`` runs for the last time before a moment (``before``'s run, or the
    end)."""

    def __init__(self, prover: LastRunProver, ops: list[int], before: int | None) -> None:
        self._graph, self._buffers = prover.graph, prover.buffers
        self._needed = self._buffers.needed(before)
        last = ran = sum(1 << op for op in ops)
        for op in ops:
            ran |= prover.up[op]
        self._blocked = last | ran & self._buffers.once
        # A value that can be made only once, and was made, is held if it is read at the moment or later.
        later = 1 << self._graph.n | (0 if before is None else prover.down[before] | 1 << before)
        made = self._buffers.made_once
        self._held = {owner for op, owner, uses in made if ran >> op & 1 and uses & later}

    def need(self, op: int, enough: int) -> int:
        """Return the least bytes that are live if ``op`` runs last; any number above ``enough`` may stand for
        a larger one."""
        own = op_need(self._graph, op, self._held)
        flow = _Flow(self._buffers, self._blocked, {*own.read, *own.made, *own.held})
        return own.bytes + flow.most(self._needed, enough - own.bytes)


class _Buffers:
    """The buffers of produced values, named by their owners. ``maker``: value → the op that makes it.
    ``reads``: op → the buffers that it reads. ``kept``: buffers needed at the end. ``made_of``: buffer →
    buffers whose makers read it. ``once``: the ops that run once, as bits. ``made_once``: per value of such
    an op (op, buffer, readers as bits; bit n stands for the end)."""

    def __init__(self, graph: Graph) -> None:
        owner, keep, self.size = graph.owner.tolist(), graph.keep.tolist(), graph.value_bytes.tolist()
        owners = set(buffer_owners(graph))

        def distinct(values: Iterable[int]) -> list[int]:
            # Largest first, so that a flow exceeds its ``enough`` soon.
            found = owners.intersection(owner[value] for value in values)
            return sorted(found, key=lambda value: (-self.size[value], value))

        self.maker = graph.producer.tolist()
        self.reads = [distinct(row) for row in graph.op_inputs.lists()]
        self.kept = distinct(value for value in range(graph.m) if keep[value])
        self.made_of: dict[int, list[int]] = {value: [] for value in owners}
        for value in sorted(owners):
            for source in self.reads[self.maker[value]]:
                self.made_of[source].append(value)
        once = np.flatnonzero(~graph.recomputable).tolist()
        self.once = sum(1 << op for op in once)
        readers = graph.value_readers.lists()
        self.made_once = [
            (op, owner[value], sum(1 << reader for reader in readers[value]) | keep[value] << graph.n)
            for op in once
            for value in graph.ops[op].outputs
            if owner[value] in owners
        ]

    def needed(self, before: int | None) -> list[int]:
        """The buffers that op ``before`` reads; None: those kept at the end."""
        return self.kept if before is None else self.reads[before]

    def bytes(self, owners: Collection[int]) -> int:
        return sum(self.size[owner] for owner in owners)


_Node = tuple[int, bool]  # (buffer, False): the side where it is made; (buffer, True): where it is read


class _Flow:
    """A maximum flow of bytes through buffers, which equals a minimum cut (Ford and Fulkerson).

    It starts at the buffers that ``blocked`` ops make, and a buffer passes as many bytes as it has. ``free``
    buffers are live anyway and cost the cut nothing, so they pass none. A buffer is entered only through the
    op that makes its owner, not through a view that another op makes.
    """

    def __init__(self, buffers: _Buffers, blocked: int, free: Collection[int]) -> None:
        self._buffers, self._blocked, self._free = buffers, blocked, free
        self._bytes: dict[tuple[int, int], int] = {}  # the flow from buffer to buffer; (b, b): through b
        self._closed: set[_Node] = set()  # nodes that no augmenting path can start from any more

    def most(self, needed: Iterable[int], enough: int) -> int:
        """Return the maximum flow to the ``needed`` buffers, or any number above ``enough``."""
        total = 0
        for owner in needed:
            while total <= enough and (path := self._path((owner, True))):
                steps = [self._residual(*step) for step in pairwise(path)]
                more = min(room for _, _, room in steps)
                for arc, sign, _ in steps:
                    self._bytes[arc] = self._bytes.get(arc, 0) + sign * more
                total += more
        return total

    def _path(self, end: _Node) -> list[_Node]:
        """A shortest augmenting path to ``end``, searched backward; empty if there is none."""
        onward: dict[_Node, _Node | None] = {end: None}
        waiting = [end]
        for node in waiting:  # the list grows during the search
            owner, is_read = node
            maker = self._buffers.maker[owner]
            if not is_read and self._blocked >> maker & 1:
                return _followed(onward, node)
            others = self._buffers.made_of[owner] if is_read else self._buffers.reads[maker]
            for other in (owner, *others):
                before = (other, not is_read)
                if before in onward or before in self._closed:
                    continue
                if self._residual(before, node)[2] > 0:
                    onward[before] = node
                    waiting.append(before)
        self._closed.update(onward)
        return []

    def _residual(self, start: _Node, end: _Node) -> tuple[tuple[int, int], int, int]:
        """The arc of ``_bytes`` between two nodes, the direction along it (1, or -1 to undo flow), and the
        residual capacity."""
        through = start[0] == end[0]
        if through != end[1]:
            arc = end[0], start[0]
            return arc, -1, self._bytes.get(arc, 0)
        arc = start[0], end[0]
        most = _ANY if not through else 0 if start[0] in self._free else self._buffers.size[start[0]]
        return arc, 1, most - self._bytes.get(arc, 0)


def _followed(onward: dict[_Node, _Node | None], start: _Node) -> list[_Node]:
    path, node = [start], onward[start]
    while node is not None:
        path.append(node)
        node = onward[node]
    return path
