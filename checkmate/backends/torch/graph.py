"""The graph of a joint graph: its ops and storages as ops and values.

The tangents exist only once the forward pass has returned. One op says so: it reads all that the forward pass
returns and makes the tangents. What precedes it in a schedule is the forward half, the rest the backward one.
What the forward pass returned and the tangents stay live to the end: the caller holds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import fx
from torch.utils.flop_counter import flop_registry

from checkmate.backends.torch.joint import Joint, Storage, is_impure, is_random
from checkmate.backends.torch.private import must_recompute, traced_forward, tree_leaves
from checkmate.ir import CostOrigin, CostUnit, Device, Graph, GraphBuilder, Phase
from checkmate.runner import TORCH

Compiler: TypeAlias = Literal["eager", "inductor"]

HAND_OVER = "hand over"
_BLOCK = {"cuda": 512}  # bytes; the allocator rounds sizes up to a multiple
_ATEN = torch.ops.aten
_COUNTED_AS = {  # PyTorch has formulas for the kernels of a GPU only
    _ATEN._scaled_dot_product_flash_attention_for_cpu: _ATEN._scaled_dot_product_flash_attention,
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward: (
        _ATEN._scaled_dot_product_flash_attention_backward
    ),
}
_STATE_BYTES = {"cpu": 5056, "cuda": 16}  # of a random generator's state; both are in host memory


@dataclass(frozen=True, eq=False)
class Region:
    """A joint graph and the graph to schedule. ``nodes``: per op, its FX node; None for an op that is only in
    the graph. ``boundary``: the op between forward and backward pass. ``device``: PyTorch's device type.
    ``compiler``: compiles the halves; with "eager" their ops run one by one."""

    joint: Joint
    graph: Graph
    nodes: tuple[fx.Node | None, ...]
    boundary: int
    device: str
    compiler: Compiler = "eager"

    def with_graph(self, graph: Graph) -> Region:
        return replace(self, graph=graph)


def region_of(joint: Joint, name: str = "step") -> Region:
    """Return the region of a joint graph, at counted costs.

    Raises:
        TraceError: it holds what cannot be planned.
    """
    return _Maker(joint, device_of(joint), GraphBuilder(name)).make()


def device_of(joint: Joint) -> str:
    """Return the type of device that holds most of the step's bytes."""
    total: dict[str, int] = {}
    for storage, size in enumerate(joint.storage_bytes):
        kind = joint.first_tensor(storage).device.type
        total[kind] = total.get(kind, 0) + size
    return max(total, key=lambda kind: total[kind], default="cpu")


