"""Which steps of a schedule wait for those before them, and in which ways that is tried.

XLA merges equal computations and orders ops by their data alone. A recomputation is kept, and kept late, by
an operand that cannot be known before a value of the steps before it.
"""

from __future__ import annotations

from enum import Enum, auto

from checkmate.ir import Graph


class WaitPolicy(Enum):
    """Which steps wait for those before them.

    Recomputations do, or XLA would merge them away. Each run of them waits once (``RUNS``), or each of them
    waits for the one before, too (``RECOMPUTED``). XLA fuses more in the first way: it takes less time, and
    mostly less memory. ``VALUES``: a run waits once, by the largest value that it reads, and whatever reads
    that value later waits, too. Where all steps wait, XLA keeps nearer to the schedule's order; that may take
    less memory yet, fuses least, and compiles slower.

    Two are for a CPU alone. ``GATED``: as ``RUNS``, and products wait for gradients of weights (``Gate``); so
    they do in ``VALUES`` and ``RECOMPUTED``. ``HELD``: as ``GATED``, and what the schedule keeps is kept as
    it is (``held_results``). JAX's steps use ``NONE``, ``RUNS`` and ``ALL``.
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
    """What holds a step of JAX back: barriers, or selects. ``GATES``: barriers, and gates for XLA:CPU.
    ``MIXED``: selects where they copy little, else as ``GATES``.
    """

    BARRIERS = auto()
    GATES = auto()
    MIXED = auto()
    SELECTS = auto()


def ways_to_tie(graph: Graph) -> tuple[WaitPolicy, ...]:
    """Return the ways to try, in their order. For a convolution's gradient XLA transposes what was convolved,
    for a CPU. Where the value itself waits, the ops behind it do: a ResNet's schedule for 45 % took 10 MiB by
    ``GATED``, and 8 by ``VALUES``; its smallest took 8 by ``GATED``, and 7 by ``HELD``. Where nothing is
    convolved these take as much or more.
    """
    on_cpu = graph.device_kind == "cpu"
    found = [WaitPolicy.RUNS]
    if on_cpu:
        found.append(WaitPolicy.GATED)
    if any("Conv" in op.type for op in graph.ops):
        found += [WaitPolicy.VALUES, WaitPolicy.HELD] if on_cpu else [WaitPolicy.VALUES]
    return (*found, WaitPolicy.RECOMPUTED, WaitPolicy.ALL)


def ways_to_order(graph: Graph) -> tuple[WaitPolicy, ...]:
    """Return the ways that change what a step takes without recomputation."""
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
