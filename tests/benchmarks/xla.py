"""Measure schedules under XLA beside XLA alone and its peers.

``python -m tests.benchmarks xla [-o FILE.json] [--rounds 5] [NETWORK …]``

For each network the plain step is compiled, then a schedule for 75, 60, 45 and 30 % of its temporaries, then
the same step under the peers' methods. Bytes are read from the compiled steps. Then all of them run in turn,
and the processor seconds of each are compared with those of the plain step of the same round. So are all
variables after a first step: weights, momenta, statistics.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from checkmate.backends.protocol import CompiledFit
from checkmate.backends.tf.live.trace import KerasStep, step_of_fit
from checkmate.backends.tf.models.batch import flatten
from checkmate.backends.tf.models.load import load_model
from checkmate.backends.tf.restoring import restored
from checkmate.backends.tf.trace.coarsen import fused, loose
from checkmate.backends.tf.xla.compiled import StepCompilation, XlaMemory, compile_step
from checkmate.backends.tf.xla.compiler import XlaCompilation
from checkmate.backends.tf.xla.op_costs import costs_for_xla
from checkmate.backends.tf.xla.tied import tied_step
from checkmate.backends.xla_policy.waits import WaitPolicy
from checkmate.errors import CheckmateError
from checkmate.ir import Graph, Schedule
from checkmate.planning.compiling import CompiledSearch
from checkmate.planning.schedule_solver import ScheduleSolver
from checkmate.request import ModelRequest
from checkmate.solvers.problem import SolveOptions
from tests.benchmarks.measured_on import this_machine
from tests.benchmarks.peer_methods import build, find_method, recomputable_layers

NETWORKS = {"dense": 4096, "transformer": 32, "gpt": 16, "vit": 32, "text": 32, "mixer": 32, "resnet": 16}
SHARES = (0.75, 0.60, 0.45, 0.30)
PEERS = ("recompute-blocks", "recompute-sqrt-layers", "scope-full", "scope-layers")
FILE = Path(__file__).with_name("xla_networks.py")
_SOLVER_S = 5.0
Fit = CompiledFit[WaitPolicy, XlaMemory]


@dataclass(eq=False)
class Way:
    """Hold one way to run a step: what was read of it, and what is measured."""

    facts: dict[str, Any]
    body: Callable[..., Any]
    variables: Sequence[Any]
    seconds: list[float] = field(default_factory=list)
    loss: float = 0.0
    state: list[np.ndarray] = field(default_factory=list)
    function: Any = None

    def first_step(self, start: Sequence[np.ndarray], tensors: Sequence[tf.Tensor]) -> None:
        """Compile, run one step from ``start``, and note what it leaves."""
        self.function = tf.function(self.body, autograph=False, jit_compile=True)
        for variable, value in zip(self.variables, start, strict=True):
            variable.assign(value)
        self.loss = float(self.function(*tensors))
        self.state = [np.asarray(variable, np.float64) for variable in self.variables]

    def timed_step(self, tensors: Sequence[tf.Tensor]) -> None:
        """Run one step and note its processor seconds."""
        started = time.process_time()
        self.function(*tensors).numpy()
        self.seconds.append(time.process_time() - started)


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Return what was measured of the network ``name``."""
    keras.utils.set_random_seed(1)
    request = ModelRequest(f"{FILE}:{name}", NETWORKS[name], allow_code=True, batch_chosen=True)
    loaded = load_model(request)
    tensors = [_random(spec, label=False) for spec in loaded.input_specs]
    tensors += [_random(spec, label=True) for spec in loaded.label_specs]
    layout, _ = flatten((tensors[0], tensors[1]))
    step = step_of_fit(loaded.model, layout)
    folded = fused(step.folded)
    step = step.with_folded(dataclasses.replace(folded, graph=costs_for_xla(folded)))
    variables = [*loaded.model.variables, *loaded.model.optimizer.variables]
    start = [np.array(variable) for variable in variables]
    plain = compile_step(step.plain(), layout.specs)
    ways = [Way({"way": "plain", **_facts(plain)}, lambda *given: step.plain()(*given)[0], variables)]
    again = compile_step(_scheduled(step, Schedule.plain(step.graph), WaitPolicy.NONE), layout.specs)
    print(name, "plain", ways[0].facts, "emitted", again.memory.temp_bytes, flush=True)
    for share in SHARES:
        fit = _fit(step, share)
        facts = {"way": f"{100 * share:.0f} %", **_fit_facts(fit)}
        print(name, facts, flush=True)
        if fit.chosen is not None:
            ways.append(Way(facts, _scheduled(step, fit.chosen.schedule, fit.chosen.way), variables))
    refused: list[dict[str, str]] = []
    for peer in PEERS:
        try:
            ways.append(_peer(request, peer, loaded, layout.specs))
            print(name, ways[-1].facts, flush=True)
        except (CheckmateError, ValueError, TypeError, AttributeError, tf.errors.OpError) as error:
            refused.append({"way": find_method(peer).label, "why": str(error).splitlines()[0][:200]})
    _run(ways, start, tensors, rounds)
    return {
        "network": name,
        "batch": NETWORKS[name],
        "ops": step.graph.n,
        "emitted_temp_bytes": again.memory.temp_bytes,
        "ways": [_measured(way, ways[0]) for way in ways],
        "refused": refused,
    }


