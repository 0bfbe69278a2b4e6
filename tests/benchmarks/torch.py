"""Train PyTorch models under PyTorch's own ways to save memory, and by our schedules within as much.

``python -m tests.benchmarks torch [MODEL …] [-o FILE.json]``

Models are those of ``tests/torch``, with their loss; a step is forward and backward. Its peak is metered
above what is allocated before it, its operations are counted as it runs, seconds are taken in turns. Ways
through AOTAutograd run their halves alike, op by op, each argument dropped after its last reader.

Schedules of "ours" are the backend's, solved for measured seconds; those of "ours, flops" are solved for
PyTorch's own price of an op: the operations of products, convolutions and attention, and 1 for all others.
The last budget is a quarter of the plain peak, whether or not a peer comes near it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._functorch import config
from torch._functorch.partitioners import estimate_runtime, min_cut_rematerialization_partition
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from torch.utils.flop_counter import (
    FlopCounterMode,
    register_flop_formula,
    sdpa_backward_flop_count,
    sdpa_flop_count,
)

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
from checkmate.formats.files import write_json
from checkmate.ir import CostOrigin, CostUnit, Graph
from checkmate.solvers.problem import SolveOptions
from checkmate.training.torch_module import backend
from tests.benchmarks.measured_on import this_machine
from tests.torch.meter import meter
from tests.torch.models import MODELS, Inputs, classified

aten = torch.ops.aten
# PyTorch has no formulas for its kernels of the CPU: without them it takes attention for free.
register_flop_formula(aten._scaled_dot_product_flash_attention_for_cpu)(
    lambda *shapes, **more: sdpa_flop_count(*shapes[:3])
)
register_flop_formula(aten._scaled_dot_product_flash_attention_for_cpu_backward)(
    lambda *shapes, **more: sdpa_backward_flop_count(*shapes[:4])
)
PRODUCTS = (aten.mm, aten.addmm, aten.bmm, aten.baddbmm, aten.convolution)
ATTENTION = aten._scaled_dot_product_flash_attention_for_cpu
COUNTED = {
    f"aten::{op.__name__}": op.default
    for op in (
        *PRODUCTS,
        ATTENTION,
        aten.convolution_backward,
        aten._scaled_dot_product_flash_attention_for_cpu_backward,
    )
}
SAVED = {op.default for op in (*PRODUCTS, ATTENTION)}
BLOCKS = ("Block", "TransformerEncoderLayer", "TransformerDecoderLayer", "Residual", "ConvNeXtBlock")
NETWORKS = ("gpt", "bert", "vit", "resnet", "convnext", "unet", "densenet", "translator", "vae")
SHARES = (1.0, *(share / 10 for share in range(9, 0, -1)), 0.0)
OURS, OURS_BY_FLOPS = "ours", "ours, flops"
_SAME_PEAK = 1.01  # peers this close have one row of ours between them, within the least of their peaks
_ROUNDS, _ROUNDS_S = 7, 25.0
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
        if each.name() in COUNTED and each.start_ns() >= end:  # else it is a part of one that was counted
            call = each.name(), each.shapes(), each.concrete_inputs()
            total += known.get(str(call)) or known.setdefault(str(call), _flops_of_call(*call))
            end = each.end_ns()
    return total


def _flops_of_call(name: str, shapes: Sequence[Sequence[int]], values: Sequence[Any]) -> int:
    given, named = list[Any](), dict[str, Any]()
    arguments = COUNTED[name]._schema.arguments
    for argument, shape, value in zip(arguments, shapes, values, strict=False):
        absent = str(argument.type) == "Optional[Tensor]" and not shape
        is_tensor = "Tensor" in str(argument.type) and not absent
        known = torch.empty(tuple(shape), device="meta") if is_tensor else value
        if argument.kwarg_only:
            named[argument.name] = known
        else:
            given.append(known)
    return eager_flops_of(lambda: COUNTED[name](*given, **named))


def eager_flops_of(work: Callable[[], object]) -> int:
    """Count the operations of what is not compiled. The profiler would see products, too, that selective
    checkpointing only looks up.
    """
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def compiled(by: Any) -> Wrap:
    return lambda module: torch.compile(module, backend=by, dynamic=False, fullgraph=True)


def halved(partition: Callable[..., Any]) -> Wrap:
    """What AOTAutograd makes of the halves that ``partition`` returns, emitted as ours are."""

    def run(module: Any, inputs: Any) -> Any:
        return boxed(module)

    return compiled(aot_autograd(fw_compiler=run, bw_compiler=run, partition_fn=partition))


def torch_partition(share: float, *given: Any, **more: Any) -> Any:
    with config.patch(activation_memory_budget=share):
        return min_cut_rematerialization_partition(*given, **more)


def checkpointed(module: nn.Module, **options: Any) -> nn.Module:
    for each in module.modules():
        if type(each).__name__ in BLOCKS:
            each.forward = partial(checkpoint, each.forward, use_reentrant=False, **options)
    return module


def _dear(context: Any, op: Any, *args: Any, **more: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op in SAVED else CheckpointPolicy.PREFER_RECOMPUTE


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


def targets(peaks: Sequence[int], plain: int) -> list[int]:
    """Return the peaks for rows of ours, falling. ``plain``: that of our own plain step."""
    found = [plain]
    for peak in sorted((each for each in peaks if each < plain / _SAME_PEAK), reverse=True):
        if found[1:] and found[-1] <= _SAME_PEAK * peak:
            found[-1] = peak
        else:
            found.append(peak)
    return found


def measure(network: str) -> list[Row]:
    """Return the rows of a network: eager, peers, and ours within each peer's peak."""
    ways, rows = [Way(network, "eager", lambda module: module)], list[Row]()

    def add(way: Way, **more: Any) -> Row:
        row = {"model": network, **way.row(ways[0]), **more}
        if way is not ways[0]:
            ways.append(way)
        rows.append(row)
        return row

    add(ways[0])
    for name, wrap in peers(network):
        add(Way(network, name, wrap))
    plain = rows[1]["peak_bytes"]
    peaks = [row["peak_bytes"] for row in rows[1:]]
    for budget in [*targets(peaks, plain), rows[0]["peak_bytes"] // 4]:
        _add_ours(network, budget, add)
    _time(ways, rows)
    for row in rows:
        row["overhead"] = row["flops"] / rows[0]["flops"] - 1
    return rows


def _add_ours(network: str, budget: int, add: Callable[..., Row]) -> None:
    fixed = _fixed_bytes(WithLoss(network), MODELS[network].inputs(0))
    planner = backend(budget + fixed, cache=False, quiet=True)
    way = Way(network, OURS, compiled(planner))
    (plan,) = planner.plans
    assert plan.region.graph.fixed_bytes == fixed
    add(way, within=budget, recomputations=plan.schedule.recomputations, sentence=plan.sentence)
    if plan.peak_bytes <= budget + fixed:
        by_flops = ByFlops(plan.region.graph, budget + fixed)
        way = Way(network, OURS_BY_FLOPS, halved(by_flops.partition))
        add(way, within=budget, **by_flops.found)


def _fixed_bytes(module: nn.Module, inputs: Inputs) -> int:
    tensors = (*module.parameters(), *module.buffers(), *inputs)
    return sum(each.untyped_storage().nbytes() for each in tensors)


def _time(ways: Sequence[Way], rows: Sequence[Row]) -> None:
    taken, started = list[list[float]](), time.perf_counter()
    while len(taken) < 3 or (len(taken) < _ROUNDS and time.perf_counter() - started < _ROUNDS_S):
        taken.append([way.seconds() for way in ways])
    for number, row in enumerate(rows):
        row["seconds"] = statistics.median(each[number] for each in taken)
        row["seconds_over_plain"] = statistics.median(each[number] / each[0] for each in taken) - 1


def within(rows: Sequence[Row], peak: int) -> list[Row | None]:
    """Return our rows for the largest budget that ``peak`` covers: solved for seconds, and for operations."""
    budget = max((row["within"] for row in rows if row.get("within", peak + 1) <= peak), default=None)
    found = {row["way"]: row for row in rows if budget is not None and row.get("within") == budget}
    return [found.get(OURS), found.get(OURS_BY_FLOPS)]


def told(rows: Sequence[Row]) -> str:
    """Return a line for each peer: what it takes, and what ours take within its peak."""
    plain = rows[0]["peak_bytes"]
    beside = [[row, *within(rows, row["peak_bytes"])] for row in rows if "within" not in row]
    beside += [[None, row, None] for row in rows if row["way"] == OURS and row["within"] == plain // 4]
    lines = [
        "model | way | peak MiB | of plain | FLOPs: it, ours, ours by FLOPs | seconds: the same | gradients"
    ]
    for ways in beside:
        shown = next(row for row in ways if row)
        cells = [
            shown["model"],
            shown["way"],
            f"{shown['peak_bytes'] / 2**20:.1f}",
            f"{shown['peak_bytes'] / plain:.0%}",
            *(
                ", ".join("–" if row is None else f"{row[what]:+.1%}" for row in ways)
                for what in ("overhead", "seconds_over_plain")
            ),
            ", ".join("–" if row is None else "=" if row["gradients_bitwise"] else "DIFFER" for row in ways),
        ]
        lines.append(" | ".join(cells))
    over = [row for row in rows if row["peak_bytes"] > row.get("within", row["peak_bytes"])]
    lines += [f"over {row['within'] / 2**20:.1f} MiB: {row.get('sentence', row['way'])}" for row in over]
    return "\n".join(lines)


def main() -> None:
    """Measure the models that are named, and write after each; the file keeps its rows of others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=NETWORKS)
    parser.add_argument("-o", "--output", type=Path)
    chosen = parser.parse_args()
    torch._dynamo.config.recompile_limit = 100  # each way compiles the same code
    record: Row = {"title": "PyTorch's ways to save memory", "torch": torch.__version__}
    record |= {**this_machine(), "threads": torch.get_num_threads(), "rows": []}
    if chosen.output and chosen.output.exists():
        before = json.loads(chosen.output.read_text(encoding="utf-8"))["rows"]
        record["rows"] = [row for row in before if row["model"] not in chosen.models]
    for network in chosen.models:
        rows = measure(network)
        print(told(rows), flush=True)
        record["rows"] += rows
        if chosen.output:
            write_json(chosen.output, record)


if __name__ == "__main__":
    main()
