"""How a schedule is put to XLA: what waits, and how XLA orders the rest.

Where all steps are tied XLA fuses less and compiles slower. On a CPU it then holds nearly what the graph
says, and less than where only recomputations wait; the steps that were measured ran faster, too. On a GPU it
holds nearly what the graph says, too, but that is more: XLA orders for memory there.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkmate.jax.emit import TiedSteps

# XLA:CPU orders for speed. This is its other scheduler; it is of use where it is asked for.
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
    """One way to compile a schedule.

    ``thrifty``: by XLA:CPU's scheduler for memory. A compiler's options are for a whole program, so such a
    step has to be one.
    """

    ties: TiedSteps
    thrifty: bool = False

    @property
    def options(self) -> _Options:
        """Return the options to compile with."""
        return dict(_THRIFTY) if self.thrifty else {}

    def trial_options(self, platform: str) -> list[_Options]:
        """Return with what to compile only to read the memory.

        What comes later is for where XLA fails with what comes before.
        """
        return [{**self.options, **quick} for quick in (*_QUICK.get(platform, ()), {})]


def ways_on(platform: str, *, alone: bool) -> tuple[Way, ...]:
    """Return the ways to try, in order, until one keeps the budget.

    ``alone``: the step will be a program of its own, not a part of one.
    """
    if platform != "cpu":
        return Way(TiedSteps.RECOMPUTED), Way(TiedSteps.ALL)
    thrifty = (Way(TiedSteps.ALL, thrifty=True),) if alone else ()
    return Way(TiedSteps.ALL), *thrifty, Way(TiedSteps.RECOMPUTED)


def usual_ways(platform: str) -> int:
    """Return how many of the ways are tried for each schedule.

    All are for the smallest.
    """
    return 2 if platform == "cpu" else 1


def holds_order(way: Way, platform: str) -> bool:
    """Return whether the step's own order may take less than XLA's.

    ``way`` would hold it.
    """
    return platform == "cpu" and way.ties is TiedSteps.ALL
