"""Make small graphs of every kind that a certificate has rows for."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from checkmate.ir import Graph, GraphBuilder, Phase
from tests.generated_graphs import random_layered
from tests.graphs_strategies import random_graph, training_chain


class _Step:
    """Write a network's forward ops, then backward ops that read what theirs read and made, and gradients."""

    def __init__(self, name: str, dice: Random, *, whole: bool = True) -> None:
        self.builder, self.dice, self.whole = GraphBuilder(name), dice, whole
        self.forward: list[tuple[list[int], int]] = []

    def cost(self) -> float:
        """Return a whole cost, or one that no float holds exactly."""
        return float(self.dice.randint(1, 3)) if self.whole else self.dice.randint(1, 30) / 10

    def add(self, *reads: int, size: int = 0, once: bool = False, keep: bool = False) -> int:
        number = len(self.forward)
        output = self.builder.value(f"a{number}", size or self.dice.randint(2, 6), keep=keep)
        self.builder.op(f"f{number}", list(reads), [output], cost=self.cost(), recomputable=not once)
        self.forward.append((list(reads), output))
        return output

    def build(self, *, kept_gradients: int = 1, shared: bool = False) -> Graph:
        """``shared``: a gradient takes over the buffer of the one that it reads."""
        gradients: dict[int, list[int]] = {}
        for number in reversed(range(len(self.forward))):
            reads, output = self.forward[number]
            incoming = gradients.get(output, [])
            made = []
            for place, _ in enumerate(reads or [output]):
                size = self.dice.randint(2, 6)
                made.append(self.builder.value(f"g{number}.{place}", size, keep=number < kept_gradients))
                gradients.setdefault(reads[place] if reads else -1, []).append(made[-1])
            pairs = tuple((new, old) for new, old in zip(made, incoming, strict=False)) if shared else ()
            self.builder.op(
                f"b{number}", [*reads, output, *incoming], made, cost=self.cost(), phase=Phase.BACKWARD,
                takes_over=pairs,
            )  # fmt: skip
        return self.builder.build(fixed_bytes=self.dice.choice([0, 3]))


def layered(seed: int) -> Graph:
    return random_layered(seed, 9 + seed % 4)


def skips(seed: int) -> Graph:
    step = _Step("skips", Random(seed), whole=seed % 2 == 0)
    down = [step.add()]
    for _ in range(2):
        down.append(step.add(down[-1]))
    up = down[-1]
    for skip in reversed(down[:-1]):
        up = step.add(up, skip)
    return step.build()


def shared_buffers(seed: int) -> Graph:
    return random_graph(Random(1000 + seed), least_ops=6, most_ops=8)


def once(seed: int) -> Graph:
    step = _Step("once", Random(seed), whole=seed % 2 == 1)
    made = [step.add()]
    for i in range(5):
        made.append(step.add(made[-1], once=i % 2 == seed % 2))
    return step.build()


def kept(seed: int) -> Graph:
    step = _Step("kept", Random(seed), whole=seed % 2 == 0)
    made = [step.add()]
    for i in range(5):
        made.append(step.add(made[-1], size=1 + i % 2, keep=i == 1))
    return step.build(kept_gradients=3)


def in_place(seed: int) -> Graph:
    step = _Step("in place", Random(seed))
    made = [step.add(size=4)]
    for _ in range(5):
        made.append(step.add(made[-1], size=4))
    return step.build(shared=True)


def blocks(seed: int) -> Graph:
    step = _Step("blocks", Random(seed), whole=seed % 2 == 0)
    at = step.add(size=3)
    for _ in range(2):
        inner = step.add(at, size=5)
        at = step.add(inner, at, size=3)
    return step.build()


def chain(seed: int) -> Graph:
    return training_chain(5 + seed % 4)


KINDS: dict[str, Callable[[int], Graph]] = {
    "random layered graphs": layered,
    "skips across, down and up": skips,
    "several outputs and views": shared_buffers,
    "buffers taken over": in_place,
    "ops that run once": once,
    "values that are kept": kept,
    "repeated blocks": blocks,
    "chains": chain,
}
"""Each is also certified at budgets that nothing fits."""
