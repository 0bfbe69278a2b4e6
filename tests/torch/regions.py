"""Regions of small modules, as ``torch.compile`` traces them, and schedules of theirs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

import checkmate
from checkmate.backends.torch.graph import Region, region_of
from checkmate.backends.torch.joint import Joint
from checkmate.backends.torch.private import (
    aot_autograd,
    boxed,
    default_partition,
    overwritten_inputs,
    unset_fake_temporarily,
)
from checkmate.ir import CostOrigin, CostUnit, Graph, Schedule
from checkmate.memory.simulate import simulate
from checkmate.planning.solving import known_minimum


@dataclass(frozen=True, eq=False)
class Traced:
    """A joint graph, and what it is called with."""

    joint: Joint
    inputs: tuple[Any, ...]

    def region(self) -> Region:
        return region_of(self.joint)


def traced(module: nn.Module, *inputs: Any) -> Traced:
    """Return the one region of a training step of ``module``."""
    found: list[Traced] = []

    def compiler(graph: fx.GraphModule, given: Sequence[Any]) -> Callable[..., Any]:
        def partition(joint: fx.GraphModule, of_joint: Any, *, num_fwd_outputs: int, **more: Any) -> Any:
            with unset_fake_temporarily():
                copies = tuple(each.detach().clone() if isinstance(each, Tensor) else each for each in given)
            found.append(Traced(Joint(joint, num_fwd_outputs, overwritten_inputs(joint)), copies))
            return default_partition(joint, of_joint, num_fwd_outputs=num_fwd_outputs, **more)

        def run(half: fx.GraphModule, _: Any) -> Any:
            return boxed(half)

        return aot_autograd(fw_compiler=run, bw_compiler=run, partition_fn=partition)(graph, given)

    torch._dynamo.reset()
    torch.compile(module, backend=compiler, dynamic=False)(*inputs)
    torch._dynamo.reset()
    (only,) = found
    return only


def solved(graph: Graph, seeds: int) -> Iterator[Schedule]:
    """Schedules within random budgets, at random costs."""
    options = checkmate.SolveOptions(time_limit_s=0.2)
    plain = simulate(graph, Schedule.plain(graph)).peak_bytes
    least = known_minimum(graph, options=options).bytes
    for seed in range(seeds):
        drawn = np.random.default_rng(seed)
        costs = graph.with_costs(drawn.random(graph.n), CostUnit.UNIT, CostOrigin.GIVEN)
        found = checkmate.solve(
            costs,
            int(drawn.uniform(least, plain)),
            options=options,
            quiet=True,
        )
        if found.schedule is not None:
            yield Schedule.of(graph, found.schedule.steps)


def wild(graph: Graph, seeds: int) -> Iterator[Schedule]:
    """Valid schedules that no solver would return: ops in any order, and values dropped at random."""
    for seed in range(seeds):
        yield Schedule.of(graph, _Wild(graph, random.Random(seed)).steps())


class _Wild:
    def __init__(self, graph: Graph, drawn: random.Random) -> None:
        self._graph, self._random = graph, drawn
        self._maker = {value: index for index, op in enumerate(graph.ops) for value in op.outputs}
        self._here: set[int] = set()
        self._steps: list[int] = []

    def steps(self) -> list[int]:
        todo = set(range(self._graph.n))
        while todo:
            ready = [op for op in sorted(todo) if not todo & set(self._graph.predecessors[op].tolist())]
            op = self._random.choice(ready[:4])
            self._run(op)
            todo.discard(op)
            self._drop()
        for value, each in enumerate(self._graph.values):
            if each.keep:
                self._require(value)
        return self._steps

    def _run(self, op: int) -> None:
        wanted = self._graph.ops[op].inputs
        while missing := [value for value in wanted if value not in self._here]:
            self._require(missing[0])
        self._steps.append(op)
        self._here.update(self._graph.ops[op].outputs)

    def _require(self, value: int) -> None:
        if value not in self._here:
            self._run(self._maker[value])

    def _drop(self) -> None:
        for value in sorted(self._here):
            if self._graph.ops[self._maker[value]].recomputable and self._random.random() < 0.15:
                self._here.discard(value)
