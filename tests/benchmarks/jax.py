"""Measure scheduled JAX steps beside policies of ``jax.checkpoint``, on a CPU under both of XLA's schedulers.

``python -m tests.benchmarks jax -o docs/results/jax/NAME.json [--wide [--small]] [--networks NETWORK …]``

``--wide``: the networks of ``tests.benchmarks.jax_wide_networks``, for a GPU; ``--small`` makes them small
enough for a CPU, to see whether everything works. The file is written after each row.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax

from tests.benchmarks import jax_networks
from tests.benchmarks.jax_donated import THRIFTY, DonatedStep, Peer, Row, rows, write_rows
from tests.benchmarks.jax_wide_networks import BATCHES, NETWORKS, SMALL

POLICIES = ("nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable")
# From a policy's name, or none, to a network's step.
Make = Callable[[str], DonatedStep]


def small_step(name: str, policy: str) -> DonatedStep:
    """Return a network for a CPU, with the policy around each block."""
    step, (state, *batch) = jax_networks.NETWORKS[name](_wrap(policy))
    return DonatedStep(lambda state, batch: step(state, *batch), state, batch)


def wide_step(name: str, sizes: dict[str, Any], policy: str) -> DonatedStep:
    """Return a network for a GPU, with the policy around each block."""
    network = NETWORKS[name](_wrap(policy), **sizes)
    return DonatedStep(network.step, *network.arguments())


def _wrap(policy: str) -> Callable[[Any], Any]:
    if not policy:
        return lambda block: block
    return partial(jax.checkpoint, policy=getattr(jax.checkpoint_policies, policy))


def rows_of(name: str, make: Make, **more: Any) -> Iterator[Row]:
    """Give the rows of one network: plain, scheduled within shares of its temporaries, under policies."""
    peers = [Peer(policy, partial(make, policy)) for policy in POLICIES]
    if jax.default_backend() == "cpu":
        peers += [
            Peer(f"{policy or 'plain'}, memory scheduler", partial(make, policy), THRIFTY)
            for policy in ("", *POLICIES)
        ]
    for row in rows(name, make(""), peers):
        yield {**row, **more}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--networks", nargs="+")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()

    def measured(name: str) -> Iterator[Row]:
        if not chosen.wide:
            return rows_of(name, partial(small_step, name))
        sizes = SMALL[name] if chosen.small else {"batch": BATCHES[name]}
        return rows_of(name, partial(wide_step, name, sizes), batch=sizes["batch"])

    names = chosen.networks or list(NETWORKS if chosen.wide else jax_networks.NETWORKS)
    write_rows(chosen.output, "JAX", {"device": jax.devices()[0].device_kind}, names, measured)


if __name__ == "__main__":
    main()
