"""Run the halves of a step on real tensors: meter them and time them, in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import fx

from checkmate.backends.outcomes import Outcome
from checkmate.backends.torch.emission import Halves
from checkmate.backends.torch.graph import Compiler
from checkmate.backends.torch.meter import metered, within_op
from checkmate.backends.torch.private import boxed

_RUNS, _MOST_RUNS = 3, 200
_ENOUGH_S = 2.0
_SEED = 0


@dataclass(frozen=True, eq=False)
class Task:
    """A step to run: its halves, and their inputs. ``tangents``: shape, dtype and device of each."""

    halves: Halves
    inputs: Sequence[Any]
    tangents: Sequence[tuple[tuple[int, ...], torch.dtype, torch.device]]
    device: str
    compiler: Compiler = "eager"

    def run(self, forward: Callable[[list[Any]], Any], backward: Callable[[list[Any]], Any]) -> list[Any]:
        """Return results and gradients. Results and tangents stay live during the backward pass, as in
        training."""
        torch.manual_seed(_SEED)
        given = forward(list(self.inputs))
        results, saved = list(given[: self.halves.results]), list(given[self.halves.results :])
        del given
        tangents = [torch.ones(shape, dtype=kind, device=where) for shape, kind, where in self.tangents]
        saved += tangents
        return results + list(backward(saved))

    @cached_property
    def step(self) -> Callable[[], list[Any]]:
        halves = self.halves
        if self.compiler == "eager":
            forward, backward = boxed(halves.forward), boxed(halves.backward)
        else:
            forward, backward = _compiled(halves.forward, halves.results), _compiled(halves.backward, None)
        return lambda: self.run(forward, backward)


def _compiled(half: fx.GraphModule, results: int | None) -> Callable[[list[Any]], Any]:
    """Return a function that compiles the half in its first call, when the layout of its inputs is known."""
    from checkmate.backends.torch.inductor import by_inductor, keep_strides

    if results is not None:
        keep_strides(half, results)
    run: Callable[[list[Any]], Any] | None = None

    def call(args: list[Any]) -> Any:
        nonlocal run
        run = run or by_inductor(half, args, backward=results is None)
        return run(args)

    return call


def peak_of(task: Task) -> tuple[int, Outcome]:
    """Run a step; return its peak above its inputs, and its results."""
    with torch.no_grad():
        outcome = _outcome(task, task.step())
        _, peaks = metered(task.device, lambda: len(task.step()))
    return peaks.whole, outcome


def outcome_of(task: Task) -> Outcome:
    with torch.no_grad():
        return _outcome(task, task.step())


def seconds_of(tasks: Sequence[Task]) -> list[float]:
    """Return the least seconds of each step: what else the machine does only adds time. They run in turn."""
    taken = list[list[float]]()
    with torch.no_grad():
        started = time.perf_counter()
        while len(taken) < _RUNS or (len(taken) < _MOST_RUNS and time.perf_counter() - started < _ENOUGH_S):
            taken.append([_seconds(task.device, task.step) for task in tasks])
    return [min(each) for each in zip(*taken, strict=True)]


def _seconds(device: str, work: Callable[[], Any]) -> float:
    _wait(device)
    started = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _outcome(task: Task, found: Sequence[Any]) -> Outcome:
    count = task.halves.results
    kinds = [f"result {n}" if n < count else f"gradient {n - count}" for n in range(len(found))]
    held = [
        (kind, each.detach())
        for kind, each in zip(kinds, found, strict=True)
        if isinstance(each, torch.Tensor)
    ]
    numbers = (each for _, each in held[:count] if not each.ndim and each.is_floating_point())
    loss = next((float(each) for each in numbers), None)
    return Outcome(loss, [kind for kind, _ in held], [_widened(each).cpu().numpy() for _, each in held])


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype is torch.bfloat16 else tensor  # numpy has no bfloat16


def op_readings(task: Task) -> tuple[Mapping[int, float], Mapping[int, int]]:
    """Return the least seconds of each op, and the most bytes that it and its outputs held while it ran."""
    seconds: dict[int, list[float]] = {}
    with torch.no_grad():
        for _ in range(_RUNS):
            _interpreted(task, lambda op: _Timed(task.device, seconds.setdefault(op, [])))
        _, peaks = metered(task.device, lambda: _interpreted(task, within_op))
    of_op = peaks.of_op or _on_gpu(task)
    return {op: min(each) for op, each in seconds.items()}, of_op


def _interpreted(task: Task, around: Callable[[int], Any]) -> None:
    halves = task.halves
    forward = _Interpreter(halves.forward, halves.forward_ops, around)
    backward = _Interpreter(halves.backward, halves.backward_ops, around)
    task.run(forward.boxed_run, backward.boxed_run)


class _Interpreter(fx.Interpreter):  # type: ignore[misc]  # PyTorch's types are not read
    def __init__(self, module: fx.GraphModule, ops: Sequence[int], around: Callable[[int], Any]) -> None:
        super().__init__(module)
        calls = [node for node in module.graph.nodes if node.op == "call_function"]
        self._op = dict(zip(calls, ops, strict=True))
        self._around = around

    def run_node(self, n: fx.Node) -> Any:
        op = self._op.get(n, -1)
        if op < 0:
            return super().run_node(n)
        with self._around(op):
            return super().run_node(n)


class _Timed:
    def __init__(self, device: str, readings: list[float]) -> None:
        self._device, self._readings = device, readings

    def __enter__(self) -> None:
        _wait(self._device)
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        _wait(self._device)
        self._readings.append(time.perf_counter() - self._started)


def _on_gpu(task: Task) -> dict[int, int]:
    peaks: dict[int, int] = {}

    class Held:
        def __init__(self, op: int) -> None:
            self._op = op

        def __enter__(self) -> None:
            torch.cuda.reset_peak_memory_stats()
            self._before = torch.cuda.memory_allocated()

        def __exit__(self, *_: object) -> None:
            peaks[self._op] = torch.cuda.max_memory_allocated() - self._before

    if task.device == "cuda":
        _interpreted(task, Held)
    return peaks
