"""What this package uses of PyTorch beyond its documented interface. What it uses of Inductor is in
``inductor``, which takes long to import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd as aot_autograd
from torch._dynamo.eval_frame import OptimizedModule as OptimizedModule
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput, TangentAOTInput
from torch._functorch.partitioners import default_partition as default_partition
from torch._functorch.partitioners import must_recompute as must_recompute
from torch._prims.rng_prims import run_and_save_rng_state as run_and_save_rng_state
from torch._prims.rng_prims import run_with_rng_state as run_with_rng_state
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch._subclasses.fake_tensor import unset_fake_temporarily as unset_fake_temporarily
from torch.fx import graph as fx_graph
from torch.utils._pytree import tree_leaves as tree_leaves


def overwritten_inputs(joint: fx.GraphModule) -> dict[int, int]:
    """Return the inputs overwritten after the forward pass: input number → index of the new value's
    output."""
    (output,) = joint.graph.find_nodes(op="output")
    inputs = [node.meta.get("desc") for node in joint.graph.find_nodes(op="placeholder")]
    return {
        inputs.index(described.mutated_input): place
        for place, described in enumerate(output.meta.get("desc", ()))
        if isinstance(described, InputMutationAOTOutput)
    }


def tangent_places(joint: fx.GraphModule) -> list[int]:
    """Return, per tangent in order, the index of the output that it is the gradient of."""
    (output,) = joint.graph.find_nodes(op="output")
    described = [node.meta.get("desc") for node in joint.graph.find_nodes(op="placeholder")]
    outputs = list(output.meta.get("desc", ()))
    return [outputs.index(each.output) for each in described if isinstance(each, TangentAOTInput)]


def traced_forward(joint: fx.GraphModule) -> frozenset[fx.Node]:
    """Return the nodes up to the last that was traced in the forward pass; all, where no node says so."""
    nodes = list(joint.graph.nodes)
    tagged = [number for number, node in enumerate(nodes) if node.meta.get("partitioner_tag") == "is_forward"]
    return frozenset(nodes[: tagged[-1] + 1] if tagged else nodes)


def boxed(module: fx.GraphModule) -> Callable[[list[Any]], Any]:
    """Return what runs ``module`` on a list that it empties: each argument dies after its last reader."""
    run = _with_boxed_code(module).forward

    def call(args: list[Any]) -> Any:
        return run(args)

    call._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd asks
    return call


def boxed_code(module: fx.GraphModule, name: str) -> str:
    """Return Python code that does what ``boxed`` does, as a function of a list. What the module holds are
    attributes of ``CONSTANTS``.
    """
    found: str = _with_boxed_code(module).code
    found = found.strip().replace("def forward(self, args_list):", f"def {name}(args_list):")
    return found.replace("= self.", "= CONSTANTS.") + "\n"


def _with_boxed_code(module: fx.GraphModule) -> fx.GraphModule:
    made = fx.GraphModule(module, module.graph)
    made.graph.set_codegen(fx_graph._BoxedCodeGen())
    made.recompile()
    return made


def storage_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
