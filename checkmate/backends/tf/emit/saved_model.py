"""Write the scheduled step as a SavedModel that needs TensorFlow alone, and measure it after reloading."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.emit.beside import (
    any_batch,
    by_output,
    in_order,
    inference,
    named_variables,
    plain_step,
    smaller_batches,
    tables_of,
    with_casts,
)
from checkmate.backends.tf.emit.copies import EmittedOutputs
from checkmate.backends.tf.emit.ordered import ordered_step
from checkmate.backends.tf.emit.set_aside import SmallChunks
from checkmate.backends.tf.environment import only_device
from checkmate.backends.tf.memory_check import first_region
from checkmate.backends.tf.tasks import error_without_answer, run_process
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.catalog.bundled import resource
from checkmate.errors import ExportError, JitCompiledError
from checkmate.ir import Schedule
from checkmate.progress import Cancelled, Report
from checkmate.request import Target


def require_no_xla(folded: FoldedStep) -> None:
    loaded = folded.traced.loaded
    if loaded.jit_compiled:
        raise JitCompiledError(
            f"{loaded.name!r} is for XLA (jit_compile=True), and this runs a step on TensorFlow's executor",
            hint='add target="executor", or use verify, run or export, which have XLA compile the step',
        )


def save_step(
    folded: FoldedStep, schedule: Schedule, directory: Path, *, alone: bool = False
) -> tuple[str, ...]:
    """Write a SavedModel whose ``train_step(*inputs, *labels)`` runs ``schedule`` and updates the variables
    inside.

    It returns a dictionary: ``loss`` and the model's outputs by name. A step that is not Keras's own takes
    its tensors in their order there, and returns what it returns, by name, with a ``loss`` if any of that is
    a number. Returns sentences on what is left out.
    """
    require_no_xla(folded)
    small_chunks = SmallChunks(folded.structure, region=first_region(folded.graph, schedule))
    body = with_names(folded, ordered_step(folded, schedule))
    return save_function(folded, body, directory, small_chunks=small_chunks, alone=alone)


def with_names(
    folded: FoldedStep, step: Callable[..., EmittedOutputs]
) -> Callable[..., dict[str, tf.Tensor]]:
    own = folded.traced.unplanned

    def train_step(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = step(*tensors)
        if own is None:
            return {"loss": outputs.loss, **by_output(folded.traced.loaded.model, outputs.predictions)}
        loss = {} if own.loss is None else {"loss": outputs.loss}
        return {**loss, **dict(zip(own.names, outputs.predictions, strict=True))}

    return train_step


def save_function(
    folded: FoldedStep,
    body: Callable[..., dict[str, tf.Tensor]],
    directory: Path,
    *,
    small_chunks: SmallChunks | None = None,
    compiled: bool = False,
    alone: bool = False,
) -> tuple[str, ...]:
    """Write ``body`` as the ``train_step`` of a SavedModel; an ExportError: TensorFlow could not.

    ``small_chunks`` are made when it is loaded. ``compiled``: XLA compiles it where it is first called.
    ``alone``: to be measured, without all that is not needed for it. Returns sentences on what is left out.
    """
    left_out: tuple[str, ...] = ()
    specs, named = argument_specs(folded), named_variables(folded.traced.loaded)

    def step(*tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        # If it is called inside a function with an open batch, other batch sizes must be refused.
        return body(*(tf.ensure_shape(each, spec.shape) for each, spec in zip(tensors, specs, strict=True)))

    function = tf.function(step, input_signature=specs, autograph=False, jit_compile=compiled or None)
    concrete = function.get_concrete_function()
    module = tf.Module()
    module.train_step, signatures = function, {"train_step": concrete}
    module.state = in_order(folded.traced.variables, named)
    if small_chunks is not None:
        module.small_chunks = small_chunks
    if not alone:
        module.train_step = _of_any_batch(folded, concrete, compiled=compiled)
        entries, left_out = inference(folded.traced.loaded, specs)
        for name, entry in entries.items():
            setattr(module, name, entry)
            signatures[name] = entry.get_concrete_function()
        for name, variables in named.items():
            setattr(module, name, variables)
        # A test_step may read what the step does not.
        module.read = [variable for entry in signatures.values() for variable in entry.variables]
    module.tables = tables_of(signatures.values())
    # A step has its gradients inside, and that of ``tf.recompute_grad`` cannot be saved.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    try:
        tf.saved_model.save(module, str(directory), signatures=signatures, options=options)
    except (ValueError, AssertionError, TypeError, tf.errors.OpError) as error:
        raise ExportError(
            f"TensorFlow could not write the training step: {str(error).splitlines()[0][:300]}",
            hint="let variables, or tables of tf.lookup or of Keras's layers, hold what the step reads",
        ) from error
    return left_out


def _of_any_batch(folded: FoldedStep, scheduled: Any, *, compiled: bool) -> Any:
    """Return a function that is saved as ``scheduled``, with a plain step beside it for fewer examples."""
    specs, size = argument_specs(folded), folded.traced.loaded.batch_size
    plain = with_names(folded, plain_step(folded))
    functions = with_casts(scheduled, specs)
    smaller = smaller_batches(plain, specs, size, compiled=compiled)
    if smaller is not None:
        functions += with_casts(smaller, any_batch(specs, size))
    return private.saved_as(plain, functions)


def argument_specs(folded: FoldedStep) -> list[tf.TensorSpec]:
    """Specs named ``input_0`` …, ``label_0`` …, or by a step's own names."""
    loaded = folded.traced.loaded
    if loaded.own is not None:
        named = zip(loaded.own.names, loaded.input_specs, strict=True)
        return [tf.TensorSpec(spec.shape, spec.dtype, name=name) for name, spec in named]
    inputs = [tf.TensorSpec(s.shape, s.dtype, name=f"input_{i}") for i, s in enumerate(loaded.input_specs)]
    labels = [tf.TensorSpec(s.shape, s.dtype, name=f"label_{i}") for i, s in enumerate(loaded.label_specs)]
    return inputs + labels


