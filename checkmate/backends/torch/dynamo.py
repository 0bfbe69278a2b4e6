"""A backend of ``torch.compile`` that asks for a schedule of each joint graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from torch import fx

from checkmate.backends.torch.emission import Halves
from checkmate.backends.torch.joint import Joint
from checkmate.backends.torch.private import (
    aot_autograd,
    boxed,
    default_partition,
    overwritten_inputs,
    unset_fake_temporarily,
)

# Of a joint graph and what it is called with, its halves; None: as PyTorch cuts it by itself.
Planner: TypeAlias = Callable[[fx.GraphModule, int, Sequence[Any]], Halves | None]


def backend_by(planner: Planner) -> Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    """Return a backend of ``torch.compile`` whose regions with gradients are emitted as ``planner`` says."""

    def compiled(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        cut = partial(_cut, planner, list(inputs))
        run: Callable[..., Any] = aot_autograd(fw_compiler=_run, bw_compiler=_run, partition_fn=cut)(
            module, inputs
        )
        return run

    return compiled


def _cut(
    planner: Planner,
    inputs: Sequence[Any],
    module: fx.GraphModule,
    joint_inputs: Any,
    *,
    num_fwd_outputs: int,
    **more: Any,
) -> tuple[fx.GraphModule, fx.GraphModule]:
    with unset_fake_temporarily():
        halves = planner(module, num_fwd_outputs, inputs)
    if halves is not None:
        return halves.forward, halves.backward
    by_itself: tuple[fx.GraphModule, fx.GraphModule] = default_partition(
        module, joint_inputs, num_fwd_outputs=num_fwd_outputs, **more
    )
    return by_itself


def joint_of(module: fx.GraphModule, forward_outputs: int, inputs: Sequence[Any]) -> Joint:
    """Return the joint graph of what is called with ``inputs``; errors are those of ``Joint``."""
    joint = Joint(module, forward_outputs, overwritten_inputs(module))
    joint.require_inputs(inputs)
    return joint


def _run(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    return boxed(module)
