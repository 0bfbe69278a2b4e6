"""Measure Keras models on JAX beside Keras's own rematerialization.

``python -m tests.benchmarks jax_keras -o docs/results/jax/keras-cpu.json [--networks NETWORK …]``

Keras chooses its backend once: where ``KERAS_BACKEND`` is not ``jax``, this starts itself again with it. The
step is the one that ``checkmate.rematerialize`` schedules in a model, its state donated. The peers are
``keras.RematScope`` around the whole model, and ``keras.remat`` and ``jax.checkpoint`` around blocks.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np

from tests.benchmarks import xla_networks
from tests.benchmarks.jax_donated import SHARES, THRIFTY, DonatedStep, Peer, Row, rows, write_rows

Remat = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Network:
    """A network of ``xla_networks`` and its batch.

    A block ends with every ``every``-th layer of the type ``end``.
    """

    batch: int
    end: str
    every: int


NETWORKS = {
    "dense": Network(2048, "Activation", 1),
    "transformer": Network(16, "Add", 2),
    "gpt": Network(8, "Add", 2),
    "vit": Network(16, "Add", 2),
    "text": Network(16, "Add", 1),
    "mixer": Network(16, "Add", 2),
    "resnet": Network(32, "ReLU", 2),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--shares", nargs="*", type=int, default=SHARES)
    chosen = parser.parse_args()
    if keras.backend.backend() != "jax":
        again = [sys.executable, "-m", "tests.benchmarks.jax_keras", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "KERAS_BACKEND": "jax"})
    write_rows(
        chosen.output,
        "Keras on JAX",
        {"keras": keras.__version__},
        chosen.networks,
        lambda name: rows_of(name, chosen.shares),
    )


def rows_of(name: str, shares: Iterable[int] = SHARES) -> Iterator[Row]:
    """Give the rows of a network and some shares of its temporary bytes."""
    return rows(name, step_of(model_of(name), NETWORKS[name].batch), peers_of(name), shares)


def model_of(name: str, scope: AbstractContextManager[Any] | None = None) -> Any:
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    if scope is None:
        return getattr(xla_networks, name)()
    with scope:
        found = getattr(xla_networks, name)()
    # The model is a layer, too. Outside of the scope it is none that is recomputed as a whole.
    model = keras.Model(found.inputs, found.outputs)
    model.compile(keras.optimizers.SGD.from_config(found.optimizer.get_config()), found.loss)
    return model


def step_of(model: Any, batch: int) -> DonatedStep:
    """Return Keras's step of a model, with state and a drawn batch."""
    data = _drawn(model, batch)
    model._symbolic_build(data_batch=data)
    state = model._get_jax_state(
        trainable_variables=True,
        non_trainable_variables=True,
        optimizer_variables=True,
        metrics_variables=True,
    )

    def step(state: Any, data: Any) -> tuple[Any, Any]:
        logs, state = model.train_step(state, data)
        return state, logs

    return DonatedStep(step, jax.tree.map(np.array, state), data)


def _drawn(model: Any, batch: int) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    inputs, outputs = model.inputs[0], model.outputs[0]
    sizes = (batch, *inputs.shape[1:])
    labels = random.integers(0, 10, (batch, *outputs.shape[1:-1]), dtype=np.int32)
    if "int" in inputs.dtype:
        return random.integers(0, 1000, sizes, dtype=np.int32), labels
    return random.standard_normal(sizes, np.float32), labels


def peers_of(name: str) -> list[Peer]:
    """Return the other ways to train a network, and two with XLA's scheduler."""

    def scoped(**given: Any) -> DonatedStep:
        return step_of(model_of(name, keras.RematScope(**given)), NETWORKS[name].batch)

    def listed() -> DonatedStep:
        return scoped(mode="list_of_layers", layer_names=dear_layers(model_of(name)))

    def blocks(remat: Remat) -> DonatedStep:
        model = model_of(name)
        cut_into_blocks(model, NETWORKS[name], remat)
        return step_of(model, NETWORKS[name].batch)

    dots = partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
    return [
        Peer('RematScope("full")', lambda: scoped(mode="full")),
        Peer('RematScope("larger_than")', lambda: scoped(mode="larger_than")),
        Peer('RematScope("list_of_layers")', listed),
        Peer("keras.remat", lambda: blocks(keras.remat)),
        Peer("dots_saveable", lambda: blocks(dots)),
        Peer("plain, memory scheduler", lambda: step_of(model_of(name), NETWORKS[name].batch), THRIFTY),
        Peer("keras.remat, memory scheduler", lambda: blocks(keras.remat), THRIFTY),
    ]


def dear_layers(model: Any) -> list[str]:
    kinds = (keras.layers.Dense, keras.layers.EinsumDense)
    return [
        layer.name
        for layer in model._flatten_layers()
        if isinstance(layer, kinds) or "Conv" in type(layer).__name__
    ]


def cut_into_blocks(model: Any, network: Network, remat: Remat) -> None:
    """Let ``model`` run block by block, each under ``remat``.

    What comes after the last block is the loss's side: it runs as it is. Random seeds and statistics go in
    and out of a block as values, since what is traced inside of ``jax.checkpoint`` may not leave it.
    """
    ends = [layer for layer in model.layers if type(layer).__name__ == network.end]
    cuts = [model.inputs[0], *(layer.output for layer in ends[network.every - 1 :: network.every])]
    blocks = [keras.Model(one, other) for one, other in pairwise(cuts)]
    head = keras.Model(cuts[-1], model.outputs[0])

    def call(inputs: Any, training: Any = None, mask: Any = None) -> Any:
        x = inputs
        for block in blocks:
            x = _run_apart(block, x, remat, training)
        return head(x, training=training)

    model.call = call


def _run_apart(block: Any, x: Any, remat: Remat, training: Any) -> Any:
    weights = [each.value for each in block.trainable_variables]
    others = [each.value for each in block.non_trainable_variables]
    run = remat(lambda weights, others, x: block.stateless_call(weights, others, x, training=training))
    found, new = run(weights, others, x)
    for variable, value in zip(block.non_trainable_variables, new, strict=True):
        variable.assign(value)
    return found


if __name__ == "__main__":
    main()