def measure_reloaded(
    saved_model: Path,
    batch: Sequence[tf.Tensor],
    *,
    device: str | None = None,
    report: Report,
    cancelled: Cancelled,
) -> dict[str, Any]:
    """Return what ``reload_probe`` found of the saved step; a StepTooLargeError: memory ran out."""
    probe = Path(__file__).with_name("reload_probe.py")
    with tempfile.TemporaryDirectory(prefix="checkmate-reload-") as folder:
        batch_file, answer_file = Path(folder, "batch.npz"), Path(folder, "answer.json")
        np.savez(batch_file, **{f"{i:03d}": _array(tensor) for i, tensor in enumerate(batch)})
        command = [sys.executable, str(probe), str(saved_model), str(batch_file), str(answer_file)]
        output, code = run_process(
            command,
            message="measuring the reloaded step",
            report=report,
            cancelled=cancelled,
            environment=only_device(device, os.environ),
            stage="reload",
        )
        if not answer_file.exists():
            raise error_without_answer("the reloaded step", output, code)
        answer: dict[str, Any] = json.loads(answer_file.read_text(encoding="utf-8"))
    return answer


def write_example(folded: FoldedStep, batch: Sequence[tf.Tensor], directory: Path) -> None:
    """Write a script that trains with the exported step, on random data in the ranges of ``batch``; beside it
    those tensors of ``batch`` that no random numbers can stand for.
    """
    own, sizes_seen = folded.traced.loaded.own, folded.traced.sizes_seen
    rows: list[tuple[Any, ...]] = []
    kept: dict[str, Any] = {}
    for number, (spec, tensor) in enumerate(zip(argument_specs(folded), batch, strict=True)):
        # Sizes that depend on the data were those of the batch; other data may need more memory.
        if sizes_seen or (own is not None and not own.layout.random[number]):
            kept[spec.name] = _array(tensor)
            rows.append((spec.name, None, spec.dtype.name, 0, 0))
            continue
        values = tensor.numpy().astype(np.float64)
        low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
        rows.append((spec.name, tuple(spec.shape.as_list()), spec.dtype.name, low, high))
    if kept:
        np.savez(directory / "example.npz", **kept)
    listed = "\n".join(f"    {row!r}," for row in rows)
    origin = folded.graph.origin
    kernels = None if origin.target == Target.XLA else origin.kernels or None  # XLA has its own
    measured_with = {"kernels": kernels, "tensorflow": origin.tensorflow or None}
    template = Template(resource("export", "train_example.py.in").read_text(encoding="utf-8"))
    script = template.substitute(arguments=f"[\n{listed}\n]", measured_with=repr(measured_with))
    (directory / "train_example.py").write_text(script, encoding="utf-8")


def _array(tensor: tf.Tensor) -> Any:
    """Return the values of ``tensor`` in a type that needs no pickling."""
    values = tensor.numpy()
    return values.astype(np.bytes_) if tensor.dtype == tf.string else values
