"""How a schedule is put to XLA: what waits, and how XLA orders the rest.

On a GPU XLA orders for memory, and recomputations alone wait. Where all steps are tied it fuses less,
compiles slower and holds more. XLA:CPU orders for speed. It has a scheduler for memory as well, which is
chosen for a whole program. But it is not made for copies, and no way of waiting is best everywhere: barriers
in an Equinox decoder, gates (``xla_policy.for_cpu``) where biases are summed, selects where most is computed
again. Where all steps are tied XLA keeps to the order, for 20 % less to 30 % more time: selects copy what
they pass on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkmate.backends.jax.emission import Emitted
from checkmate.backends.protocol import NEAR
from checkmate.backends.xla_policy.waits import Waiting, WaitPolicy

_THRIFTY = {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
# XLA plans its buffers before it makes machine code, so trials make poor code quickly. On an H200 a step took
# 2 to 4 s to compile for 22 to 29 where no kernels were tried out, and the same bytes. XLA:GPU has no such
# code for some products (a ViT's, where JAX 0.11 compiled for an H200): then without Triton's kernels, which
# takes a few per cent more or less, and at last as the step will run.
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
    """``thrifty``: by XLA:CPU's scheduler for memory, an option that is for a whole program."""

    ties: WaitPolicy
    waiting: Waiting = Waiting.SELECTS
    thrifty: bool = False

    def emitted(self, platform: str) -> Emitted:
        return Emitted(self.ties, self.waiting, cpu=platform == "cpu")

    @property
    def options(self) -> _Options:
        return dict(_THRIFTY) if self.thrifty else {}

    def trial_options(self, platform: str) -> list[_Options]:
        """With what to compile only to read the memory; what comes later is for where XLA fails."""
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
    """Return the factor over the budget up to which another way is still tried.

    What XLA:CPU's scheduler for memory takes in one way was up to 2.3 times what it takes in another.
    """
    return 2.0 if platform == "cpu" else NEAR


def holds_order(way: Way, platform: str) -> bool:
    """Whether the plain order may take less memory in such a way."""
    return platform == "cpu" and (way.thrifty or way.ties is WaitPolicy.ALL)
