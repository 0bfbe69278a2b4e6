"""Measure scheduled JAX steps on a GPU beside policies of ``jax.checkpoint``.

``python -m tests.benchmarks jax_gpu -o docs/results/jax/NAME.json [--networks NETWORK …] [--small]``

The networks are those of ``tests.benchmarks.jax_gpu_networks``; ``--small`` makes them small enough for a
CPU, to see whether everything works.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import jax

from tests.benchmarks.jax_donated import SHARES, DonatedStep, Peer, Row, rows, write_rows
from tests.benchmarks.jax_gpu_networks import BATCHES, NETWORKS, SMALL

POLICIES = ("nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable")


def step_of(name: str, small: bool, policy: str | None = None) -> DonatedStep:
    """Return a network's step, with the policy around each block."""
    wrap = partial(jax.checkpoint, policy=policy and getattr(jax.checkpoint_policies, policy))
    size = SMALL[name] if small else {"batch": BATCHES[name]}
    network = NETWORKS[name](wrap if policy else lambda block: block, **size)
    return DonatedStep(network.step, *network.arguments())


def rows_of(name: str, small: bool) -> Iterator[Row]:
    """Give the rows of one network: plain, scheduled within shares of its temporaries, under policies."""
    peers = [Peer(policy, partial(step_of, name, small, policy)) for policy in POLICIES]
    batch = SMALL[name]["batch"] if small else BATCHES[name]
    for row in rows(name, step_of(name, small), peers, SHARES):
        yield {**row, "batch": batch}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args()
    device = {"device": jax.devices()[0].device_kind}
    write_rows(chosen.output, "JAX", device, chosen.networks, partial(rows_of, small=chosen.small))


if __name__ == "__main__":
    main()
