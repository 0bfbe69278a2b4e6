"""Test that XLA:CPU computes gradients of weights before it goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from checkmate.backends.jax.fusions import fusions
from checkmate.backends.jax.program import read_program
from checkmate.backends.jax.ties import ForCpu, OnCpu
from checkmate.backends.jax.ways import Way
from checkmate.backends.xla_policy.waits import Waiting, WaitPolicy
from tests.jax.steps import largest_difference, plain_order


def biased(params: Any, x: Any) -> Any:
    """Return parameters after a step of descent: layers with biases."""

    def loss(params: Any) -> Any:
        y = x
        for weight, bias in params:
            y = jax.nn.gelu(y @ weight + bias)
        return (y**2).sum()

    return jax.tree.map(lambda value, slope: value - 0.1 * slope, params, jax.grad(loss)(params))


def arguments(width: int = 64) -> tuple[Any, Any]:
    draw = np.random.default_rng(2)
    layers = [
        (jnp.asarray(draw.normal(0, 0.1, (width, width)), jnp.float32), jnp.zeros(width, jnp.float32))
        for _ in range(5)
    ]
    return layers, jnp.asarray(draw.normal(0, 1, (16 * width, width)), jnp.float32)


def test_ends_are_gradients_of_weights_and_biases() -> None:
    program = read_program(jax.make_jaxpr(biased)(*arguments()))
    fused = fusions(program)
    found = ForCpu.of(program, fused).ends
    made = [value for fusion in fused for value in fusion.writes if value in found]
    shapes = [program.avals[value].shape for value in made]
    assert set(shapes) == {(64,), (64, 64)}
    assert shapes.count((64, 64)) == 5 and shapes.count((64,)) == 10  # a bias is summed in two steps


def test_a_gate_waits_for_all_ends_since_the_gate_before() -> None:
    args = arguments()
    program = read_program(jax.make_jaxpr(biased)(*args))
    fused = fusions(program)
    values: dict[int, Any] = dict(zip(program.arguments, jax.tree.leaves(args), strict=True))
    values.update(program.constants)
    cpu = OnCpu(ForCpu.of(program, fused), jax.tree.leaves(args), gates=True)
    waited = []
    for index, fusion in enumerate(fused):
        operands = cpu.operands(index, values)
        for value, operand in operands.items():
            assert program.avals[value].shape == (64, 64) and np.array_equal(operand, values[value])
        waited += list(operands)
        made = dict(values)
        for each in fusion.equations:
            inputs = [atom.val if hasattr(atom, "val") else made[atom] for atom in each.inputs]
            made.update(zip(each.outputs, each.run(inputs), strict=True))
        values.update((value, made[value]) for value in fusion.writes)
        cpu.keep(index, values)
    assert len(waited) == 4  # the slopes pass four layers


@pytest.mark.heavy
@pytest.mark.parametrize("waiting", Waiting)
def test_gates_change_no_gradient(waiting: Waiting) -> None:
    args = arguments()
    way = Way(WaitPolicy.RUNS, waiting, thrifty=True)
    run, compiled = plain_order(biased, args, way.emitted("cpu"), way.options)
    found = compiled(*jax.tree.leaves(args))
    assert largest_difference(found, jax.tree.leaves(jax.jit(biased)(*args))) <= 1e-6
    names = [each.primitive.name for each in jax.make_jaxpr(run)(*jax.tree.leaves(args)).eqns]
    assert ("and" in names) == way.emitted("cpu").gates  # of the predicates of several gradients
