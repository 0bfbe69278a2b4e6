"""What the plain step of a model holds, and the file that keeps it: the same numbers on every machine."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

from checkmate.arguments import ModelLike, StepOptions, as_request
from checkmate.catalog.model_names import is_torch_code
from checkmate.formats.files import Fields, read_json, write_bytes
from checkmate.formats.graph import require_version
from checkmate.ir import Graph, Schedule
from checkmate.machine.supported import steps_are_tensorflows
from checkmate.memory.simulate import simulate
from checkmate.planning.stages import profile
from checkmate.progress import Cancelled, never
from checkmate.request import ModelRequest

FORMAT, VERSION = "checkmate-memory", 1
_WRITTEN_BY = "checkmate assert writes such a file"


@dataclass(frozen=True)
class LayerBytes:
    """Bytes of what a layer's ops write. ``bytes``: over the step. ``at_peak``: of them at the peak, with
    the scratch of the op that runs then. ``kept``: results of the step. ``dtypes``: ``bytes`` by dtype.
    ``weights``: its variables, which are among the fixed bytes. ``again``: what ``torch.utils.checkpoint``
    computes again, which counts once in ``bytes``.
    """

    bytes: int = 0
    at_peak: int = 0
    kept: int = 0
    dtypes: Mapping[str, int] = field(default_factory=dict)
    weights: int = 0
    again: int = 0


@dataclass(frozen=True)
class StepMemory:
    """Requested bytes of a plain step. ``peak_bytes`` is the sum of ``fixed`` and of the layers'
    ``at_peak``. ``batch_size``: None where it is not known.
    """

    model: str
    framework: str
    batch_size: int | None
    peak_bytes: int
    fixed: Mapping[str, int]
    layers: Mapping[str, LayerBytes]


def step_memory(
    model: ModelLike, *, quiet: bool = False, cancelled: Cancelled = never, **step: Unpack[StepOptions]
) -> StepMemory:
    """Trace the training step of ``model`` as ``profile`` does. Nothing is measured, and no GPU is needed.

    Raises:
        UsageError, LoadError, TraceError, ProfileError, CancelledError: as ``profile``.
    """
    with as_request(model, **step) as request:
        graph = profile(_anywhere(request), costs="analytic", quiet=quiet, cancelled=cancelled)
    return memory_of(graph, Path(request.shown).name)


def _anywhere(request: ModelRequest) -> ModelRequest:
    """Return the request for the graph that every machine makes: a CPU's kernels would add their own scratch
    memory, which depends on the processor.
    """
    written = replace(request, as_written=True)
    if is_torch_code(request.model) or not steps_are_tensorflows():
        return written
    return replace(written, device="cpu", kernels="cuda")


def memory_of(graph: Graph, model: str) -> StepMemory:
    """Return what the plain step of ``graph`` holds. ``model``: what the model is called."""
    schedule = _as_written(graph)
    timeline = simulate(graph, schedule)
    layers = _layers(graph)
    made, alive, kept = defaultdict[str, int](int), defaultdict[str, int](int), defaultdict[str, int](int)
    dtypes = defaultdict[str, dict[str, int]](dict)
    weights = {layer: int(size) for layer, size in graph.origin.weights.items()}
    results = {int(graph.owner[value]) for value in graph.keep.nonzero()[0]}
    for index, value in enumerate(graph.values):
        if graph.producer[index] < 0 or graph.owner[index] != index or not value.bytes:
            continue
        layer = layers[graph.producer[index]]
        made[layer] += value.bytes
        kept[layer] += value.bytes * (index in results)
        if value.dtype is not None:
            dtypes[layer][value.dtype] = dtypes[layer].get(value.dtype, 0) + value.bytes
    again = defaultdict[str, int](int)
    for op in schedule.steps[~schedule.first_occurrence].tolist():
        again[layers[op]] += sum(graph.values[value].bytes for value in graph.ops[op].outputs)
    for buffer in timeline.alive_at(timeline.peak_step):
        alive[layers[graph.producer[buffer.value]]] += buffer.bytes
    running = int(schedule.steps[timeline.peak_step])
    alive[layers[running]] += int(graph.workspace_bytes[running] - timeline.taken_over[timeline.peak_step])
    return StepMemory(
        model,
        graph.runner.backend,
        graph.batch_size,
        timeline.peak_bytes,
        _fixed(graph),
        {
            layer: LayerBytes(
                made[layer],
                alive[layer],
                kept[layer],
                dict(sorted(dtypes[layer].items())),
                weights.get(layer, 0),
                again[layer],
            )
            for layer in dict.fromkeys([*layers, *weights])
            if made[layer] or alive[layer] or layer in weights
        },
    )


def _as_written(graph: Graph) -> Schedule:
    """Return the step that computes again what is in a ``torch.utils.checkpoint``, once its backward pass
    begins. The graph has what the other frameworks compute again as ops of its own.
    """
    inside = [graph.origin.checkpoints.get(op.name) for op in graph.ops]
    steps, begun, sources = list[int](), {None}, graph.predecessors.lists()
    for op in range(graph.n):
        for number in {inside[source] for source in sources[op] if graph.late[op]} - begun:
            begun.add(number)
            steps += _needed_late(graph, [each for each in range(graph.n) if inside[each] == number])
        steps.append(op)
    return Schedule.of(graph, steps)


def _needed_late(graph: Graph, ops: Sequence[int]) -> list[int]:
    """Return those of ``ops`` that the backward pass reads, and what they need of the others."""
    readers, needed = graph.successors.lists(), set[int]()
    for op in reversed(ops):
        if any(graph.late[reader] or reader in needed for reader in readers[op]):
            needed.add(op)
    return sorted(needed)


def _layers(graph: Graph) -> list[str]:
    """Return the layer of each op. What a forward op outside of all layers makes, such as a cast of what a
    layer reads, belongs to its reader.
    """
    layers = [op.group for op in graph.ops]
    for op in reversed(range(graph.n)):
        if not layers[op] and not graph.late[op]:
            readers = graph.successors[op].tolist()
            layers[op] = next((layers[each] for each in readers if layers[each]), "")
    return [layer or f"no layer, {op.type or op.name}" for layer, op in zip(layers, graph.ops, strict=True)]


def _fixed(graph: Graph) -> dict[str, int]:
    """Return the fixed bytes by name, those of the optimizer by its slots."""
    fixed, slots = dict(graph.fixed), {name: int(size) for name, size in graph.origin.optimizer.items()}
    whole = next((name for name in ("optimizer", "arguments") if name in fixed), None)
    if whole is not None and slots:
        left = fixed.pop(whole) - sum(slots.values())
        fixed |= {whole: left} if left else {}
        fixed |= {f"optimizer's {name}": size for name, size in slots.items()}
    return fixed


def write_memory(path: Path, memory: StepMemory) -> None:
    """Write a line for each layer, so that two files are compared line by line."""
    rows = (f"    {json.dumps(name)}: {json.dumps(asdict(row))}" for name, row in memory.layers.items())
    head = {"format": FORMAT, "version": VERSION, **asdict(replace(memory, layers={}))}
    text = json.dumps(head, indent=2, ensure_ascii=False)
    whole = text.replace('"layers": {}', '"layers": {\n' + ",\n".join(rows) + "\n  }")
    write_bytes(path, f"{whole}\n".encode())


def read_memory(path: Path) -> StepMemory:
    """Raise a FormatError that names the file and the field where that is no such file."""
    fields = Fields(path, read_json(path))
    require_version(fields, FORMAT, VERSION, _WRITTEN_BY)
    layers = fields.inner("layers")
    return StepMemory(
        fields.get("model", str),
        fields.get("framework", str),
        fields.whole("batch_size", None),
        fields.whole("peak_bytes"),
        _sizes(fields.inner("fixed")),
        {name: _layer(layers.inner(name)) for name in layers.data},
    )


def _layer(fields: Fields) -> LayerBytes:
    sizes: dict[str, Any] = {name: fields.whole(name) for name in ("bytes", "at_peak", "kept")}
    later = {name: fields.whole(name, 0) for name in ("weights", "again")}  # files of before had none
    return LayerBytes(**sizes, dtypes=_sizes(fields.inner("dtypes")), **later)


def _sizes(fields: Fields) -> dict[str, int]:
    return {name: fields.whole(name) for name in fields.data}
