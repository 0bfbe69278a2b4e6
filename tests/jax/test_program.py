"""Test that a traced step becomes one flat list, as XLA would have it, and a graph that others read."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import checkmate
import checkmate.jax
from checkmate.backends.jax.fusions import fusions
from checkmate.backends.jax.graph import layer_of, phase_of
from checkmate.backends.jax.program import Program, body_bytes, operations, read_program
from checkmate.backends.jax.step import trace
from checkmate.ir import Phase
from tests.jax.steps import data, dense, read, scanned, weights


def program(step: Any, *args: Any) -> Program:
    return read_program(jax.make_jaxpr(step)(*args))


def names(found: Program) -> Counter[str]:
    return Counter(each.name for each in found.equations)


def test_calls_are_inlined() -> None:
    inner = jax.jit(lambda x: jax.nn.relu(x) * 2)  # jit, and a custom derivative inside
    found = names(program(lambda x: jax.jit(inner)(x) + 1, jnp.ones(8)))
    assert not {"jit", "pjit", "custom_jvp_call"} & set(found)
    assert found["max"] == 1


def test_a_checkpoint_in_the_step_leaves_no_trace() -> None:
    x, y = data()

    def step(w: Any, remat: bool) -> Any:
        layer = lambda h, w: jnp.tanh(h @ w)  # noqa: E731
        layer = jax.checkpoint(layer) if remat else layer
        return jax.grad(lambda w: jnp.mean((layer(layer(x, w), w) - y) ** 2))(w)

    w = weights(1)[0]
    steps = [trace(lambda w, r=r: step(w, r), (w,), (), None) for r in (True, False)]
    with_it, without = (names(read_program(each.jaxpr)) for each in steps)
    assert with_it["tanh"] == without["tanh"] == 2
    assert with_it["dot_general"] == without["dot_general"]
    assert names(read_program(steps[0].as_written))["tanh"] == 4  # as written it is computed twice


def test_what_nobody_reads_is_left_out() -> None:
    found = program(lambda x: (jnp.exp(x), x + 1)[1], jnp.ones(8))
    assert [each.name for each in found.equations] == ["add"]


def test_random_numbers_of_different_keys_stay_apart() -> None:
    def step(key: Any) -> Any:
        one, other = jax.random.split(key)
        return jax.random.normal(one, (4,)) + jax.random.normal(other, (4,))

    assert names(program(step, jax.random.key(0)))["erf_inv"] == 2


def test_the_element_wise_chain_is_one_op() -> None:
    found = program(lambda x, w: jnp.sum(jnp.exp(x @ w) * 2 + 1), jnp.ones((8, 8)), jnp.ones((8, 8)))
    assert [fusion.root.name for fusion in fusions(found)] == ["dot_general", "reduce_sum"]


def test_a_chain_of_layers_counts_what_it_must() -> None:
    args = (weights(), *data())
    found = read(dense, *args).graph
    products = [op for op in found.ops if op.type in ("dot_general", "transpose")]
    assert len(products) == 8 + 8 + 7  # forward, weights, all inputs but the first
    assert {op.phase for op in found.ops} >= {Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE}
    kept = [value for value in found.values if value.keep]
    assert len(kept) == 9 and {value.bytes for value in kept} == {0}  # results are fixed, not temporary


def test_a_loop_is_one_op_that_holds_its_body() -> None:
    found = read(scanned, weights(), *data()).graph
    loops = [op for op in found.ops if op.type == "scan"]
    assert len(loops) == 2 and all(op.recomputable for op in loops)
    assert all(op.workspace_bytes >= 512 * 64 * 4 for op in loops)
    assert min(op.cost for op in loops) > max(op.cost for op in found.ops if op.type == "dot_general")


def test_effects_run_once_in_their_order() -> None:
    def step(x: Any) -> Any:
        for number in range(3):
            jax.debug.print("{n} {x}", n=number, x=x[0], ordered=True)
            x = jnp.tanh(x)
        return x

    found = read(step, jnp.ones(8)).graph
    effects = [index for index, op in enumerate(found.ops) if not op.recomputable]
    assert len(effects) == 3
    for before, after in pairwise(effects):
        assert before in found.predecessors[after].tolist()


@pytest.mark.parametrize(
    ("stack", "phase", "layer"),
    [
        ("jvp(block/dense)", Phase.FORWARD, "block/dense"),
        ("transpose(jvp(block/dense))", Phase.BACKWARD, "block/dense"),
        ("transpose(jvp(block))/jvp(block)/rematted_computation/dense", Phase.BACKWARD, "block/dense"),
        ("transpose(jvp(jvp()))/rematted_computation/dense", Phase.BACKWARD, "dense"),
        ("", Phase.UPDATE, ""),
        ("adam", Phase.UPDATE, "adam"),
    ],
)
def test_a_stack_says_phase_and_layer(stack: str, phase: Phase, layer: str) -> None:
    assert (phase_of(stack), layer_of(stack)) == (phase, layer)


def test_the_work_of_a_product_and_of_a_convolution() -> None:
    def of(function: Any, *shapes: Any) -> float:
        (each,) = jax.make_jaxpr(function)(*(jnp.ones(shape) for shape in shapes)).jaxpr.eqns
        ins, outs = [atom.aval for atom in each.invars], [var.aval for var in each.outvars]
        return operations(each.primitive.name, each.params, ins, outs)

    assert of(jax.lax.dot, (3, 4), (4, 5)) == 2 * 3 * 4 * 5
    conv = lambda x, k: jax.lax.conv(x, k, (1, 1), "SAME")  # noqa: E731
    assert of(conv, (2, 3, 8, 8), (5, 3, 3, 3)) == 2 * (2 * 5 * 8 * 8) * (3 * 3 * 3)


def test_a_body_holds_what_lives_at_once() -> None:
    body = jax.make_jaxpr(lambda x: jnp.sum(jnp.exp(jnp.sin(x))))(jnp.ones(256)).jaxpr
    assert body_bytes(body) == 2 * 256 * 4  # sine and its exponential; the sum goes out


@pytest.mark.parametrize("function", [jnp.tanh, jax.nn.gelu, jax.nn.silu, jnp.log2, jnp.cbrt])
def test_the_slope_of_an_activation_is_one_op(function: Any) -> None:
    def step(x: Any, slope: Any) -> Any:
        return jax.vjp(function, x)[1](slope)

    found = program(step, jnp.ones((8, 8)), jnp.ones((8, 8)))
    assert len(fusions(found)) == 1


def test_a_graph_is_written_read_and_solved(tmp_path: Path) -> None:
    def step(params: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            h = x
            for number, w in enumerate(params):
                with jax.named_scope(f"layer{number}"):
                    h = jnp.tanh(h @ w)
            return jnp.mean((h - y) ** 2)

        return jax.grad(loss)(params)

    args = (weights(), *data())
    made = checkmate.jax.profile(step, *args)
    assert made.fixed["arguments"] == sum(leaf.nbytes for leaf in jax.tree.leaves(args))
    assert {f"layer{number}" for number in range(8)} <= {op.group for op in made.ops}
    checkmate.write_graph(tmp_path / "step.json", made)
    graph = checkmate.read_graph(tmp_path / "step.json")
    assert graph.fingerprint == made.fingerprint
    budget = checkmate.keep_everything_peak(graph) * 7 // 8
    result = checkmate.solve(graph, budget, solver="greedy")
    assert checkmate.check_schedule(graph, result.require_schedule().steps.tolist(), budget=budget).ok


def test_progress_is_written_unless_it_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    args = (weights(), *data())
    checkmate.jax.profile(dense, *args, quiet=True)
    assert not capsys.readouterr().err
    checkmate.jax.profile(dense, *args)
    assert "] compile: compiling the plain step with XLA\n" in capsys.readouterr().err
