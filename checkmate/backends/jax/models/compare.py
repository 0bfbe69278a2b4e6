"""Run a scheduled step beside the plain one, from the same state.

Compiled, the two are other programs: XLA fuses and rounds them in other ways. So they are also run equation
by equation, with the same kernels. There a right schedule gives the same bits.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import psutil
from jax.extend.core import Literal

from checkmate.backends.jax.plan import JaxPlan
from checkmate.backends.jax.program import Program, read_program
from checkmate.errors import ProfileError
from checkmate.progress import Cancelled, Progress, Report, stop_if

_ROUNDS = 3  # timed runs of each step, in turn
_ROOM = 0.5  # of the free memory, that the values of all equations may take
Run = Callable[..., Any]


@dataclass(frozen=True)
class Apart:
    """How far two results are apart.

    ``bitwise``: not at all. ``whole_equal``: whole numbers, keys and truth values are the same. ``overall``:
    the length of the difference of all floats over that of the plain step's. ``worst``: the largest
    difference of an array over its largest value, of the array ``where``. ``count``: arrays that were
    compared.
    """

    bitwise: bool
    whole_equal: bool
    overall: float
    worst: float
    where: str
    count: int


@dataclass(frozen=True)
class Compared:
    """What two steps came to.

    ``exact``: equation by equation; None where that needs too much memory, and ``needed`` says how much.
    ``compiled``: as XLA compiles them; None where the plain step does not fit the device. ``losses`` and
    ``seconds``: of the plain and the scheduled step; the seconds are medians of warm steps.
    """

    exact: Apart | None
    needed: int
    compiled: Apart | None
    losses: tuple[float | None, float | None]
    seconds: tuple[float | None, float]


def compare(
    plan: JaxPlan, plain: Run, closed: Any, arguments: Run, *, report: Report, cancelled: Cancelled
) -> Compared:
    """Run both steps from what ``arguments`` makes, and compare their results.

    ``plain`` and the plan's step take flat arrays; ``closed`` is the traced step. Each may take over what it
    is given.

    Raises:
        ProfileError: the scheduled step does not fit the device. CancelledError: the user cancelled.
    """
    report(Progress("verify", message="running the plain and the scheduled step"))
    flat = tuple(jax.tree.leaves(arguments()))

    def copies() -> list[Any]:
        return [jnp.copy(each) for each in flat]

    names = _names(plan)
    after = _ran(plan.executable, copies)
    if after is None:
        raise ProfileError(
            "the scheduled step does not fit the device", hint="use a smaller budget or a smaller batch"
        )
    before = _ran(plain, copies)
    stop_if(cancelled)
    took = _seconds([plan.executable] if before is None else [plan.executable, plain], copies, cancelled)
    program = read_program(closed)
    needed = sum(program.bytes_of(value) for value in range(len(program.avals)))
    if before is None:
        return Compared(None, needed, None, (None, _loss(plan, after)), (None, took[0]))
    losses = _loss(plan, before), _loss(plan, after)
    exact = None
    if needed <= _ROOM * _free_bytes():
        report(Progress("verify", message="comparing them equation by equation"))
        one, other = _ran(_by_equations(program), lambda: flat), _ran(plan.by_equations, lambda: flat)
        exact = None if one is None or other is None else apart(one, other, names)
    stop_if(cancelled)
    return Compared(exact, needed, apart(before, after, names), losses, (took[1], took[0]))


def _ran(run: Run, arguments: Callable[[], Sequence[Any]]) -> list[np.ndarray] | None:
    """Return what a step comes to; None where it does not fit the device."""
    try:
        return _values(jax.block_until_ready(run(*arguments())))
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return None


def apart(plain: Sequence[np.ndarray], other: Sequence[np.ndarray], names: Sequence[str]) -> Apart:
    """Return how far arrays are apart; ``names`` has one for each."""
    bitwise = whole = True
    difference = length = worst = 0.0
    where = ""
    for name, one, two in zip(names, plain, other, strict=True):
        same = one.tobytes() == two.tobytes()
        bitwise = bitwise and same
        if not jnp.issubdtype(one.dtype, jnp.inexact):
            whole = whole and same
            continue
        wide = np.complex128 if jnp.issubdtype(one.dtype, jnp.complexfloating) else np.float64
        first, second = one.astype(wide), two.astype(wide)
        gap = np.zeros_like(first) if same else first - second
        difference, length = difference + _square(gap), length + _square(first)
        largest = float(np.max(np.abs(first), initial=0.0))
        most = float(np.max(np.abs(gap), initial=0.0))
        relative = _relative(most, largest)
        if relative > worst or not where:
            worst, where = max(worst, relative), name
    overall = math.sqrt(difference / length) if length else 0.0
    return Apart(bitwise, whole, math.inf if math.isnan(overall) else overall, worst, where, len(names))


def _relative(difference: float, largest: float) -> float:
    if math.isnan(difference):
        return math.inf
    if not largest:
        return math.inf if difference else 0.0
    return difference / largest


def _square(array: np.ndarray) -> float:
    return float(np.sum(np.abs(array) ** 2))


def _by_equations(program: Program) -> Run:
    """Return a function of flat arguments that runs equation by equation."""

    def run(*flat: Any) -> list[Any]:
        values: dict[int, Any] = dict(zip(program.arguments, flat, strict=True))
        values.update(program.constants)
        for each in program.equations:
            inputs = [atom.val if isinstance(atom, Literal) else values[atom] for atom in each.inputs]
            values.update(zip(each.outputs, each.run(inputs), strict=True))
        return [atom.val if isinstance(atom, Literal) else values[atom] for atom in program.results]

    return run


def _values(results: Sequence[Any]) -> list[np.ndarray]:
    """Return results as arrays of numpy's; of keys their data."""
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


def _loss(plan: JaxPlan, values: Sequence[np.ndarray]) -> float | None:
    """Return what the step calls its loss, or its only number that is a float."""
    names = _names(plan)
    called = [value for name, value in zip(names, values, strict=True) if name.endswith("['loss']")]
    numbers = [each for each in values if each.ndim == 0 and jnp.issubdtype(each.dtype, jnp.floating)]
    found = called or (numbers if len(numbers) == 1 else [])
    return float(found[0]) if found else None


def _seconds(steps: Sequence[Run], copies: Callable[[], Sequence[Any]], cancelled: Cancelled) -> list[float]:
    """Return how long each step takes, warm, in turn."""
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
    """Return the memory that is free on JAX's device."""
    device = jax.local_devices()[0]
    held = device.memory_stats() if device.platform != "cpu" else None
    if not held:
        return float(psutil.virtual_memory().available)
    return float(held.get("bytes_limit", 0) - held.get("bytes_in_use", 0))
