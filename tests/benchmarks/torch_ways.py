"""Ways to train a PyTorch model in less memory: its own, and by our schedules, each as a wrapped module."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._functorch import config
from torch._functorch.partitioners import estimate_runtime, min_cut_rematerialization_partition
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import checkmate
from checkmate.backends.torch.emission import emitted
from checkmate.backends.torch.graph import region_of
from checkmate.backends.torch.joint import Joint
from checkmate.backends.torch.private import (
    aot_autograd,
    boxed,
    overwritten_inputs,
    unset_fake_temporarily,
)
from checkmate.ir import CostOrigin, CostUnit, Graph
from checkmate.solvers.problem import SolveOptions
from tests.benchmarks.torch_flops import PRODUCTS, eager_flops_of, flops_of
from tests.torch.meter import meter
from tests.torch.models import MODELS, classified

SHARES = (1.0, *(share / 10 for share in range(9, 0, -1)), 0.0)
BLOCKS = ("Block", "TransformerEncoderLayer", "TransformerDecoderLayer", "Residual", "ConvNeXtBlock")
_SAVED = {op.default for op in PRODUCTS}
_SEED = 1

Row = dict[str, Any]
Wrap = Callable[[nn.Module], nn.Module]


class WithLoss(nn.Module):
    """A model of which a region of ``torch.compile`` is the whole step."""

    def __init__(self, name: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model = MODELS[name].make()["model"]
        self._logits = MODELS[name].step is classified

    def forward(self, *inputs: Tensor) -> Tensor:
        if not self._logits:
            return self.model(*inputs)
        x, labels = inputs
        return functional.cross_entropy(self.model(x), labels)


class Way:
    """A model that is trained in one way; it has run once, so that all is compiled."""

    def __init__(self, network: str, name: str, wrap: Wrap) -> None:
        self.name, self._module, self._inputs = name, WithLoss(network), MODELS[network].inputs(0)
        self._called = wrap(self._module)
        self.step()
        self.gradients = {n: each.grad for n, each in self._module.named_parameters()}
        self.state = {n: each.clone() for n, each in self._module.named_buffers()}

    def step(self) -> None:
        for each in self._module.parameters():
            each.grad = None
        torch.manual_seed(_SEED)
        self._called(*self._inputs).backward()

    def seconds(self) -> float:
        started = time.perf_counter()
        self.step()
        return time.perf_counter() - started

    def row(self, plain: Way) -> Row:
        for each in self._module.parameters():
            each.grad = None
        peak = meter(self.step).peak
        is_compiled = isinstance(self._called, torch._dynamo.OptimizedModule)
        return {
            "way": self.name,
            "peak_bytes": peak,
            "flops": flops_of(self.step) if is_compiled else eager_flops_of(self.step),
            "gradients_bitwise": _same(self.gradients, plain.gradients),
            "state_bitwise": _same(self.state, plain.state),
        }


def _same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in b)


def compiled(by: Any) -> Wrap:
    return lambda module: torch.compile(module, backend=by, dynamic=False, fullgraph=True)


def halved(partition: Callable[..., Any]) -> Wrap:
    """What AOTAutograd makes of the halves that ``partition`` returns, emitted as ours are."""

    def run(module: Any, inputs: Any) -> Any:
        return boxed(module)

    return compiled(aot_autograd(fw_compiler=run, bw_compiler=run, partition_fn=partition))


def torch_partition(share: float, module: Any, *given: Any, **more: Any) -> Any:
    _keep_overwritten(module)
    with config.patch(activation_memory_budget=share):
        return min_cut_rematerialization_partition(module, *given, **more)


def _keep_overwritten(module: Any) -> None:
    """Let ops read copies of what the caller writes over. Else halves in which batch norm is recomputed read
    statistics in backward that are written over by then, and autograd refuses them.
    """
    inputs = module.graph.find_nodes(op="placeholder")
    for node in [inputs[number] for number in overwritten_inputs(module)]:
        with module.graph.inserting_before(next(iter(node.users))):
            copy = module.graph.call_function(torch.ops.aten.clone.default, (node,))
        copy.meta = {**node.meta, "recompute": CheckpointPolicy.MUST_SAVE}
        node.replace_all_uses_with(copy, delete_user_cb=lambda user, copy=copy: user is not copy)


def checkpointed(module: nn.Module, **options: Any) -> nn.Module:
    for each in module.modules():
        if type(each).__name__ in BLOCKS:
            each.forward = partial(checkpoint, each.forward, use_reentrant=False, **options)
    return module


def _dear(context: Any, op: Any, *args: Any, **more: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op in _SAVED else CheckpointPolicy.PREFER_RECOMPUTE


def peers(network: str) -> Iterator[tuple[str, Wrap]]:
    yield "aot_eager", compiled("aot_eager")
    for share in SHARES:
        yield f"activation_memory_budget {share:g}", halved(partial(torch_partition, share))
    if any(type(each).__name__ in BLOCKS for each in WithLoss(network).modules()):
        yield "checkpoint each block", checkpointed
        dear = partial(create_selective_checkpoint_contexts, _dear)
        yield "checkpoint all but products", partial(checkpointed, context_fn=dear)


@dataclass
class ByFlops:
    """Solves for PyTorch's own price of an op, on a graph that has the workspace of ops as measured."""

    measured: Graph
    budget: int
    found: Row = field(default_factory=dict)

    def partition(self, module: Any, joint_inputs: Any, *, num_fwd_outputs: int, **more: Any) -> Any:
        region = region_of(Joint(module, num_fwd_outputs, overwritten_inputs(module)))
        prices = [0.0 if node is None else float(estimate_runtime(node)) for node in region.nodes]
        ops = [replace(op, cost=price) for op, price in zip(self.measured.ops, prices, strict=True)]
        graph = replace(
            self.measured, ops=tuple(ops), cost_unit=CostUnit.FLOP, cost_origin=CostOrigin.ANALYTIC
        )
        with unset_fake_temporarily():
            options = SolveOptions(time_limit_s=5)
            result = checkmate.solve(graph, self.budget, options=options, quiet=True)
        schedule = result.require_schedule()
        self.found = {"above_best": result.above_best, "recomputations": schedule.recomputations}
        halves = emitted(region.with_graph(graph), schedule)
        return halves.forward, halves.backward
