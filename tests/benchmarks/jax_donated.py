"""Rows of a JAX step whose state is donated, beside other ways to train.

For ``tests.benchmarks.jax`` and ``jax_keras``. Bytes are XLA's own, of compiled
steps. The time is a ratio: two steps run in turns in one process, and the least of each counts.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import checkmate.jax
from checkmate.backends.jax.compiled import memory_of
from checkmate.machine.processor import processor_name
from checkmate.solvers.problem import SolveOptions

SHARES = (75, 60, 45, 30)
ROUNDS = 5
SOLVER_S = 3.0
# XLA:CPU orders for speed. This is its other scheduler; XLA's own plan of the plain step is not made by it.
THRIFTY = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
_LEAST_NORM = 1e-4  # of the largest: what is smaller is compared with that

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class DonatedStep:
    """A step from state and batch to the new state and other results.

    ``state`` and ``batch`` are trees of NumPy arrays, so that a donated copy costs the next run nothing.
    """

    step: Callable[[Any, Any], tuple[Any, Any]]
    state: Any
    batch: Any

    def compile(self, options: dict[str, Any] | None = None) -> Compiled:
        started = time.perf_counter()
        lowered = jax.jit(self.step, donate_argnums=0).lower(self.state, self.batch)
        run = lowered.compile(options or {})
        return Compiled(run, memory_of(run).temporary, time.perf_counter() - started)

    def first(self, run: Callable[..., Any]) -> tuple[Any, Any]:
        """Return what ``run`` gives of the first batch."""
        return run(jax.tree.map(jnp.array, self.state), self.batch)


@dataclass(frozen=True, eq=False)
class Compiled:
    """A compiled step: its temporary bytes, and the seconds that took."""

    run: Callable[..., Any]
    temporary: int
    seconds: float

    @property
    def facts(self) -> Row:
        return {"temporary": self.temporary, "compilations": 1, "compile_seconds": self.seconds}


@dataclass(frozen=True, eq=False)
class Peer:
    """Another way to train the same network: its name, and its step.

    ``options`` are XLA's. What a way does not take is its error, when its step is made or traced.
    """

    way: str
    make: Callable[[], DonatedStep]
    options: dict[str, Any] | None = None


def rows(
    network: str, plain: DonatedStep, peers: Iterable[Peer], shares: Iterable[int] = SHARES
) -> Iterator[Row]:
    """Give the rows of one network: plain, shares of its bytes, peers."""
    compiled = plain.compile()
    yield {"network": network, "way": "plain", **compiled.facts}
    for share in shares:
        run, facts = _scheduled(plain, share)
        yield {"network": network, **facts, **compared(plain, compiled.run, run)}
    for peer in peers:
        yield {"network": network, "way": peer.way, **_of_peer(plain, compiled, peer)}


def _scheduled(plain: DonatedStep, share: int) -> tuple[Callable[..., Any], Row]:
    step = checkmate.jax.rematerialize(
        plain.step,
        f"{share}%",
        of="temporary",
        donate_argnums=0,
        example=(plain.state, plain.batch),
        options=SolveOptions(time_limit_s=SOLVER_S),
        quiet=True,
    )
    report = step.report
    return step, {
        "way": f"{share} %",
        "temporary": report.reached.temporary,
        "budget": share / 100 * report.plain.temporary,
        "predicted": report.predicted_overhead,
        "recomputations": report.recomputations,
        "compilations": report.compilations,
        "compile_seconds": report.compile_seconds,
        "solve_seconds": report.solve_seconds,
    }


def _of_peer(plain: DonatedStep, compiled: Compiled, peer: Peer) -> Row:
    try:
        other = peer.make().compile(peer.options)
    except (ValueError, TypeError, RuntimeError, AttributeError) as error:
        return {"problem": _first_cause(error)}
    return {**other.facts, **compared(plain, compiled.run, other.run)}


def _first_cause(error: BaseException) -> str:
    """Return in one line what went wrong first; Keras words some errors anew."""
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"[:200]


def compared(step: DonatedStep, plain: Callable[..., Any], other: Callable[..., Any]) -> Row:
    """Return how much longer ``other`` takes, and how its first state differs."""
    states = []
    for run in (plain, other):
        states.append(step.first(run)[0])
    difference = relative_difference(*states)
    least = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        for number, run in enumerate((plain, other)):
            started = time.perf_counter()
            states[number] = jax.block_until_ready(run(states[number], step.batch))[0]
            least[number] = min(least[number], time.perf_counter() - started)
    return {"measured": least[1] / least[0] - 1, "seconds": least[1], "difference": difference}


def relative_difference(one: Any, other: Any) -> float:
    """Return the largest difference of two states' arrays, by their norms."""
    pairs = [
        (np.asarray(a, np.float64), np.asarray(b, np.float64))
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    ]
    norms = [float(np.linalg.norm(a)) for a, _ in pairs]
    floor = max(_LEAST_NORM * max(norms), np.finfo(np.float64).tiny)
    return max(
        float(np.linalg.norm(a - b)) / max(norm, floor) for (a, b), norm in zip(pairs, norms, strict=True)
    )


def write_rows(
    path: Path,
    title: str,
    versions: dict[str, str],
    networks: Iterable[str],
    of: Callable[[str], Iterable[Row]],
) -> None:
    """Measure the networks and write the file after each row."""
    facts: Row = {"title": title, **versions, "jax": jax.__version__, "platform": jax.default_backend()}
    facts |= {"processor": processor_name(), "cores": os.cpu_count()}
    facts |= {"load": [os.getloadavg()[0]], "rows": []}
    for name in networks:
        for row in of(name):
            facts["rows"].append(row)
            facts["load"].append(os.getloadavg()[0])
            path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
            _tell(row)


def _tell(row: Row) -> None:
    if "problem" in row:
        print(f"{row['network']}, {row['way']}: {row['problem']}", flush=True)
        return
    print(
        f"{row['network']}, {row['way']}: {row['temporary'] / 2**20:.1f} MiB, "
        f"{row.get('measured', 0.0):+.0%}, "
        f"difference {row.get('difference', 0.0):.0e}, compiled in {row['compile_seconds']:.0f} s",
        flush=True,
    )
