"""A training step's graph at another batch size.

Here is what grows with the batch, and by how much. This is extrapolation, not a trace. A size of s bytes at
batch N is taken as ceil(s·b/N) at batch b where it grows, and as s where it does not. What an activation, its
gradient and an op's cost are per example does not depend on the batch; parameters and their gradients do not
grow at all. So sizes are non-decreasing in the batch, for every schedule its peak is too, and the extra cost
of a schedule stays the same share of the step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkmate.errors import UsageError
from checkmate.ir.arrays import read_only
from checkmate.ir.graph import Graph, Op, Phase, Value

_INPUTS = "inputs"  # the part of the fixed bytes that holds the batch itself
LARGEST_TOTAL = 2**61  # bytes; a graph's sizes stay well inside int64
# Of the origin; the rest was recorded at the batch that was traced.
_KEPT_FACTS = ("loss", "optimizer", "notes", "built_from_layers")


@dataclass(frozen=True, eq=False)
class BatchScaling:
    """A graph, the batch size it is at, and the same graph at other batches.

    Raises:
        UsageError: no batch size is known, two contradict each other, or nothing in the graph grows with the
        batch.
    """

    graph: Graph
    batch: int = 0
    _made: dict[int, Graph] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch", _batch_of(self.graph, self.batch))
        counted = self.graph.value_bytes[self._counted & self.grows]
        if not counted.any() and not self._workspace_grows.any():
            raise UsageError(
                f"no value of {self.graph.name!r} grows with the batch, so every batch fits or none does"
            )

    @property
    def _counted(self) -> NDArray[np.bool_]:
        return np.asarray(
            (self.graph.producer >= 0) & (self.graph.owner == np.arange(self.graph.m)), np.bool_
        )

    @cached_property
    def grows(self) -> NDArray[np.bool_]:
        """Return bool[m]: whether the value's bytes grow with the batch.

        What an update op reads or writes (gradients of parameters, new parameters) does not. Nor does what
        has a known shape without a dimension that is a multiple of the batch size. Views are as their
        buffer's owner.
        """
        own = np.array([_has_batch(value, self.batch) for value in self.graph.values], np.bool_)
        for op in self.graph.ops:
            if op.phase is Phase.UPDATE:
                own[[*op.inputs, *op.outputs]] = False
        return read_only(own[self.graph.owner], np.bool_)

    @cached_property
    def _workspace_grows(self) -> NDArray[np.bool_]:
        return np.array(
            [op.workspace_bytes > 0 and op.phase is not Phase.UPDATE for op in self.graph.ops], np.bool_
        )

    @property
    def standing(self) -> int:
        """Return how many produced values do not grow."""
        return int(((self.graph.producer >= 0) & ~self.grows).sum())

    def largest(self) -> int:
        """Return the largest batch whose sizes can be stated at all."""
        total = (
            self.graph.fixed_bytes + int(self.graph.value_bytes.sum()) + int(self.graph.workspace_bytes.sum())
        )
        return max(self.batch, LARGEST_TOTAL // max(1, total) * self.batch)

    def at(self, batch: int) -> Graph:
        """Return the graph at ``batch`` (at least 1); the last few are kept."""
        if batch not in self._made:
            if len(self._made) > 64:
                self._made.clear()
            self._made[batch] = self._scaled(batch)
        return self._made[batch]

    def _scaled(self, batch: int) -> Graph:
        graph = self.graph
        values = [
            self._value(value, batch) if grows else value
            for value, grows in zip(graph.values, self.grows.tolist(), strict=True)
        ]
        inputs = min(graph.fixed.get(_INPUTS, 0), graph.fixed_bytes)
        more = self._grown(inputs, batch) - inputs
        return replace(
            graph,
            ops=tuple(self._op(op, batch) for op in graph.ops),
            values=tuple(values),
            fixed_bytes=graph.fixed_bytes + more,
            fixed={**graph.fixed, _INPUTS: inputs + more} if more else graph.fixed,
            batch_size=batch,
            metadata={**self._kept_facts, "extrapolated_from_batch": self.batch},
            declared_fingerprint=None,
        )

    @property
    def _kept_facts(self) -> dict[str, Any]:
        return {key: self.graph.metadata[key] for key in _KEPT_FACTS if key in self.graph.metadata}

    def _grown(self, size: int, batch: int) -> int:
        return -(-size * batch // self.batch)

    def _value(self, value: Value, batch: int) -> Value:
        shape = value.shape
        if shape is not None:
            shape = (batch, *shape[1:]) if shape[:1] == (self.batch,) else None
        return replace(value, bytes=self._grown(value.bytes, batch), shape=shape)

    def _op(self, op: Op, batch: int) -> Op:
        workspace = op.workspace_bytes if op.phase is Phase.UPDATE else self._grown(op.workspace_bytes, batch)
        # Two sizes that are equal at one batch by chance must not let a larger batch need less: peaks never
        # decrease.
        pairs = tuple(pair for pair in op.takes_over if self._alike(*pair))
        return replace(op, cost=op.cost * batch / self.batch, workspace_bytes=workspace, takes_over=pairs)

    def _alike(self, output: int, read: int) -> bool:
        one, other = int(self.graph.owner[output]), int(self.graph.owner[read])
        return bool(
            self.graph.value_bytes[one] == self.graph.value_bytes[other]
            and self.grows[one] == self.grows[other]
        )

    def note(self) -> str:
        """Say what was taken to grow, in a sentence."""
        if self.graph.origin.built_from_layers:
            return "built from its layers: every cost and size is in proportion to the batch, exactly"
        said = f"extrapolated from batch {self.batch}: costs and bytes grow in proportion"
        if self.standing:
            still = f"{self.standing} of {self._produced} values"
            return f"{said}; {still} (gradients of parameters, scalars) do not grow"
        return f"{said}; this is so for all values, because none is known to be a parameter's gradient"

    @property
    def _produced(self) -> int:
        return int((self.graph.producer >= 0).sum())


def with_fixed_bytes(graph: Graph, fixed_bytes: int | None) -> Graph:
    """Return ``graph`` with ``fixed_bytes`` instead of its own. None leaves it as it is."""
    if fixed_bytes is None:
        return graph
    return replace(graph, fixed_bytes=fixed_bytes, fixed=MappingProxyType({"given": fixed_bytes}))


def _has_batch(value: Value, batch: int) -> bool:
    """Return whether one of its dimensions may be the batch.

    Where the shape is not known, it is taken to be.
    """
    return value.shape is None or any(size > 0 and size % batch == 0 for size in value.shape)


def _batch_of(graph: Graph, given: int) -> int:
    stated = graph.batch_size or 0
    if given and stated and given != stated:
        raise UsageError(
            f"{graph.name!r} says that its batch size is {stated}, not {given}", hint="leave --batch-size out"
        )
    if given or stated:
        return given or stated
    raise UsageError(
        f"{graph.name!r} does not say what batch size its bytes are for",
        hint="give it with --batch-size N",
    )
