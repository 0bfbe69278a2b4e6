"""Which steps of a schedule wait for those before them, and in which ways that is tried.

XLA merges equal computations, and orders ops by their data alone. A recomputation stays, and stays late, if
it has an operand that depends on a value of the steps before it: it *waits* for that value.
"""

from __future__ import annotations

from enum import Enum, auto

from checkmate.ir import Graph


class WaitPolicy(Enum):
    """Which steps wait for those before them.

    Recomputations must wait, or XLA would merge them away. ``RUNS``: each run of consecutive recomputations
    waits once. ``RECOMPUTED``: each recomputation also waits for the one before it. With ``RUNS`` XLA fuses
    more, so the step takes less time, and mostly less memory. ``VALUES``: a run waits once, through the
    largest value that it reads, and later readers of that value wait too. ``ALL``: all steps wait, which
    keeps nearest to the schedule's order; that may take even less memory, but fuses least and compiles
    slower.

    Only on a CPU, matrix products also wait for weight gradients (``Gate``) in ``GATED``, otherwise like
    ``RUNS``, and in ``VALUES`` and ``RECOMPUTED``. ``HELD``: like ``GATED``, and results that the schedule
    keeps are pinned (``held_results``). JAX's steps use ``NONE``, ``RUNS`` and ``ALL``.
    """

    NONE = auto()
    RUNS = auto()
    GATED = auto()
    VALUES = auto()
    HELD = auto()
    RECOMPUTED = auto()
    ALL = auto()

    @property
    def once(self) -> bool:
        """Whether the recomputations in a row wait only once, before the first."""
        return self in (WaitPolicy.RUNS, WaitPolicy.GATED, WaitPolicy.VALUES, WaitPolicy.HELD)

    def holds(self, *, again: bool) -> bool:
        """Whether a step waits that runs ``again``, or for the first time."""
        return self is WaitPolicy.ALL or (again and self is not WaitPolicy.NONE)


class Waiting(Enum):
    """The operations by which steps of JAX wait: optimization barriers or selects. ``GATES``: barriers, and
    gates for XLA:CPU. ``MIXED``: selects if they copy little, else as ``GATES``."""

    BARRIERS = auto()
    GATES = auto()
    MIXED = auto()
    SELECTS = auto()


def ways_to_tie(graph: Graph) -> tuple[WaitPolicy, ...]:
    """Return the policies to try, in order. With convolutions, ``VALUES`` and ``HELD`` may save memory,
    because XLA:CPU transposes a convolution's input for its filter gradient, and that copy has to wait too: a
    ResNet's schedule for 45 % took 10 MiB by ``GATED``, and 8 by ``VALUES``; its smallest took 8 by
    ``GATED``, and 7 by ``HELD``. Without convolutions these take as much or more."""
    on_cpu = graph.device_kind == "cpu"
    found = [WaitPolicy.RUNS]
    if on_cpu:
        found.append(WaitPolicy.GATED)
    if any("Conv" in op.type for op in graph.ops):
        found += [WaitPolicy.VALUES, WaitPolicy.HELD] if on_cpu else [WaitPolicy.VALUES]
    return (*found, WaitPolicy.RECOMPUTED, WaitPolicy.ALL)


def ways_to_order(graph: Graph) -> tuple[WaitPolicy, ...]:
    """Return the policies with which even the plain order may take less memory than the plain step."""
    if graph.device_kind != "cpu":
        return (WaitPolicy.ALL,)
    return (WaitPolicy.RUNS, WaitPolicy.GATED, WaitPolicy.ALL)


def usual_ways(graph: Graph) -> int:
    """Return how many of the ways are tried for every schedule."""
    return 3 if WaitPolicy.HELD in ways_to_tie(graph) else 2


def why_less(tied: WaitPolicy) -> str:
    if tied is WaitPolicy.ALL:
        return "all steps run in their order"
    return "ops are put to XLA so that it holds less"