def _run(ways: Sequence[Way], start: Sequence[np.ndarray], tensors: Sequence[tf.Tensor], rounds: int) -> None:
    """Run all ways in turn: a first step each, then ``rounds`` that are timed."""
    for way in ways:
        with restored([_own(variable) for variable in way.variables]):
            way.first_step(start, tensors)
    for _ in range(rounds):
        for way in ways:
            way.timed_step(tensors)


def _own(variable: Any) -> Any:
    return variable.value if isinstance(variable, keras.Variable) else variable


def _measured(way: Way, plain: Way) -> dict[str, Any]:
    ratios = [one / other for one, other in zip(way.seconds, plain.seconds, strict=True)]
    moved = [np.linalg.norm(value) for value in plain.state]
    errors = [
        float(np.linalg.norm(found - wanted) / max(norm, 1e-4 * max(moved)))
        for found, wanted, norm in zip(way.state, plain.state, moved, strict=True)
        if wanted.ndim
    ]
    return {
        **way.facts,
        "cpu_ratio": statistics.median(ratios),
        "loss_difference": abs(way.loss - plain.loss),
        "state_error": max(errors),
        "bitwise": all(
            np.array_equal(found, wanted) for found, wanted in zip(way.state, plain.state, strict=True)
        ),
    }


def _facts(found: StepCompilation) -> dict[str, Any]:
    return {
        "temp_bytes": found.memory.temp_bytes,
        "argument_bytes": found.memory.argument_bytes,
        "compile_seconds": round(found.seconds, 1),
    }


def _fit_facts(fit: Fit) -> dict[str, Any]:
    return {
        "temp_bytes": fit.whole_bytes - fit.fixed_bytes,
        "room_bytes": fit.budget_bytes - fit.fixed_bytes,
        "fits": fit.fits,
        "attempts": fit.compilations - 1,
        "compile_seconds": round(fit.compile_seconds, 1),
        "recomputations": fit.recomputations,
        "predicted_overhead": fit.overhead,
    }


class CompiledStep(XlaCompilation):
    def __init__(self, step: KerasStep) -> None:
        self._step = step
        super().__init__()

    @property
    def graph(self) -> Graph:
        return self._step.graph

    @cached_property
    def loose(self) -> Graph | None:
        return loose(self._step.folded, self.graph)

    def compiled(self, schedule: Schedule | None, tied: WaitPolicy = WaitPolicy.RUNS) -> StepCompilation:
        return compile_step(_scheduled(self._step, schedule, tied), self._step.layout.specs)


def _fit(step: KerasStep, share: float) -> Fit:
    solver, compiled = (
        ScheduleSolver("auto", SolveOptions(time_limit_s=_SOLVER_S), counted=True),
        CompiledStep(step),
    )
    temporary = compiled.plain_bytes - compiled.fixed_bytes
    return CompiledSearch(compiled, solver).fit(compiled.fixed_bytes + int(share * temporary))


def _scheduled(step: KerasStep, schedule: Schedule | None, tied: WaitPolicy) -> Callable[..., Any]:
    if schedule is None:
        return step.plain()
    emitted = tied_step(step.folded, schedule, tied=tied)
    return lambda *tensors: emitted(*tensors).loss


def _peer(request: ModelRequest, peer: str, loaded: Any, specs: Sequence[tf.TensorSpec]) -> Way:
    method = find_method(peer)
    keras.backend.clear_session()  # so that layers have the names by which a method chooses them
    keras.utils.set_random_seed(1)
    built = build(request, method, recomputable_layers(loaded.model))
    found = compile_step(lambda *given: built.function(*given), specs)
    facts = {"way": method.label, **_facts(found), "note": built.note}
    return Way(facts, lambda *given: tf.nest.flatten(built.function(*given))[0], built.variables)


def _random(spec: tf.TensorSpec, *, label: bool) -> tf.Tensor:
    random = np.random.default_rng(0)
    if spec.dtype.is_floating and not label:
        return tf.constant(random.normal(size=spec.shape), spec.dtype)
    return tf.constant(random.integers(0, 10, spec.shape), spec.dtype)


def main() -> None:
    """Measure the networks that are named; all by default."""
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    machine = this_machine()
    libraries = {"tensorflow": tf.__version__, "keras": keras.__version__}
    rows: list[dict[str, Any]] = []
    for name in chosen.networks or NETWORKS:
        rows.append(measure(name, chosen.rounds))
        keras.backend.clear_session()
        found = {"machine": {**machine, **libraries}, "rounds": chosen.rounds, "networks": rows}
        if chosen.output is not None:
            chosen.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
