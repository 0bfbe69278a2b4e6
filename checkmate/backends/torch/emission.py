"""A schedule of a region as two FX graphs: the forward half and the backward half.

FX frees a value after its last reader. After a storage was recomputed, its views are made again where they
are read. The outputs of one op are unpacked right after it, so that each can be freed by itself.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from checkmate.backends.torch.graph import Region, state_bytes
from checkmate.backends.torch.joint import Joint, is_random
from checkmate.backends.torch.packed import packed, unpacked
from checkmate.backends.torch.private import (
    FakeTensor,
    run_and_save_rng_state,
    run_with_rng_state,
    tree_leaves,
)
from checkmate.errors import ExportError
from checkmate.ir import Schedule

_VIEW = -1
# Some kernels (the gradient of batch norm) write other strides than tracing predicted, so that a view fails.
_RESHAPED = {torch.ops.aten.view.default: torch.ops.aten.reshape.default}


@dataclass(frozen=True, eq=False)
class Halves:
    """The two halves of a scheduled step. ``forward`` returns ``results`` results, then the values saved for
    ``backward``, which takes them and then the tangents. ``forward_ops``, ``backward_ops``: per call, the op
    of the region's graph that it runs; -1 for a view."""

    forward: fx.GraphModule
    backward: fx.GraphModule
    results: int
    forward_ops: tuple[int, ...]
    backward_ops: tuple[int, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        modules = packed(self.forward), packed(self.backward)
        return _unpacked_halves, (*modules, self.results, self.forward_ops, self.backward_ops)


def _unpacked_halves(forward: Any, backward: Any, *rest: Any) -> Halves:
    return Halves(unpacked(*forward), unpacked(*backward), *rest)


def emitted(region: Region, schedule: Schedule) -> Halves:
    """Return the halves of a schedule.

    Raises:
        ExportError: the schedule reads what was not computed.
    """
    schedule.require_graph(region.graph)
    steps, joint = schedule.steps.tolist(), region.joint
    cut = steps.index(region.boundary)
    random = {
        node
        for step, count in Counter(steps).items()
        if count > 1 and (node := region.nodes[step]) is not None and is_random(node)
    }
    forward = _Half(joint, random)
    for node in joint.primals:
        forward.take(node)
    forward.run(region, steps[:cut])
    results = [forward.read(each) if isinstance(each, fx.Node) else each for each in joint.results]
    backward = _Half(joint, random, before=forward)
    for node in joint.tangents:
        backward.take(node)
    backward.run(region, steps[cut + 1 :])
    gradients = [backward.read(each) if isinstance(each, fx.Node) else each for each in joint.gradients]
    forward.graph.output((*results, *backward.saved))
    backward.graph.output(tuple(gradients))
    return Halves(forward.module(), backward.module(), len(results), forward.ops(), backward.ops())


@dataclass
class _Half:
    """One half while it is being emitted. ``random``: random ops that run more than once. ``before``: the
    forward half, from which the backward half takes the ``saved`` values, in this order. ``copies``: node of
    the joint graph → its latest copy."""

    joint: Joint
    random: set[fx.Node]
    before: _Half | None = None
    graph: fx.Graph = field(default_factory=fx.Graph)
    saved: list[fx.Node] = field(default_factory=list)
    copies: dict[fx.Node, fx.Node] = field(default_factory=dict)
    states: dict[fx.Node, fx.Node] = field(default_factory=dict)  # random op → generator state before it
    op_of: dict[fx.Node, int] = field(default_factory=dict)

    def take(self, node: fx.Node) -> None:
        self.copies[node] = self.graph.placeholder(str(node.target))
        self.copies[node].meta = dict(node.meta)

    def run(self, region: Region, steps: Sequence[int]) -> None:
        for step in steps:
            if (node := region.nodes[step]) is not None:
                self._compute(node, step)

    def _compute(self, node: fx.Node, op: int) -> None:
        args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), self.read)
        if node in self.random:
            made = self._draw(node, args, kwargs, op)
        else:
            made = self._call(node, node.target, args, kwargs, op)
        self.copies[node] = made
        for output in self.joint.selections[node]:
            self.copies[output] = self._call(output, operator.getitem, (made, output.args[1]))
        for storage in self.joint.made(node):
            for view in self.joint.views.get(storage, ()):
                self.copies.pop(view, None)  # it is a view of the earlier computation's storage

    def _draw(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], op: int) -> fx.Node:
        """Run a random op: the first run saves the generator's state, a recomputation draws from that."""
        before = self.before
        if node not in self.states and before is not None and node in before.states:
            self.states[node] = self._save(before.states[node])
        if node in self.states:
            return self._call(node, run_with_rng_state, (self.states[node], node.target, *args), kwargs, op)
        both = self._call(node, run_and_save_rng_state, (node.target, *args), kwargs, op)
        both.meta["val"] = (_fake_state(node), node.meta["val"])
        self.states[node] = self._call(both, operator.getitem, (both, 0))
        self.states[node].meta["val"] = both.meta["val"][0]
        return self._call(node, operator.getitem, (both, 1))

    def read(self, node: fx.Node) -> fx.Node:
        """Return the last copy of a node; write one where it is a view, or is in the half before."""
        if node not in self.copies:
            if node.op == "get_attr":
                self.copies[node] = self.graph.get_attr(str(node.target))
                self.copies[node].meta = dict(node.meta)
            elif self.joint.is_view(node):
                args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), self.read)
                self.copies[node] = self._call(node, _RESHAPED.get(node.target, node.target), args, kwargs)
            elif self.before is None:
                raise ExportError(f"the schedule reads {node.name!r} before it is computed")
            else:
                self.copies[node] = self._save(self.before.kept(node))
        return self.copies[node]

    def kept(self, node: fx.Node) -> fx.Node:
        """Return what the half after this one may read of a node: a copy, if the caller writes over it."""
        if node not in self.joint.overwritten:
            return self.read(node)
        return self._call(node, torch.ops.aten.clone.default, (self.copies[node],))

    def _save(self, given: fx.Node) -> fx.Node:
        self.saved.append(given)
        first = self.copies[self.joint.tangents[0]]
        with self.graph.inserting_before(first):
            made = self.graph.placeholder(given.name)
        made.target = made.name  # else two variables of the code could have one name
        made.meta = dict(given.meta)
        return made

    def _call(
        self,
        node: fx.Node,
        target: Callable[..., Any] | str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        op: int = _VIEW,
    ) -> fx.Node:
        made = self.graph.create_node("call_function", target, args, kwargs or {}, name=node.name)
        made.meta = dict(node.meta)
        self.op_of[made] = op
        return made

    def module(self) -> fx.GraphModule:
        self.graph.lint()
        return fx.GraphModule(self.joint.module, self.graph)  # which holds the constants

    def ops(self) -> tuple[int, ...]:
        return tuple(self.op_of[node] for node in self.graph.nodes if node.op == "call_function")


def _fake_state(node: fx.Node) -> torch.Tensor:
    fake = next(each for each in tree_leaves(node.meta["val"]) if isinstance(each, FakeTensor))
    with fake.fake_mode:
        return torch.empty(state_bytes(fake.device.type), dtype=torch.uint8)