@dataclass
class _Maker:
    joint: Joint
    device: str
    builder: GraphBuilder
    nodes: list[fx.Node | None] = field(default_factory=list)
    values: dict[Storage, int] = field(default_factory=dict)
    layers: dict[int, str] = field(default_factory=dict)  # by the number that forward and backward share
    drawn: int | None = None  # written by the last random op and read by the next, to keep their order

    def make(self) -> Region:
        joint = self.joint
        early, rest = self._halves()
        self.kept = set(joint.storages_of(joint.gradients))
        for node in early:
            self._op(node)
        boundary = self._hand_over()
        for node in rest:
            self._op(node)
        fixed = self._fixed()
        graph = self.builder.build(
            fixed_bytes=sum(fixed.values()),
            fixed=fixed,
            device=Device(self.device, "gpu" if self.device == "cuda" else self.device),
            cost_unit=CostUnit.FLOP,
            cost_origin=CostOrigin.ANALYTIC,
            metadata={
                "framework": TORCH,
                "modules": sorted({path for node in joint.ops for path in _modules(node)}),
                "checkpoints": _checkpoints(joint.ops),
            },
        )
        return Region(joint, graph, tuple(self.nodes), boundary, self.device)

    def _halves(self) -> tuple[list[fx.Node], list[fx.Node]]:
        """Return the ops of the forward pass and what its results need, and all others."""
        joint, forward = self.joint, traced_forward(self.joint.module)
        needed = {each for each in joint.results if isinstance(each, fx.Node)}
        for node in reversed(joint.nodes):
            if node in needed:
                needed.update(node.all_input_nodes)
        seen_late, early, rest = False, list[fx.Node](), list[fx.Node]()
        for node in joint.ops:
            seen_late = seen_late or node in joint.late or node not in forward
            (rest if seen_late and node not in needed else early).append(node)
        return early, rest

    def _op(self, node: fx.Node) -> None:
        reads = [self.values[each] for each in self.joint.read_by(node) if each in self.values]
        random = is_random(node)
        if random or self.joint.overwritten.intersection(node.all_input_nodes):
            reads.append(self._snapshot(node, random))
        writes = [self._value(each, node) for each in self.joint.made(node)]
        if random:
            self.drawn = self.builder.value(f"{node.name}:drawn", 0)
            writes.append(self.drawn)
        self.nodes.append(node)
        self.builder.op(
            node.name,
            reads,
            writes,
            type=_type(node),
            phase=Phase.BACKWARD if node in self.joint.late else Phase.FORWARD,
            group=self._layer(node),
            cost=counted(node),
            workspace_bytes=state_bytes(self.device) if random and self.device == "cpu" else 0,
            recomputable=not is_impure(node),
        )

    def _value(self, storage: Storage, node: fx.Node) -> int:
        tensor = self.joint.first_tensor(storage)
        self.values[storage] = self.builder.value(
            f"{node.name}:{len(self.builder.values)}",
            self._rounded(self.joint.storage_bytes[storage]),
            shape=tuple(tensor.shape),
            dtype=str(tensor.dtype).removeprefix("torch."),
            keep=storage in self.kept,
        )
        return self.values[storage]

    def _snapshot(self, node: fx.Node, random: bool) -> int:
        """Add the op that saves what ``node`` needs to compute the same again: the generator's state before
        it draws, and inputs that are overwritten after the forward pass. Return the saved value."""
        inputs = self.joint.storages_of(
            [each for each in node.all_input_nodes if each in self.joint.overwritten]
        )
        size = sum(self._rounded(self.joint.storage_bytes[each]) for each in inputs)
        if random and self.device == "cpu":
            size += state_bytes(self.device)
        taken = self.builder.value(f"{node.name}:snapshot", size)
        before = [self.drawn] if random and self.drawn is not None else []
        self.nodes.append(None)
        self.builder.op(
            f"{node.name}:snapshot",
            before,
            [taken],
            type="snapshot",
            group=self._layer(node),
            recomputable=False,
        )
        return taken

    def _hand_over(self) -> int:
        joint = self.joint
        results = [self.values[each] for each in joint.storages_of(joint.results) if each in self.values]
        views = [
            self.builder.value(
                f"{self.builder.values[each].name}:result",
                self.builder.values[each].bytes,
                keep=True,
                alias_of=each,
            )
            for each in results
        ]
        self.kept |= set(joint.storages_of(joint.tangents))
        tangents = [self._value(storage, node) for node in joint.tangents for storage in joint.made(node)]
        # The caller may draw between the passes, so all draws of the forward pass come before this op.
        before = [] if self.drawn is None else [self.drawn]
        self.drawn = self.builder.value(f"{HAND_OVER}:drawn", 0)
        reads, writes = [*results, *before], [*views, *tangents, self.drawn]
        self.nodes.append(None)
        return self.builder.op(HAND_OVER, reads, writes, type=HAND_OVER, phase=Phase.LOSS, recomputable=False)

    def _fixed(self) -> dict[str, int]:
        """The bytes of what the region is called with: parameters, buffers and inputs; with its constants."""
        joint = self.joint
        fixed = joint.storages_of([*joint.primals, *joint.constants])
        sizes = (joint.storage_bytes[each] for each in fixed)
        return {"parameters, buffers and inputs": sum(map(self._rounded, sizes))}

    def _rounded(self, size: int) -> int:
        block = _BLOCK.get(self.device, 1)
        return -(-size // block) * block

    def _layer(self, node: fx.Node) -> str:
        number, layer = node.meta.get("seq_nr", -1), layer_of(node)
        if layer:
            self.layers.setdefault(number, layer)
        return layer or self.layers.get(number, "")


def state_bytes(device: str) -> int:
    return _STATE_BYTES[device]


def layer_of(node: fx.Node) -> str:
    """Return the path of the innermost module whose ``forward`` made a node: ``blocks.0.attention``."""
    return next(reversed(_modules(node)), "")


def _modules(node: fx.Node) -> list[str]:
    """The paths of all modules whose ``forward`` made a node, from the outermost to the innermost."""
    stack: Mapping[str, Any] = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    paths = (str(entry[0]) for entry in stack.values())
    return [
        path.replace("L['self'].", "").replace("L['fn'].", "").removeprefix("_modules.") for path in paths
    ]


def _checkpoints(nodes: Iterable[fx.Node]) -> dict[str, int]:
    """Number the user's own checkpoints, by the nodes that each computes again."""
    inside = {node.name: node.meta["ac_graph_id"] for node in nodes if must_recompute(node)}
    numbers = {each: number for number, each in enumerate(dict.fromkeys(inside.values()))}
    return {name: numbers[each] for name, each in inside.items()}


def _type(node: fx.Node) -> str:
    target = node.target
    return target._schema.name.removeprefix("aten::") if hasattr(target, "_schema") else str(target)


def counted(node: fx.Node) -> float:
    """Return an op's floating-point operations; at least one for each element that it reads or writes."""
    value = node.meta.get("val")
    inputs = [each.meta.get("val") for each in node.all_input_nodes]
    elements = sum(each.numel() for each in tree_leaves([inputs, value]) if isinstance(each, torch.Tensor))
    packet = getattr(node.target, "overloadpacket", None)
    formula = flop_registry.get(_COUNTED_AS.get(packet, packet))
    if formula is None:
        return float(elements)
    args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), lambda each: each.meta["val"])
    return float(max(elements, formula(*args, **kwargs, out_val=value)))
