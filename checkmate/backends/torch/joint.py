"""The joint graph of a region that ``torch.compile`` traced, as ops on storages.

AOTAutograd hands a functional FX graph of forward and backward. What holds memory there are storages: a view
shares that of its base, and an op may write several. So an op of the step is a node that makes a storage;
views and selections of an output are made again wherever they are read.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import fx

from checkmate.backends.torch.private import storage_of, tree_leaves
from checkmate.errors import TraceError

Storage = int  # the place of its first appearance among all storages


@dataclass(frozen=True, eq=False)
class Joint:
    """A joint graph. Its first ``forward_outputs`` outputs are those of the forward pass. ``written``: number
    of a primal that is overwritten after the forward pass → index of the output that is its new value.

    Raises:
        TraceError: it has sizes that are known only when it runs, or tensors that are no plain ones.
    """

    module: fx.GraphModule
    forward_outputs: int
    written: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.nodes:
            for each in tree_leaves(node.meta.get("val")):
                if isinstance(each, torch.Tensor) and each.layout is not torch.strided:
                    kind = str(each.layout).removeprefix("torch.")
                    raise TraceError(f"{node.name!r} is a tensor of layout {kind}, which is not planned")
                sizes = tuple(each.shape) if isinstance(each, torch.Tensor) else (each,)
                if any(isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool) for size in sizes):
                    raise TraceError(
                        f"the sizes of {node.name!r} are known only when the step runs",
                        hint="compile with dynamic=False, or mark the sizes as static",
                    )

    @cached_property
    def nodes(self) -> tuple[fx.Node, ...]:
        return tuple(self.module.graph.nodes)

    @cached_property
    def placeholders(self) -> tuple[fx.Node, ...]:
        return tuple(node for node in self.nodes if node.op == "placeholder")

    def require_inputs(self, inputs: Sequence[Any]) -> None:
        """Raise a TraceError unless the graph's primals match ``inputs``. They do not if overlapping inputs
        are overwritten: AOTAutograd merges these into one tensor."""
        wanted = [_shape(node.meta.get("val")) for node in self.primals]
        if wanted != [_shape(each) for each in inputs]:
            raise TraceError(
                "inputs that share memory are written over, which is not planned",
                hint="give the model copies of them",
            )

    @cached_property
    def tangents(self) -> tuple[fx.Node, ...]:
        return tuple(node for node in self.placeholders if "tangents" in str(node.target))

    @cached_property
    def primals(self) -> tuple[fx.Node, ...]:
        return tuple(node for node in self.placeholders if node not in self.tangents)

    @cached_property
    def outputs(self) -> tuple[Any, ...]:
        (output,) = self.module.graph.find_nodes(op="output")
        return tuple(output.args[0])

    @cached_property
    def overwritten(self) -> frozenset[fx.Node]:
        """The primals that hold something else when the backward pass runs."""
        return frozenset(self.primals[number] for number in self.written)

    @cached_property
    def constants(self) -> tuple[fx.Node, ...]:
        """The tensors that the graph itself holds."""
        return tuple(node for node in self.nodes if node.op == "get_attr")

    @property
    def results(self) -> tuple[Any, ...]:
        """What the forward pass returns: nodes, or constants."""
        return self.outputs[: self.forward_outputs]

    @property
    def gradients(self) -> tuple[Any, ...]:
        """What the backward pass returns: nodes, or None."""
        return self.outputs[self.forward_outputs :]

    @cached_property
    def _found(self) -> tuple[dict[fx.Node, tuple[Storage, ...]], tuple[tuple[fx.Node, torch.Tensor], ...]]:
        """The storages of each node; and per storage, the node that makes it and its first tensor."""
        known: dict[int, Storage] = {}
        of_node: dict[fx.Node, tuple[Storage, ...]] = {}
        first: list[tuple[fx.Node, torch.Tensor]] = []
        for node in self.nodes:
            found: list[Storage] = []
            for tensor in _tensors(node):
                # A fake storage lives as long as its node's meta data, so its address is its own.
                number = known.setdefault(storage_of(tensor), len(known))
                if number == len(first):
                    first.append((node, tensor))
                found.append(number)
            of_node[node] = tuple(dict.fromkeys(found))
        return of_node, tuple(first)

    def storages(self, node: fx.Node) -> tuple[Storage, ...]:
        return self._found[0][node]

    @cached_property
    def storage_bytes(self) -> tuple[int, ...]:
        # A tangent is dense, also where the result is a part of a storage.
        return tuple(
            tensor.nbytes if node in self.tangents else tensor.untyped_storage().nbytes()
            for node, tensor in self._found[1]
        )

    def maker(self, storage: Storage) -> fx.Node:
        return self._found[1][storage][0]

    def first_tensor(self, storage: Storage) -> torch.Tensor:
        return self._found[1][storage][1]

    def made(self, node: fx.Node) -> tuple[Storage, ...]:
        """Return the storages that a node makes."""
        return tuple(each for each in self.storages(node) if self.maker(each) is node)

    @cached_property
    def ops(self) -> tuple[fx.Node, ...]:
        """The nodes that compute something. All others are views."""
        return tuple(node for node in self.nodes if self._computes(node))

    def _computes(self, node: fx.Node) -> bool:
        if node.op != "call_function" or node.target is operator.getitem:
            return False
        return bool(self.made(node)) or not self.storages(node) or is_impure(node)

    @cached_property
    def selections(self) -> dict[fx.Node, tuple[fx.Node, ...]]:
        """Of each op with several outputs the nodes that take one."""
        found: dict[fx.Node, list[fx.Node]] = {node: [] for node in self.ops}
        for node in self.nodes:
            if node.target is operator.getitem and node.args[0] in found:
                found[node.args[0]].append(node)
        return {node: tuple(taken) for node, taken in found.items()}

    @cached_property
    def views(self) -> dict[Storage, tuple[fx.Node, ...]]:
        """Of each storage its views: nodes that compute nothing, and are not the output of an op."""
        outputs = {each for taken in self.selections.values() for each in taken}
        found: dict[Storage, list[fx.Node]] = {}
        for node in self.nodes:
            if node.op == "call_function" and node not in self.selections and node not in outputs:
                for storage in self.storages(node):
                    found.setdefault(storage, []).append(node)
        return {storage: tuple(nodes) for storage, nodes in found.items()}

    @cached_property
    def _all_views(self) -> frozenset[fx.Node]:
        return frozenset(node for nodes in self.views.values() for node in nodes)

    def is_view(self, node: fx.Node) -> bool:
        return node in self._all_views

    @cached_property
    def late(self) -> frozenset[fx.Node]:
        """The nodes that need a tangent."""
        late: set[fx.Node] = set(self.tangents)
        for node in self.nodes:
            if any(each in late for each in node.all_input_nodes):
                late.add(node)
        return frozenset(late)

    def read_by(self, node: fx.Node) -> tuple[Storage, ...]:
        """Return the storages that a node reads."""
        read = [storage for each in node.all_input_nodes for storage in self.storages(each)]
        return tuple(dict.fromkeys(read))

    def storages_of(self, nodes: Sequence[Any]) -> tuple[Storage, ...]:
        found = [storage for node in nodes if isinstance(node, fx.Node) for storage in self.storages(node)]
        return tuple(dict.fromkeys(found))


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None


def _tensors(node: fx.Node) -> Iterator[torch.Tensor]:
    if node.op != "output":
        yield from (each for each in tree_leaves(node.meta.get("val")) if isinstance(each, torch.Tensor))


def is_random(node: fx.Node) -> bool:
    """Whether each run of a node draws other numbers. Attention without dropout draws none."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    names = [argument.name for argument in node.target._schema.arguments]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    return bool("dropout_p" not in names or given.get("dropout_p"))


def is_impure(node: fx.Node) -> bool:
    """Whether a node does more than compute its outputs."""
    return not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable
