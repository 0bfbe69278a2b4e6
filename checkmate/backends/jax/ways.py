"""The ways to emit a schedule for XLA: which steps wait, by which operations, and which scheduler XLA uses.

XLA:GPU orders ops for low memory, so only recomputations have to wait. If all steps waited, it would fuse
less, compile slower and hold more. XLA:CPU orders ops for speed; its scheduler for memory can only be chosen
for a whole program. That scheduler was not made for recomputation, and no kind of waiting is best for all
models: barriers are for an Equinox decoder, gates (``xla_policy.for_cpu``) where biases are summed, selects
where most is recomputed. If all steps wait by selects, XLA:CPU keeps the schedule's order; since selects copy
their operands, a step takes 20 % less to 30 % more time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkmate.backends.jax.emission import Emitted
from checkmate.backends.protocol import NEAR
from checkmate.backends.xla_policy.waits import Waiting, WaitPolicy

_THRIFTY = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
# XLA plans its buffers before it makes machine code, so trials use options that make poor code quickly. On an
# H200 a step compiled in 2 to 4 s instead of 22 to 29 s without autotuning, with the same bytes. Without it,
# XLA:GPU cannot compile some matrix products (of a ViT, by JAX 0.11 on an H200). Then Triton's kernels are
# switched off, which changes the bytes by a few per cent; the last resort is the final options.
_Options = dict[str, str | int | bool]
_QUICK: dict[str, tuple[_Options, ...]] = {
    "cpu": ({"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True},),
    "gpu": (
        {"xla_gpu_autotune_level": 0},
        {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False},
    ),
}


@dataclass(frozen=True)
class Way:
    """``thrifty``: use XLA:CPU's scheduler for low memory, an option of a whole program."""

    ties: WaitPolicy
    waiting: Waiting = Waiting.SELECTS
    thrifty: bool = False

    def emitted(self, platform: str) -> Emitted:
        return Emitted(self.ties, self.waiting, cpu=platform == "cpu")

    @property
    def options(self) -> _Options:
        return dict(_THRIFTY) if self.thrifty else {}

    def trial_options(self, platform: str) -> list[_Options]:
        """Options to compile with if only the memory is read; the next ones are tried if XLA fails."""
        return [{**self.options, **quick} for quick in (*_QUICK.get(platform, ()), {})]


def ways_on(platform: str, *, alone: bool) -> tuple[tuple[Way, ...], ...]:
    """Return groups of ways, each with a search of its own.

    They are tried in order, until one keeps the budget.

    ``alone``: the step will be a program of its own, not a part of one.
    """
    if platform != "cpu":
        return (tuple(Way(ties, Waiting.BARRIERS) for ties in (WaitPolicy.RUNS, WaitPolicy.ALL)),)
    recomputed, everything = Way(WaitPolicy.RUNS), Way(WaitPolicy.ALL)
    if not alone:
        return ((everything, recomputed),)
    first = (Waiting.BARRIERS, Waiting.GATES, Waiting.MIXED)
    thrifty = tuple(Way(WaitPolicy.RUNS, waiting, thrifty=True) for waiting in first)
    return thrifty, (everything, Way(WaitPolicy.ALL, thrifty=True), recomputed)


def usual_ways(ways: Sequence[Way], platform: str) -> int:
    """How many ways of a group are tried for each schedule. All are for the smallest."""
    if platform != "cpu":
        return 1
    return 3 if all(way.thrifty for way in ways) else 2


def near(platform: str) -> float:
    """Return ``Compiler.near``: with XLA:CPU's scheduler for memory, the same schedule took up to 2.3 times
    as much memory in one way as in another."""
    return 2.0 if platform == "cpu" else NEAR


def holds_order(way: Way, platform: str) -> bool:
    """Whether the plain order, emitted this way, may take less memory than the plain step."""
    return platform == "cpu" and (way.thrifty or way.ties is WaitPolicy.ALL)
