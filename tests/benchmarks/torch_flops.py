"""Count the operations of products, convolutions and attention that a training step of PyTorch ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode, flop_registry

aten = torch.ops.aten
ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu
_ATTENTION_BACKWARD = aten._scaled_dot_product_flash_attention_for_cpu_backward
# PyTorch counts nothing for its kernels of the CPU: its partitioner, too, would take attention for free.
flop_registry[ATTENTION] = flop_registry[aten._scaled_dot_product_flash_attention]
flop_registry[_ATTENTION_BACKWARD] = flop_registry[aten._scaled_dot_product_flash_attention_backward]
PRODUCTS = (aten.mm, aten.addmm, aten.bmm, aten.baddbmm, aten.convolution, ATTENTION)
_COUNTED = {
    f"aten::{op.__name__}": op.default for op in (*PRODUCTS, aten.convolution_backward, _ATTENTION_BACKWARD)
}


def flops_of(work: Callable[[], object]) -> int:
    """Count the operations of what ran, recomputed ops too, from the profiler's events. PyTorch's own counter
    would keep what is compiled from running.
    """
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        work()
    events = sorted(profiled.profiler.kineto_results.events(), key=lambda each: each.start_ns())
    known: dict[str, int] = {}
    total = end = 0
    for each in events:
        if each.name() in _COUNTED and each.start_ns() >= end:  # else it is a part of one that was counted
            call = each.name(), each.shapes(), each.concrete_inputs()
            total += known.get(str(call)) or known.setdefault(str(call), _flops_of_call(*call))
            end = each.end_ns()
    return total


def _flops_of_call(name: str, shapes: Sequence[Sequence[int]], values: Sequence[Any]) -> int:
    given, named = list[Any](), dict[str, Any]()
    arguments = _COUNTED[name]._schema.arguments
    for argument, shape, value in zip(arguments, shapes, values, strict=False):
        absent = str(argument.type) == "Optional[Tensor]" and not shape
        is_tensor = "Tensor" in str(argument.type) and not absent
        known = torch.empty(tuple(shape), device="meta") if is_tensor else value
        if argument.kwarg_only:
            named[argument.name] = known
        else:
            given.append(known)
    return eager_flops_of(lambda: _COUNTED[name](*given, **named))


def eager_flops_of(work: Callable[[], object]) -> int:
    """Count the operations of what is not compiled. The profiler would see products, too, that selective
    checkpointing only looks up.
    """
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())
