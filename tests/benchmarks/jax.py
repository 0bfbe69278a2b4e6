"""Measure scheduled JAX steps beside plain ones.

They are measured beside the policies of ``jax.checkpoint``, too, on a CPU under both of XLA's schedulers.

``python -m tests.benchmarks jax -o docs/results/jax/NAME.json``. Bytes are XLA's own, of compiled steps. The
time is a ratio: the two steps run in turns in one process, and the least of each counts. The file is written
after each network.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import jax

import checkmate.jax
from checkmate.backends.jax.compiled import memory_of
from checkmate.machine.processor import processor_name
from checkmate.solvers.problem import SolveOptions
from tests.benchmarks.jax_donated import THRIFTY
from tests.benchmarks.jax_networks import NETWORKS, Wrap
from tests.jax.steps import largest_difference

SHARES = (75, 60, 45, 30)
POLICIES = ("nothing_saveable", "dots_saveable", "dots_with_no_batch_dims_saveable")
ROUNDS = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    chosen = parser.parse_args()
    facts: dict[str, Any] = {"jax": jax.__version__, "platform": jax.default_backend()}
    facts |= {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "load": [os.getloadavg()[0]],
        "rows": [],
    }
    for name in chosen.networks:
        facts["rows"] += rows_of(name)
        facts["load"].append(os.getloadavg()[0])
        chosen.output.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def rows_of(name: str) -> list[dict[str, Any]]:
    step, args = NETWORKS[name](lambda block: block)
    plain = jax.jit(step)
    compiled = plain.lower(*args).compile()
    temporary = memory_of(compiled).temporary
    rows = [{"network": name, "way": "plain", "temporary": temporary}]
    for share in SHARES:
        found = checkmate.jax.rematerialize(
            step, f"{share}%", of="temporary", example=args, options=SolveOptions(time_limit_s=3)
        )
        report = found.report
        facts = {
            "way": f"{share} %",
            "temporary": report.reached.temporary,
            "budget": share / 100 * temporary,
        }
        facts |= {"predicted": report.predicted_overhead, "recomputations": report.recomputations}
        facts |= {"compilations": report.compilations, "compile_seconds": report.compile_seconds}
        rows.append({"network": name, **facts, **_compared(compiled, found, args)})
    return [*rows, *_peers(name, compiled, args)]


def _peers(name: str, plain: Any, args: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return the rows of the policies, under both of XLA:CPU's schedulers."""
    ways: list[tuple[str, str | None, dict[str, Any]]] = [(policy, policy, {}) for policy in POLICIES]
    ways += [("plain, memory scheduler", None, THRIFTY)]
    ways += [(f"{policy}, memory scheduler", policy, THRIFTY) for policy in POLICIES]
    rows = []
    for way, policy, options in ways if jax.default_backend() == "cpu" else ways[: len(POLICIES)]:
        step, _ = NETWORKS[name](_checkpointed(policy) if policy else lambda block: block)
        run = jax.jit(step).lower(*args).compile(options)
        facts = {"way": way, "temporary": memory_of(run).temporary}
        rows.append({"network": name, **facts, **_compared(plain, run, args)})
    return rows


def _checkpointed(policy: str) -> Wrap:
    saved = getattr(jax.checkpoint_policies, policy)
    return lambda block: jax.checkpoint(block, policy=saved)


def _compared(plain: Any, other: Any, args: tuple[Any, ...]) -> dict[str, float]:
    """Return how much longer ``other`` takes, and how its results differ."""
    difference = largest_difference(plain(*args), other(*args))
    least = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for number, run in enumerate((plain, other)):
            started = time.perf_counter()
            jax.block_until_ready(run(*args))
            least[number] = min(least[number], time.perf_counter() - started)
    return {"measured": least[1] / least[0] - 1, "difference": difference}


if __name__ == "__main__":
    main()
