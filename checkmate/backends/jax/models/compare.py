"""Run a scheduled step beside the plain one, from the same state.

Compiled, XLA fuses and rounds them in other ways. So they are also run equation by equation, to the bit.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import psutil

from checkmate.backends.jax.program import Program, read, read_program
from checkmate.backends.jax.step import JaxPlan
from checkmate.backends.outcomes import Difference, Outcome, difference
from checkmate.errors import ProfileError
from checkmate.progress import Cancelled, Progress, Report, stop_if

_ROUNDS = 3  # timed runs of each step, in turn
_ROOM = 0.5  # of the free memory, that the values of all equations may take
Run = Callable[..., Any]


@dataclass(frozen=True)
class Compared:
    """The results of two steps, compared.

    ``exact``: the difference if both run equation by equation; None if the ``needed`` bytes for that are too
    many. ``compiled``: the difference between the compiled steps; None if the plain one does not fit the
    device. ``losses`` and ``seconds``: of the plain and the scheduled step; seconds are medians of warm runs.
    """

    exact: Difference | None
    needed: int
    compiled: Difference | None
    losses: tuple[float | None, float | None]
    seconds: tuple[float | None, float]


def compare(
    plan: JaxPlan, plain: Run, closed: Any, arguments: Run, *, report: Report, cancelled: Cancelled
) -> Compared:
    """Run both steps from what ``arguments`` makes, and compare their results.

    ``plain`` and the plan's step take flat arrays, and may take over what they are given; ``closed`` is the
    traced step. A ProfileError: the scheduled step does not fit the device.
    """
    report(Progress("verify", message="running the plain and the scheduled step"))
    flat = tuple(jax.tree.leaves(arguments()))

    def copies() -> list[Any]:
        return [jnp.copy(each) for each in flat]

    names = _names(plan)
    after = _ran(plan.executable, copies, names)
    if after is None:
        raise ProfileError(
            "the scheduled step does not fit the device", hint="use a smaller budget or a smaller batch"
        )
    before = _ran(plain, copies, names)
    stop_if(cancelled)
    took = _seconds([plan.executable] if before is None else [plan.executable, plain], copies, cancelled)
    program = read_program(closed)
    needed = sum(program.bytes_of(value) for value in range(len(program.avals)))
    if before is None:
        return Compared(None, needed, None, (None, after.loss), (None, took[0]))
    exact = None
    if needed <= _ROOM * _free_bytes():
        report(Progress("verify", message="comparing them equation by equation"))
        one = _ran(_by_equations(program), lambda: flat, names)
        other = _ran(plan.by_equations, lambda: flat, names)
        exact = None if one is None or other is None else difference(other, one)
    stop_if(cancelled)
    losses = before.loss, after.loss
    return Compared(exact, needed, difference(after, before), losses, (took[1], took[0]))


def _ran(run: Run, arguments: Callable[[], Sequence[Any]], names: Sequence[str]) -> Outcome | None:
    try:
        values = _values(jax.block_until_ready(run(*arguments())))
        return Outcome(_loss(names, values), names, values)
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return None


def _by_equations(program: Program) -> Run:

    def run(*flat: Any) -> list[Any]:
        values = program.given(flat)
        for each in program.equations:
            inputs = [read(atom, values) for atom in each.inputs]
            values.update(zip(each.outputs, each.run(inputs), strict=True))
        return program.returned(values)

    return run


def _values(results: Sequence[Any]) -> list[np.ndarray]:
    return [
        np.asarray(
            jax.random.key_data(each)
            if jnp.issubdtype(jnp.asarray(each).dtype, jax.dtypes.prng_key)
            else each
        )
        for each in results
    ]


def _names(plan: JaxPlan) -> list[str]:
    numbered = jax.tree.unflatten(plan.results, range(plan.results.num_leaves))
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(numbered)[0]]


def _loss(names: Sequence[str], values: Sequence[np.ndarray]) -> float | None:
    """Return the result called loss, else the only floating-point scalar."""
    called = [value for name, value in zip(names, values, strict=True) if name.endswith("['loss']")]
    numbers = [each for each in values if each.ndim == 0 and jnp.issubdtype(each.dtype, jnp.floating)]
    found = called or (numbers if len(numbers) == 1 else [])
    return float(found[0]) if found else None


def _seconds(steps: Sequence[Run], copies: Callable[[], Sequence[Any]], cancelled: Cancelled) -> list[float]:
    taken: list[list[float]] = [[] for _ in steps]
    for _ in range(_ROUNDS):
        for run, found in zip(steps, taken, strict=True):
            stop_if(cancelled)
            given = jax.block_until_ready(copies())
            started = time.perf_counter()
            jax.block_until_ready(run(*given))
            found.append(time.perf_counter() - started)
    return [statistics.median(each) for each in taken]


def _free_bytes() -> float:
    device = jax.local_devices()[0]
    held = device.memory_stats() if device.platform != "cpu" else None
    if not held:
        return float(psutil.virtual_memory().available)
    return float(held.get("bytes_limit", 0) - held.get("bytes_in_use", 0))
