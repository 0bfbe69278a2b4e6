"""Test which equations are taken to be one kernel of a GPU, and what is read of those that XLA made."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from checkmate.backends.jax.compiled import moved_bytes
from checkmate.backends.jax.fusions import Fusion
from tests.jax.steps import GPU, Read, read

WIDE = (64, 256, 1024)


def made(step: Any, *args: Any) -> Read:
    return read(step, *args, speed=GPU)


def shape(*sizes: int, dtype: Any = jnp.bfloat16) -> Any:
    return jax.ShapeDtypeStruct(sizes, dtype)


def normed(x: Any) -> Any:
    wide = x.astype(jnp.float32)
    mean, squares = wide.mean((0, 1)), (wide * wide).mean((0, 1))
    return ((wide - mean) * jax.lax.rsqrt(squares - mean * mean + 1e-5)).astype(x.dtype)


def test_a_wider_copy_is_in_no_buffer() -> None:
    program, found, _ = made(normed, shape(*WIDE))
    written = [program.avals[value] for fusion in found for value in fusion.writes]
    assert [aval.dtype for aval in written if aval.size == 64 * 256 * 1024] == [jnp.bfloat16]
    assert sum("convert_element_type" in map(str, names(fusion)) for fusion in found) >= 2  # made again


def names(fusion: Fusion) -> list[str]:
    return [each.name for each in fusion.equations]


def softmax(scores: Any) -> Any:
    return jax.nn.softmax(scores.astype(jnp.float32), -1).astype(scores.dtype)


def spread(x: Any) -> Any:
    return jnp.sum(jnp.abs(x - jnp.sum(x, (0, 1))), (0, 1))


@pytest.mark.parametrize(
    ("step", "args", "heavy"),
    [
        # A reduction that waits for another is a kernel of its own; so is one of columns.
        (spread, [shape(*WIDE, dtype=jnp.float32)], [{"reduce_sum"}, {"reduce_sum"}]),
        (lambda x: x / jnp.sum(x, (0, 1)), [shape(*WIDE, dtype=jnp.float32)], [{"reduce_sum"}, set()]),
        (softmax, [shape(*WIDE)], [{"reduce_max", "exp", "reduce_sum"}]),
        (lambda x, slope: jax.vjp(softmax, x)[1](slope), [shape(*WIDE)] * 2, [{"exp", "reduce_sum"}]),
        (
            lambda x, w: (jnp.exp(x) @ w).T @ w,
            [shape(1024, 1024)] * 2,
            [{"exp"}, {"dot_general"}, {"dot_general", "transpose"}],
        ),
    ],
    ids=["spread", "columns", "softmax", "slope of softmax", "products"],
)
def test_what_is_one_kernel(step: Any, args: Any, heavy: list[set[str]]) -> None:
    seen = {"reduce_sum", "exp", "dot_general", "transpose"}
    found = made(step, *args).fused
    assert [seen & set(names(fusion)) for fusion in found] == [seen & each for each in heavy]
    assert len(found) > 1 or len(found[0].reads) == len(args)


def test_reductions_of_one_value_are_one_kernel() -> None:
    first = made(normed, shape(*WIDE)).fused[0]
    assert names(first).count("reduce_sum") == 2 and len(first.reads) == 1 and len(first.writes) == 2


def test_a_value_that_is_dearer_to_make_again_is_written() -> None:
    def step(many: Any) -> Any:
        total = sum(many)
        return [jnp.sum(jnp.roll(total, 1) * each, (0, 1)) for each in many]

    program, found, _ = made(step, [shape(*WIDE, dtype=jnp.float32) for _ in range(8)])
    large = 4 * 64 * 256 * 1024
    assert any(program.bytes_of(value) == large for fusion in found for value in fusion.writes)


def test_each_kernel_comes_after_what_it_reads_and_effects_stay_in_order() -> None:
    def step(x: Any, y: Any) -> Any:
        jax.debug.print("{m}", m=jnp.mean(x), ordered=True)
        jax.debug.print("{m}", m=y[0, 0, 0], ordered=True)
        jax.debug.print("{m}", m=jnp.mean(jnp.abs(x)), ordered=True)
        return normed(x) + y

    program, found, graph = made(step, shape(*WIDE), shape(*WIDE))
    there = {*program.arguments, *program.constants}
    for fusion in found:
        assert there.issuperset(fusion.reads)
        there.update(fusion.writes)
    effects = [index for index, op in enumerate(graph.ops) if not op.recomputable]
    order = [program.equations.index(found[index].root) for index in effects]
    assert len(order) == 3 and order == sorted(order)
    assert all(before in graph.predecessors[after].tolist() for before, after in pairwise(effects))


def test_a_scatter_is_written_over_its_operand() -> None:
    def step(x: Any, places: Any, more: Any) -> Any:
        return jnp.sin(jnp.cumsum(x, 0).at[places].add(more)) @ more.T

    wide, rows = shape(4096, 64, dtype=jnp.float32), shape(256, 64, dtype=jnp.float32)
    graph = made(step, wide, shape(256, dtype=jnp.int32), rows).graph
    pairs = {op.type: op.takes_over for op in graph.ops if op.takes_over}
    assert list(pairs) == ["scatter-add"]


TEXT = """\
HloModule jit_step, is_scheduled=true

%fused (a: f32[1024,8]) -> f32[1024,8] {
  %a = f32[1024,8]{1,0} parameter(0)
  ROOT %twice = f32[1024,8]{1,0} add(%a, %a)
}

ENTRY %main (x: f32[1024,8], w: bf16[8,8]) -> (f32[1024,8], bf16[1024,8]) {
  %x = f32[1024,8]{1,0} parameter(0), metadata={op_name="x"}
  %w = bf16[8,8]{1,0} parameter(1)
  %two = f32[1024,8]{1,0} fusion(%x), kind=kLoop, calls=%fused, metadata={op_name="jit(step)/add"}
  %seen = f32[8192]{0} bitcast(%two)
  %dot = (bf16[1024,8]{1,0}, s8[64]{0}) custom-call(%two, %w, %two), custom_call_target="__cublas$gemm"
  %out = bf16[1024,8]{1,0} get-tuple-element(%dot), index=0
  ROOT %tuple = (f32[1024,8]{1,0}, bf16[1024,8]{1,0}) tuple(%two, %out)
}
"""


def test_each_kernel_reads_its_operands_once_and_writes_its_result() -> None:
    wide, narrow = 4 * 1024 * 8, 2 * 1024 * 8
    assert moved_bytes(TEXT) == (wide + wide) + (wide + 2 * 8 * 8 + narrow + 64)


@pytest.mark.parametrize("text", ["", "no program", "ENTRY main {\n  what is this\n}\n"])
def test_what_cannot_be_read_says_nothing(text: str) -> None:
    assert moved_bytes(text) is None


def test_the_text_of_today_is_read() -> None:
    x = jnp.ones((256, 256))
    once = jax.jit(lambda x: jnp.sin(x)).lower(x).compile().as_text()
    assert moved_bytes(once) == 2 * x.nbytes
    twice = jax.jit(lambda x: jnp.sin(x @ x) @ x).lower(x).compile().as_text()
    assert (moved_bytes(twice) or 0) > 4 * x.nbytes
