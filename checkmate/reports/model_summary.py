"""A Keras model's summary with memory by layer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Unpack

from checkmate.arguments import TraceOptions
from checkmate.errors import UsageError
from checkmate.ir import Graph, Schedule
from checkmate.memory.layers import LayerMemory, layer_memory
from checkmate.memory.simulate import simulate
from checkmate.planning import profile
from checkmate.text_table import aligned_lines
from checkmate.units import NONE, format_bytes, plural

_HEAD = (
    "layer (type)",
    "output shape",
    "params",
    "for backward",
    "at the peak",
    "recomputing frees",
    "and costs",
)


def summary(
    model: Any,
    batch_size: int,
    *,
    expand_nested: bool = False,
    print_fn: Callable[[str], object] | None = None,
    **step: Unpack[TraceOptions],
) -> None:
    """Print a Keras model's layers with what each holds in a training step.

    It is ``model.summary()`` with columns for a batch of ``batch_size``: the bytes that wait for the backward
    pass when that is most; the bytes in memory at the step's peak, which add up to it; and how much less that
    is, and how much longer a step takes, if the layer's part of the peak is computed again when it is read.
    Another moment may then be the peak. All is predicted: bytes as ops request them, costs as counted
    operations. Nothing is run or solved; ``checkmate.rematerialize`` chooses among all layers.

    ``expand_nested`` and ``print_fn`` are as in Keras. The model is traced as ``profile`` does it, and
    ``step`` are its options.

    Raises:
        UsageError: ``model`` is no Keras model. Others as ``profile``.

    >>> checkmate.summary(model, 32)
    """
    if not hasattr(model, "layers") or not hasattr(model, "count_params"):
        raise UsageError(
            f"{model!r} is no Keras model",
            hint="load it first: keras.models.load_model(path); checkmate.info takes a graph or its name",
        )
    graph = profile(model, costs="analytic", quiet=True, batch_size=batch_size, **step)
    write = print_fn or (lambda line: sys.stdout.write(f"{line}\n"))
    for line in _lines(model, graph, dict(_layers(model, expand_nested))):
        write(line)


def _lines(model: Any, graph: Graph, layers: dict[str, Any]) -> Iterator[str]:
    def row_of(group: str) -> str:
        parts = group.removeprefix(f"{model.name}/").split("/")
        paths = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
        return next((path for path in paths if path in layers), parts[0])

    timeline = simulate(graph, Schedule.plain(graph))
    found = {each.name: each for each in layer_memory(graph, row_of)}
    rows = [(*_told(path, layer), *_cells(found.get(path), graph)) for path, layer in layers.items()]
    rest = [each for name, each in found.items() if name not in layers]
    rows += [(each.name, "", "", *_cells(each, graph)) for each in rest]
    kept = sum(each.kept for each in found.values())
    total = ("in all", "", f"{model.count_params():,}", _size(kept), _size(timeline.peak_bytes), "", "")
    yield f"{model.name}, batch of {graph.batch_size}: what a training step holds, predicted"
    yield from (f"  {line}" for line in aligned_lines([_HEAD, *rows, total], left=(0, 1)))
    op = graph.ops[graph_op := int(Schedule.plain(graph).steps[timeline.peak_step])]
    yield f"  the peak is while {op.name!r} runs, op {graph_op + 1} of {plural(graph.n, 'op')}"


def _layers(parent: Any, nested: bool, path: str = "") -> Iterator[tuple[str, Any]]:
    for layer in parent.layers:
        here = f"{path}{layer.name}"
        yield here, layer
        if nested and isinstance(getattr(layer, "layers", None), list):
            yield from _layers(layer, nested, f"{here}/")


def _told(path: str, layer: Any) -> tuple[str, str, str]:
    try:
        output = layer.output
    except (AttributeError, ValueError):  # it was called never, or several times
        output = None
    shape = getattr(output, "shape", None)
    params = f"{layer.count_params():,}" if layer.built else NONE
    return f"{path} ({type(layer).__name__})", NONE if shape is None else str(tuple(shape)), params


def _cells(found: LayerMemory | None, graph: Graph) -> tuple[str, str, str, str]:
    if found is None:
        return "", "", "", ""
    costs = f"{100 * found.cost / graph.base_cost:+.1f} %" if found.freed and graph.base_cost else ""
    return _size(found.kept), _size(found.at_peak), _size(found.freed), costs


def _size(count: int) -> str:
    return format_bytes(count) if count else ""
