"""Test what XLA's dumps are said to hold against what XLA itself tells of the same programs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")

import jax

from checkmate.formats import read_any_graph
from checkmate.hlo.graph import graph_of, peak_of_dump
from checkmate.hlo.read import read_dump
from checkmate.ir import Schedule
from checkmate.memory.simulate import simulate
from checkmate.records.read import read_record
from tests.jax.hlo_steps import PROGRAMS, TRAINING


@cache
def _compiled(name: str) -> tuple[Any, Any]:
    run, args, donate = PROGRAMS[name]()
    lowered = jax.jit(run, donate_argnums=(0,) if donate else ()).lower(*args)
    return lowered, lowered.compile()


def _told(compiled: Any) -> dict[str, int]:
    memory = compiled.memory_analysis()
    return {
        "arguments": memory.argument_size_in_bytes,
        "results": memory.output_size_in_bytes - memory.alias_size_in_bytes,
        "temporary": memory.temp_size_in_bytes,
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_peak_is_what_xla_says(tmp_path: Path, name: str) -> None:
    _, compiled = _compiled(name)
    told, path = _told(compiled), tmp_path / "step.txt"
    path.write_text(compiled.as_text())
    (record,) = read_record(path).records
    parts = {part.name: part.bytes for part in record.parts}
    assert (parts["arguments"], parts["results"]) == (told["arguments"], told["results"])
    assert record.in_use_bytes == pytest.approx(sum(told.values()), rel=0.01)
    proto = tmp_path / "step.hlo.pb"
    proto.write_bytes(compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto())
    assert peak_of_dump(read_dump(proto)) == peak_of_dump(read_dump(path))


@pytest.mark.parametrize("name", TRAINING)
def test_a_dump_of_a_training_step_is_a_graph_near_what_xla_holds(tmp_path: Path, name: str) -> None:
    lowered, compiled = _compiled(name)
    held = sum(_told(compiled).values())
    after, before = tmp_path / "after.txt", tmp_path / "before.hlo.pb"
    after.write_text(compiled.as_text())
    before.write_bytes(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    graphs = read_any_graph(after), graph_of(read_dump(before).module)
    peaks = [simulate(graph, Schedule.plain(graph)).peak_bytes for graph in graphs]
    assert peaks == [pytest.approx(held, rel=0.05), pytest.approx(held, rel=0.15)]
