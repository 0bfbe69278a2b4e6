"""Compile peer methods with XLA in this process.

It has to be a fresh one. Their memory is what XLA assigned, so no step is run for it. Time, gradients and
state are those of compiled steps: of the methods, and of schedules emitted for XLA.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from checkmate.backends.tf.costs.session import choose_device, flat_batch, prepare
from checkmate.backends.tf.measure.step import compiled_step
from checkmate.backends.tf.peers.build import BuiltStep, build, recomputable_layers
from checkmate.backends.tf.peers.measure import (
    Answer,
    comparison,
    outcome,
    result_or_sentence,
    timed_in_turns,
)
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla.compiled import compile_step
from checkmate.backends.tf.xla.emission import emission_of
from checkmate.catalog.peers import PLAIN, ROUNDING_16, ROUNDING_16_OF_ONE, find_method
from checkmate.errors import NotApplicableError, NotCompiledError
from checkmate.models.keras_graph import walk_layers
from checkmate.progress import never, silent
from checkmate.request import ModelRequest


def compile_peer(task: Mapping[str, Any]) -> Answer:
    """Compile the step of one method with XLA; run nothing.

    ``task``: ``request``, ``method`` (a name), ``layers`` (for ``list_of_layers``). Returns ``peak_bytes``
    (all that XLA assigned), ``assigned`` (``argument_bytes``, ``output_bytes``, ``temp_bytes``,
    ``compile_seconds``), ``note``, and for the plain step ``layers``; or ``failed`` or ``not_applicable``: a
    sentence.
    """
    request = ModelRequest.from_json(task["request"])
    choose_device(request, here=True)

    try:
        built = result_or_sentence(
            partial(build, request, find_method(task["method"]), task.get("layers") or ())
        )
        if isinstance(built, str):
            return {"failed": built}
        made = compile_step(_body(built), _specs(built))
    except NotApplicableError as error:
        return {"not_applicable": str(error)}
    except NotCompiledError as error:
        return {"failed": str(error)}
    layers = recomputable_layers(built.loaded.model) if task["method"] == PLAIN.name else []
    return {
        "peak_bytes": made.memory.peak_bytes,
        "assigned": {**made.memory.facts(), "compile_seconds": made.seconds},
        "note": built.note,
        "layers": layers,
    }


def time_compiled_peers(task: Mapping[str, Any]) -> Answer:
    """Time methods and schedules in turns, all compiled by XLA.

    As ``time_peers``, but each of ``schedules`` has ``steps`` and ``xla`` (an ``XlaEmission``). On a CPU the
    seconds are the processor's, on which other programs have little influence; ``clock`` says so, or "wall".
    """
    on_cpu = choose_device(ModelRequest.from_json(task["request"]), here=True).kind == "cpu"
    clock = time.process_time if on_cpu else time.perf_counter
    found = timed_in_turns(task, lambda built: _compiled(built).function, _scheduled, clock=clock)
    return {**found, "clock": "processor" if on_cpu else "wall"}


def compare_compiled_peers(task: Mapping[str, Any]) -> Answer:
    """Compare one step of methods and schedules with the plain one.

    XLA compiles all of them, and all start from the same weights, state and batch. ``task``: ``request``,
    ``methods``, ``layers``, ``schedules`` (as for ``time_compiled_peers``). Returns ``methods``: by name what
    ``comparison`` returns, or ``failed``; ``schedules``: a list of the same. Where layers compute in 16 bits
    each has its ``tolerance``, too: relative errors of ``all`` gradients together and of ``each``.
    """
    request = ModelRequest.from_json(task["request"])
    choose_device(request, here=True)
    plain = _compiled(build(request, PLAIN, with_gradients=True))
    batch = flat_batch(plain.loaded)
    start = [variable.numpy() for variable in plain.variables]
    expected = outcome(plain, start, batch)
    compare = partial(comparison, expected)
    tolerance: Answer = {}
    if _has_16_bits(plain.loaded.model):
        compare = partial(compare, same_update=ROUNDING_16)
        tolerance = {"tolerance": {"all": ROUNDING_16, "each": ROUNDING_16_OF_ONE}}

    def compared(found: Answer | str) -> Answer:
        return {"failed": found} if isinstance(found, str) else {**compare(found), **tolerance}

    methods: Answer = {}
    for name in task["methods"]:
        keras.utils.clear_session()  # layers get the names that they have in a fresh process
        run = partial(_outcome_of_method, request, name, task.get("layers") or (), start, batch)
        methods[name] = compared(result_or_sentence(run))
    keras.utils.clear_session()
    folded = prepare(request, here=True, report=silent, cancelled=never)
    runs = [partial(_outcome_of_schedule, folded, each, start, batch) for each in task["schedules"]]
    return {"methods": methods, "schedules": [compared(result_or_sentence(run)) for run in runs]}


def _has_16_bits(model: Any) -> bool:
    return any(tf.as_dtype(layer.compute_dtype) in _SHORT for layer in walk_layers(model))


_SHORT = (tf.float16, tf.bfloat16)


def _outcome_of_method(
    request: ModelRequest,
    name: str,
    layers: Sequence[str],
    start: Sequence[np.ndarray],
    batch: Sequence[tf.Tensor],
) -> Answer:
    built = build(request, find_method(name), layers, with_gradients=True)
    return outcome(_compiled(built), start, batch)


def _outcome_of_schedule(
    folded: FoldedStep, schedule: Mapping[str, Any], start: Sequence[np.ndarray], batch: Sequence[tf.Tensor]
) -> Answer:
    function = _scheduled(folded, schedule, with_gradients=True)
    return outcome(BuiltStep(folded.traced.loaded, function, ""), start, batch)


def _scheduled(folded: FoldedStep, schedule: Mapping[str, Any], *, with_gradients: bool = False) -> Any:
    return compiled_step(folded, schedule["steps"], with_gradients=with_gradients, xla=emission_of(schedule))


def _compiled(built: BuiltStep) -> BuiltStep:
    function = tf.function(_body(built), autograph=False, jit_compile=True)
    return BuiltStep(built.loaded, function.get_concrete_function(*_specs(built)), built.note)


def _body(built: BuiltStep) -> Any:
    return lambda *tensors: built.function(*tensors)


def _specs(built: BuiltStep) -> list[tf.TensorSpec]:
    return [*built.loaded.input_specs, *built.loaded.label_specs]
