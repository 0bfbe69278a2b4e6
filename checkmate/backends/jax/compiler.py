"""How XLA compiles the schedules of a JAX step. Nothing is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
from jax.extend.core import jaxpr_as_fun

from checkmate.backends.jax.compiled import StepMemory, memory_of, moved_bytes
from checkmate.backends.jax.device import Speed, speed_of
from checkmate.backends.jax.emission import tied_step
from checkmate.backends.jax.fusions import Fusion, fusions, kernels
from checkmate.backends.jax.graph import graph_of, product_seconds
from checkmate.backends.jax.program import Program, read_program
from checkmate.backends.jax.step import BegunStep, compiled_plain, first_compiled
from checkmate.backends.jax.ways import Way, holds_order, near, usual_ways, ways_on
from checkmate.backends.protocol import Compilation, Compiled, Compiler
from checkmate.backends.xla_policy.waits import WaitPolicy
from checkmate.errors import TraceError
from checkmate.ir import Graph, Schedule
from checkmate.memory.simulate import simulate
from checkmate.request import Target
from checkmate.runner import JAX

# XLA's bytes per byte of the graph on a GPU, at most, before anything was compiled: a ResNet's schedules took
# 1.00 to 1.04 on an H200. A plain step may hold what a scheduled one does not.
_MOST_RATE = 1.03
# The extra time, as a share, that a schedule probably takes on a CPU where all steps wait: 15 to 30 % for a
# Keras ViT and an MLP-Mixer; other networks took less time.
_HELD = 0.15


@dataclass(frozen=True, eq=False)
class Trial:
    """A schedule compiled to read its memory. ``executable``: None if it was compiled with quicker options
    than it will run with. ``moved``: the bytes that its kernels read and write, if known."""

    jitted: Any
    memory: StepMemory
    executable: Any
    moved: int | None
    way: Way


class JaxCompilation(Compilation[Way, Trial]):
    """A JAX step for one layout of its arguments, compiled by XLA. ``alone``: it will be a program of its
    own, which may have XLA options; else it may be a part of another jitted function."""

    def __init__(self, begun: BegunStep, name: str, *, alone: bool) -> None:
        self.begun, self._name, self.platform = begun, name, jax.default_backend()
        self.plain, self.plain_seconds = begun.plain, begun.seconds
        self.plain_bytes, self.fixed_bytes = self.plain.whole, self.plain.fixed
        self._groups, self._refused = ways_on(self.platform, alone=alone), 0

    @cached_property
    def program(self) -> Program:
        return read_program(self.begun.traced.jaxpr)

    @cached_property
    def speed(self) -> Speed:
        return speed_of(self.platform, jax.local_devices()[0].device_kind)

    @cached_property
    def fused(self) -> Sequence[Fusion]:
        """The equations as XLA will probably fuse them."""
        found = fusions(self.program) if self.platform == "cpu" else kernels(self.program, self.speed)
        if not found:
            raise TraceError("the step computes nothing", hint="return what the step computes")
        return found

    @cached_property
    def graph(self) -> Graph:
        fixed = {"arguments": self.plain.arguments, "results": self.plain.results - self.plain.shared}
        graph = graph_of(self.program, self.fused, name=self._name, speed=self.speed, fixed=fixed)
        origin = {
            "framework": JAX,
            "jax": jax.__version__,
            "jax_equations": len(self.program.equations),
            "target": Target.XLA.value,
            "notes": self.begun.traced.notes,
        }
        return replace(graph, metadata=origin)

    @cached_property
    def share_of(self) -> StepMemory:
        """The memory that a budget of 100 % means: the smaller of the plain step's, and of the step with the
        user's own recomputation."""
        traced = self.begun.traced
        if not traced.taken_out:
            return self.plain
        jitted = jax.jit(jaxpr_as_fun(traced.as_written), donate_argnums=traced.donated)
        as_written = memory_of(compiled_plain(traced, jitted, ({},)))
        return min(self.plain, as_written, key=lambda memory: memory.whole)

    @property
    def share_bytes(self) -> int:
        return self.share_of.whole

    @cached_property
    def compilers(self) -> Sequence[Compiler[Way, Trial]]:
        return [_JaxCompiler(self, ways) for ways in self._groups]

    def tried(self, jitted: Any, choices: Sequence[dict[str, Any]]) -> tuple[Any, dict[str, Any]]:
        """Compile with the first options that XLA accepts; later calls skip those that failed."""
        left = choices[self._refused :]
        found, failed = first_compiled(left, lambda each: self.executable(jitted, each))
        self._refused += failed
        return found, left[failed]

    def executable(self, jitted: Any, options: dict[str, Any]) -> Any:
        lowered = jitted.lower(*(self.program.avals[value] for value in self.program.arguments))
        return lowered.compile(options)


class _JaxCompiler(Compiler[Way, Trial]):
    def __init__(self, step: JaxCompilation, ways: tuple[Way, ...]) -> None:
        self._step, self._on_cpu, self.graph, self.ways = step, step.platform == "cpu", step.graph, ways
        self.usual, self.near = usual_ways(ways, step.platform), near(step.platform)
        # On a CPU all steps may wait for each other; then whole segments, with few waits, gain nothing.
        self.segments = not self._on_cpu
        held = simulate(self.graph, Schedule.plain(self.graph)).peak_bytes - self.graph.fixed_bytes
        plain_rate = max(1, step.plain.temporary) / max(1, held)
        self.rate = 1.0 if self._on_cpu else min(_MOST_RATE, plain_rate)

    def compile(self, schedule: Schedule, way: Way) -> tuple[Trial, int]:
        step = self._step
        run = tied_step(step.program, step.fused, schedule, way.emitted(step.platform))
        jitted = jax.jit(run, donate_argnums=step.begun.traced.donated)
        executable, options = step.tried(jitted, way.trial_options(step.platform))
        memory = memory_of(executable)
        moved = None if self._on_cpu else moved_bytes(executable.as_text())
        as_run = executable if options == way.options else None
        return Trial(jitted, memory, as_run, moved, way), memory.whole - step.plain.fixed

    def holds_order(self, way: Way) -> bool:
        return holds_order(way, self._step.platform)

    def price(self, schedule: Schedule, made: Trial) -> float | None:
        """Estimate the time of a compiled schedule; None if not known. On a GPU, from the bytes it moves and
        its products: on an H200, that ranked the policies of ``jax.checkpoint`` as measured times did."""
        if self._on_cpu:
            held = _HELD if made.way.ties is WaitPolicy.ALL else 0.0
            return (1 + held) * float(simulate(self.graph, schedule).cost)
        if made.moved is None:
            return None
        step = self._step
        seconds = [product_seconds(fusion, step.speed) for fusion in step.fused]
        products: float = sum(seconds[number] for number in schedule.steps.tolist())
        found: float = made.moved / step.speed.bytes + products
        return found

    def finished(self, each: Compiled[Way, Trial]) -> Compiled[Way, Trial]:
        if each.made.executable is not None:
            return each
        executable = self._step.executable(each.made.jitted, each.way.options)
        made = replace(each.made, executable=executable, memory=memory_of(executable))
        return replace(each, made=made, temporary=made.memory.whole - self._step.plain.fixed)
