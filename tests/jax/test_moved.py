"""Test what is read from the text of a compiled step."""

from __future__ import annotations

import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from checkmate.backends.jax.compiled import moved_bytes

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
