from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from checkmate.errors import FormatError, SchemaVersionError, UsageError
from checkmate.ir import GraphBuilder
from checkmate.planning import keep_everything_peak
from checkmate.planning.memory_growth import Growth, growth
from checkmate.planning.step_memory import (
    LayerBytes,
    StepMemory,
    memory_of,
    read_memory,
    write_memory,
)
from tests.graphs_strategies import random_graph


def memory(batch: int = 8, **layers: LayerBytes) -> StepMemory:
    fixed = {"parameters": 10, "inputs": batch}
    peak = sum(fixed.values()) + sum(layer.at_peak for layer in layers.values())
    return StepMemory("net", "tensorflow", batch, peak, fixed, layers)


def floats(size: int, *, kept: int = 0, dtype: str = "float16") -> LayerBytes:
    return LayerBytes(size, size, kept, {dtype: size})


def named(found: Growth) -> dict[str, tuple[str, ...]]:
    return {each.name: each.why for each in found.grown}


@pytest.mark.parametrize("seed", range(40))
def test_the_parts_add_up_to_the_peak(seed: int) -> None:
    graph = random_graph(Random(seed))
    graph = replace(graph, fixed={"parameters": graph.fixed_bytes})
    found = memory_of(graph, "random")
    assert found.peak_bytes == keep_everything_peak(graph)
    assert found.peak_bytes == sum(found.fixed.values()) + sum(each.at_peak for each in found.layers.values())
    own = [index for index in range(graph.m) if graph.owner[index] == index and graph.producer[index] >= 0]
    assert sum(each.bytes for each in found.layers.values()) == graph.value_bytes[own].sum()


def test_slots_of_the_optimizer_are_named_and_a_cast_is_its_readers() -> None:
    builder = GraphBuilder()
    cast, read = (
        builder.value("cast", 4, dtype="float16"),
        builder.value("read", 8, dtype="float32", keep=True),
    )
    builder.op("cast", outputs=[cast])
    builder.op("read", [cast], [read], group="dense")
    slots = {"optimizer": {"momentum": 6, "velocity": 3}}
    graph = builder.build(fixed_bytes=12, fixed={"optimizer": 10, "inputs": 2}, metadata=slots)
    found = memory_of(graph, "net")
    assert found.fixed == {
        "inputs": 2,
        "optimizer": 1,
        "optimizer's momentum": 6,
        "optimizer's velocity": 3,
    }
    assert found.layers == {"dense": LayerBytes(12, 12, 8, {"float16": 4, "float32": 8})}


def test_the_file_has_a_line_for_each_layer(tmp_path: Path) -> None:
    wrote = memory(a=floats(4, kept=4), **{'é"/b': LayerBytes(7, 0)})
    write_memory(tmp_path / "m.json", wrote)
    assert read_memory(tmp_path / "m.json") == wrote
    write_memory(tmp_path / "n.json", memory(a=floats(5, kept=4), **{'é"/b': LayerBytes(7, 0)}))
    one, other = ((tmp_path / name).read_text().splitlines() for name in ("m.json", "n.json"))
    differ = [line for line, now in zip(one, other, strict=True) if line != now]
    assert [line.split(":")[0].strip() for line in differ] == ['"peak_bytes"', '"a"']


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"format": "checkmate-graph"}, FormatError, "format is 'checkmate-graph'"),
        ({"version": 2}, SchemaVersionError, "newer than this program reads"),
        ({"peak_bytes": "1"}, FormatError, "peak_bytes is a text"),
        ({"layers": {"a": {"bytes": 1}}}, FormatError, "layers.a.at_peak is missing"),
        ({"fixed": {"inputs": -1}}, FormatError, "fixed.inputs is negative"),
    ],
)
def test_a_file_that_is_no_baseline(
    tmp_path: Path, change: dict[str, object], error: type[FormatError], words: str
) -> None:
    path = tmp_path / "m.json"
    write_memory(path, memory())
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(error, match=words):
        read_memory(path)


def test_nothing_grows_from_one_trace_to_the_same() -> None:
    same = memory(a=floats(100, kept=100), b=floats(50))
    assert growth(same, same).grown == ()


def test_what_grew_says_why() -> None:
    before = memory(cast=floats(100), out=floats(30), wide=floats(60), less=floats(10))
    now = memory(
        cast=LayerBytes(200, 200, 0, {"float32": 180, "float16": 20}),
        out=floats(30, kept=30),
        wide=floats(900),
        less=floats(9),
        head=floats(5, kept=5),
    )
    assert named(growth(before, now)) == {
        "cast": ("float16 → float32",),
        "head": ("new", "kept to the end of the step"),
        "out": ("kept to the end of the step",),
        "wide": (),
    }
    assert [each.name for each in growth(before, now).grown][:1] == ["cast"]


def test_weights_alone_name_their_layer() -> None:
    before, now = (memory(head=LayerBytes(weights=size)) for size in (100, 200))
    assert named(growth(before, now)) == {"head": ("weights 100 B → 200 B",)}
    assert growth(now, before).grown == ()


def test_a_larger_batch_explains_what_grew_with_it_and_no_more() -> None:
    before, now = memory(a=floats(100), b=floats(10)), memory(16, a=floats(200), b=floats(21))
    found = growth(before, now)
    assert (named(found), found.with_batch) == ({"b": ()}, 2)  # the inputs grew with it too


def test_another_models_baseline_is_refused() -> None:
    with pytest.raises(UsageError, match="the baseline is of other on tensorflow, not of net on tensorflow"):
        growth(replace(memory(), model="other"), memory())
