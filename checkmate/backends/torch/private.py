"""What this package uses of PyTorch beyond its documented interface, in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd as aot_autograd
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput
from torch._functorch.partitioners import default_partition as default_partition
from torch._prims.rng_prims import run_and_save_rng_state as run_and_save_rng_state
from torch._prims.rng_prims import run_with_rng_state as run_with_rng_state
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch._subclasses.fake_tensor import unset_fake_temporarily as unset_fake_temporarily
from torch.fx import graph as fx_graph
from torch.utils._pytree import tree_leaves as tree_leaves


def overwritten_inputs(joint: fx.GraphModule) -> frozenset[int]:
    """Return the numbers of the inputs into which new values are copied after the forward pass."""
    (output,) = joint.graph.find_nodes(op="output")
    described = output.meta.get("desc", ())
    changed = [each.mutated_input for each in described if isinstance(each, InputMutationAOTOutput)]
    inputs = joint.graph.find_nodes(op="placeholder")
    return frozenset(number for number, node in enumerate(inputs) if node.meta.get("desc") in changed)


def boxed(module: fx.GraphModule) -> Callable[[list[Any]], Any]:
    """Return what runs ``module`` on a list that it empties: each argument dies after its last reader."""
    made = fx.GraphModule(module, module.graph)
    if hasattr(fx_graph, "_BoxedCodeGen"):
        made.graph.set_codegen(fx_graph._BoxedCodeGen())
        made.recompile()
        run = made.forward
    else:
        run = fx.Interpreter(made).boxed_run

    def call(args: list[Any]) -> Any:
        return run(args)

    call._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd asks
    return call


def storage_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
