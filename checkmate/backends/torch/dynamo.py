"""A backend of ``torch.compile`` that asks for a schedule of each joint graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import fx

from checkmate.backends.torch.emission import Halves
from checkmate.backends.torch.graph import Compiler
from checkmate.backends.torch.joint import Joint
from checkmate.backends.torch.private import (
    aot_autograd,
    boxed,
    default_partition,
    overwritten_inputs,
    unset_fake_temporarily,
)

# Maps a joint graph, the number of forward outputs and the inputs to halves; None: PyTorch's own partition.
Planner: TypeAlias = Callable[[fx.GraphModule, int, Sequence[Any]], Halves | None]


def backend_by(
    planner: Planner, compiler: Compiler = "eager"
) -> Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    """Return a backend of ``torch.compile`` whose regions with gradients are emitted as ``planner`` says."""
    return _by_inductor(planner) if compiler == "inductor" else _eagerly(planner)


def _eagerly(planner: Planner) -> Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    def compiled(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        cut = partial(_cut, planner, list(inputs))
        run: Callable[..., Any] = aot_autograd(fw_compiler=_run, bw_compiler=_run, partition_fn=cut)(
            module, inputs
        )
        return run

    return compiled


def _by_inductor(planner: Planner) -> Callable[[fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    from checkmate.backends.torch.inductor import as_torch_compiles, by_inductor, keep_strides

    def cut(
        inputs: Sequence[Any], module: fx.GraphModule, joint_inputs: Any, *, num_fwd_outputs: int, **more: Any
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        with unset_fake_temporarily():
            halves = planner(module, num_fwd_outputs, inputs)
        if halves is None:
            raise _UnplannedError
        keep_strides(halves.forward, num_fwd_outputs)
        return halves.forward, halves.backward

    def compiled(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        halves = aot_autograd(
            fw_compiler=partial(by_inductor, backward=False),
            bw_compiler=partial(by_inductor, backward=True),
            partition_fn=partial(cut, list(inputs)),
        )
        run: Callable[..., Any]
        if not any(isinstance(each, torch.SymInt) for each in inputs):
            with suppress(_UnplannedError):
                run = halves(module, inputs)
                return run
        run = as_torch_compiles(module, inputs)
        return run

    return compiled


class _UnplannedError(Exception):
    pass


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
