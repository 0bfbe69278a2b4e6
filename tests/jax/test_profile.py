"""Test the graph of a JAX step as a file that others read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import checkmate
import checkmate.jax
from tests.jax.steps import data, dense, weights


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
