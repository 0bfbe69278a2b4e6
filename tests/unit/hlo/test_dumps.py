"""Test what is read from small dumps: peaks by hand, both forms alike, and sentences for damaged ones."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from checkmate.errors import FormatError
from checkmate.formats import read_any_graph
from checkmate.hlo.graph import graph_of, planned_peak
from checkmate.hlo.layers import NO_LAYER, layer_of
from checkmate.hlo.module import HloError
from checkmate.hlo.peak import peak_of
from checkmate.hlo.proto import read_proto
from checkmate.hlo.read import is_dump
from checkmate.hlo.text import read_module, shape_of
from checkmate.ir import Phase, Schedule
from checkmate.memory.simulate import simulate
from checkmate.records.memory import MemoryRecord, Source
from checkmate.records.read import is_record, read_record
from checkmate.records.words import facts, headline
from tests.unit.hlo.dumps import (
    ACTIVATION,
    ASSIGNMENT,
    LOOP,
    LOSS,
    PEAKS,
    STEP,
    TABLE,
    WEIGHT,
    step_proto,
    whole_proto,
)

FIXED = WEIGHT + ACTIVATION + TABLE + LOSS
PEAK = FIXED + 2 * ACTIVATION + WEIGHT  # activation and cotangent, and the gradient


def record(tmp_path: Path, body: str | bytes, name: str = "dump.txt") -> MemoryRecord:
    path = tmp_path / name
    path.write_bytes(body.encode() if isinstance(body, str) else body)
    (found,) = read_record(path).records
    return found


def test_the_peak_of_a_step_is_its_arguments_results_and_what_lives_longest(tmp_path: Path) -> None:
    found = record(tmp_path, STEP)
    assert found.source is Source.COMPILED and found.in_use_bytes == PEAK
    assert {part.name: part.bytes for part in found.parts} == {
        "arguments": WEIGHT + ACTIVATION,
        "results": TABLE + LOSS,
        "temporary": 2 * ACTIVATION + WEIGHT,
    }
    layers = {row.name: row.bytes for row in found.by_layer}
    assert layers["arguments"] == WEIGHT + ACTIVATION
    assert layers["Net/Dense_0"] == ACTIVATION and layers["Net/Dense_1"] == ACTIVATION + WEIGHT
    assert sum(layers.values()) == sum(row.bytes for row in found.by_size) == PEAK
    assert headline(found).startswith("jit_step holds 2.00 MiB")
    assert ("temporary", "1.25 MiB in 3 buffers") in facts(found)


def test_without_the_donation_the_new_weight_has_a_buffer_of_its_own() -> None:
    module = read_module(STEP.replace("{0}: (0, {}, may-alias)", "").splitlines())
    # The gradient is written into the result's buffer, and the weight over it.
    assert peak_of(module).bytes == PEAK and peak_of(module).results == WEIGHT + TABLE + LOSS


def test_a_loop_carries_its_buffers_and_writes_slices_in_place() -> None:
    found = peak_of(read_module(LOOP.splitlines()))
    row, stack = 4096, 64 * 4096
    assert found.arguments == row and found.results == stack
    assert (
        row <= found.temporary < 2 * row
    )  # the next row is written over the carried one; beside it are counters


def test_protobuf_and_text_tell_the_same_module() -> None:
    text, (proto, assigned) = read_module(STEP.splitlines()), read_proto(step_proto())
    assert not assigned and proto.scheduled and proto.aliases == text.aliases
    assert proto.entry.instructions == text.entry.instructions
    assert peak_of(proto) == peak_of(text)
    assert graph_of(proto).fingerprint == graph_of(text).fingerprint


def test_an_assignment_is_taken_as_it_is(tmp_path: Path) -> None:
    assert record(tmp_path, ASSIGNMENT).in_use_bytes == PEAK
    found = record(tmp_path, whole_proto(), "module_0001.hlo.pb")
    assert found.in_use_bytes == FIXED + 2_000_000
    assert "between buffers" in {row.name for row in found.by_layer}


def test_buffers_at_the_peak_of_a_step_that_did_not_fit(tmp_path: Path) -> None:
    found = record(tmp_path, PEAKS)
    assert found.asked is not None and found.asked.bytes == 2 * 2**30 and found.in_use_bytes == 4 * 2**30
    assert [(row.name, row.bytes) for row in found.by_layer] == [
        ("Net/Dense_0", 2 * 2**30),
        ("arguments", 2**30),
        ("others", 2**30),
    ]


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("failed to allocate 1.2GiB (1288490188 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY", 1288490188),
        ("RuntimeError: CUDA error: CUDA_ERROR_OUT_OF_MEMORY: out of memory", None),
        ("RESOURCE_EXHAUSTED: Out of memory allocating 8589934592 bytes.", 8589934592),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1.50GiB.", 3 * 2**29),
    ],
)
def test_bare_messages_of_cuda_and_jax(tmp_path: Path, line: str, size: int | None) -> None:
    asked = record(tmp_path, f"a line\n{line}\n").asked
    assert (None if asked is None else asked.bytes) == size


def test_a_dump_is_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "step.txt"
    path.write_text(STEP)
    graph = read_any_graph(path)
    by_name = {op.name: op for op in graph.ops}
    assert list(by_name) == ["dot.1", "fusion.1", "dot.2", "loss", "dot.3", "fusion.2"]
    assert by_name["dot.3"].phase is Phase.BACKWARD and by_name["fusion.2"].phase is Phase.UPDATE
    assert by_name["fusion.1"].group == "Net/Dense_0" and by_name["fusion.1"].takes_over
    flops = 2 * 512 * 256 * 256
    assert by_name["dot.1"].cost == pytest.approx(by_name["dot.2"].cost) and by_name["dot.1"].cost > 0
    assert flops / 312e12 < by_name["dot.1"].cost  # no card is faster than its peak
    plain = simulate(graph, Schedule.plain(graph)).peak_bytes
    assert planned_peak(read_module(STEP.splitlines())).bytes == plain and abs(plain - PEAK) < 100
    assert is_dump(path, of_module=True) and not is_record(path)


def test_what_xla_will_fuse_is_one_op(tmp_path: Path) -> None:
    lines = [line for line in STEP.splitlines() if " fusion(" not in line]
    before = "\n".join(lines).replace("is_scheduled=true, ", "")
    before = before.replace(
        "  %dot.2 =",
        """  %half = f32[] constant(0.5)
  %halves = f32[512,256]{1,0} broadcast(%half), dimensions={}
  %scaled = f32[512,256]{1,0} multiply(%dot.1, %halves)
  %fusion.1 = f32[512,256]{1,0} tanh(%scaled)
  %dot.2 =""",
        1,
    ).replace(
        "  ROOT %tuple.1", "  %fusion.2 = f32[256,256]{1,0} subtract(%weight, %dot.3)\n  ROOT %tuple.1", 1
    )
    module = read_module(before.splitlines())
    graph = graph_of(module)
    assert {op.name for op in graph.ops} == {"dot.1", "fusion.1", "dot.2", "loss", "dot.3", "fusion.2"}
    found = record(tmp_path, before)
    assert found.estimated and found.in_use_bytes == planned_peak(module).bytes
    assert "about" in headline(found)


def test_layers_of_jax_scopes() -> None:
    assert (
        layer_of("jit(step)/transpose(jvp(Net))/Dense_0/while/body/closed_call/dot_general") == "Net/Dense_0"
    )
    assert layer_of("jit(step)/jvp(jit(silu))/mul") == NO_LAYER
    assert layer_of("jit(f)/jvp(Net)/Attention/bthd,bshd->bhts/dot_general") == "Net/Attention"


def test_shapes() -> None:
    assert shape_of("bf16[3,5]{1,0:T(8,128)}").bytes == 30
    assert shape_of("s4[9]{0:E(4)}").bytes == 5
    assert shape_of("f32[8]{0:S(5)}").bytes == 0  # in the host's memory
    assert shape_of("f32[<=8,2]").bytes == 64
    nested = shape_of("(f32[2]{0}, (s32[], /*index=1*/pred[7]))")
    assert [each.bytes for each in nested.flat()] == [16, 8, 16, 4, 7] and nested.place((1, 1)) == 4


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("ROOT %tuple.1", "ROOT tuple.1 of", "no instruction"),
        ("ENTRY ", "", "no ENTRY"),
        ("calls=%tanh_of", "calls=%nothing", "calls nothing, which is not there"),
        ("tanh(%p)", "bitcast()", "tanh.1 has no operand"),
        ("dot(%x, %weight)", "dot(%x, %later)", "reads later, which is not before it"),
        ("f32[512,256]{1,0} dot(%x", "f32[999999999,999999999]{1,0} dot(%x", "larger than any memory"),
        ("f32[512,256]{1,0} dot(%x", "q7[512,256]{1,0} dot(%x", "no type 'q7'"),
    ],
)
def test_a_damaged_dump_is_refused_in_a_sentence(tmp_path: Path, before: str, after: str, why: str) -> None:
    path = tmp_path / "dump.txt"
    path.write_text(STEP.replace(before, after, 1))
    with pytest.raises(FormatError, match=why) as refused:
        read_record(path)
    assert "\n" not in str(refused.value) and str(path) in str(refused.value)


def test_a_computation_that_calls_itself_is_refused() -> None:
    text = STEP.replace("ROOT %add.1 = f32[] add(%a, %b)", "ROOT %add.1 = f32[] call(%a, %b), to_apply=%sum")
    text = text.replace("reduce(%dot.2, %zero), dimensions={0,1}", "call(%zero, %zero)")
    module = read_module(text.splitlines())
    for use in (peak_of, graph_of):
        with pytest.raises(HloError, match="in a circle"):
            use(module)


@pytest.mark.parametrize("form", ["text", "module", "whole", "assignment", "peaks"])
def test_damaged_dumps_give_an_answer_or_a_sentence(tmp_path: Path, form: str) -> None:
    bodies = {"text": STEP, "assignment": ASSIGNMENT, "peaks": PEAKS}
    whole = {"module": step_proto, "whole": whole_proto}
    body = whole[form]() if form in whole else bodies[form].encode()
    path, read = tmp_path / ("dump.hlo.pb" if form in whole else "dump.txt"), 0
    for seed in range(100):
        path.write_bytes(_damaged(body, random.Random(seed)))
        for use in (read_record, read_any_graph):
            problem = ""
            try:
                use(path)
                read += 1
            except FormatError as error:
                problem = str(error)
            assert "\n" not in problem and (not problem or str(path) in problem)
    assert 0 < read < 200


def _damaged(body: bytes, chance: random.Random) -> bytes:
    data = bytearray(body)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.choice((1, 3, 40, len(data)))]
            case 2:
                data[at:at] = data[at // 2 : at // 2 + chance.choice((1, 8, 200))]
            case 3:
                data[at] ^= 1 << chance.randrange(8)
        data = data or bytearray(b"x")
    return bytes(data)
