"""Compile a half of a step with Inductor, the compiler of ``torch.compile``."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx
from torch._inductor import config
from torch._inductor.choices import InductorChoices
from torch._inductor.compile_fx import compile_fx as as_torch_compiles
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.virtualized import V
from torch.fx.experimental.proxy_tensor import make_fx

__all__ = ["as_torch_compiles", "by_inductor", "keep_strides"]

_VISIBLE = "user_visible_output_idxs"  # Inductor may choose the strides of all other outputs


class _Choices(InductorChoices):  # type: ignore[misc]  # PyTorch's types are not read
    """Forbids Inductor to fuse two ops that read the same value if an extern kernel runs between them. Two
    recomputations of one value read the same; fused, the result of the second would be live from the first
    on.
    """

    def __init__(self) -> None:
        self._scheduler: Any = None
        self._kernels: list[int] = []  # their places in the order of the half

    def can_fuse_horizontal(self, scheduler: Any, node1: Any, node2: Any, shared_data_score: int) -> bool:
        if scheduler is not self._scheduler:
            self._scheduler = scheduler
            self._kernels = sorted(node.min_order for node in scheduler.nodes if node.is_extern())
        first, second = sorted((node1, node2), key=lambda node: node.min_order)
        between = bisect(self._kernels, second.min_order) - bisect(self._kernels, first.max_order)
        return between <= 0 and super().can_fuse_horizontal(scheduler, node1, node2, shared_data_score)

    def uuid(self) -> str:
        return "checkmate 1"  # a part of the keys of Inductor's code cache


_SETTINGS = {
    "fallback_random": True,  # random ops draw what PyTorch's own kernels draw
    "reorder_for_peak_memory": False,  # the schedule's order took 14 % less for a GPT within 40 %
    "inductor_choices_class": _Choices,  # no effect but on the keys of Inductor's code cache
}


def keep_strides(half: fx.GraphModule, results: int) -> None:
    """Have Inductor keep the strides of a half's first outputs, which the caller sees."""
    (output,) = half.graph.find_nodes(op="output")
    output.meta[_VISIBLE] = list(range(results))


def by_inductor(half: fx.GraphModule, inputs: Sequence[Any], *, backward: bool) -> Callable[[list[Any]], Any]:
    """Compile a half; return a function of a list of arguments, which it empties. ``inputs``: example
    arguments.
    """
    with V.set_choices_handler(_Choices()), config.patch(_SETTINGS):
        decomposed = make_fx(half, select_decomp_table(), tracing_mode="fake")(*inputs)
        (given,), (output,) = (each.graph.find_nodes(op="output") for each in (half, decomposed))
        output.meta[_VISIBLE] = given.meta.get(_VISIBLE, [])
        vals = [node.meta["val"] for node in decomposed.graph.find_nodes(op="placeholder")]
        compiled: Callable[[list[Any]], Any] = compile_fx_inner(decomposed, vals, is_backward=backward)
    return compiled
