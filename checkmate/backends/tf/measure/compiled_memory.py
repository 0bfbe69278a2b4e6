"""Read what memory XLA gives to a step, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkmate.backends.tf.costs.session import prepare
from checkmate.backends.tf.measure.step import step_body
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.xla.compiled import StepCompilation, compile_step
from checkmate.backends.tf.xla.tied import XlaEmission, emission_of
from checkmate.progress import never, silent
from checkmate.request import ModelRequest


def compiled_memory(folded: FoldedStep, steps: list[int] | None, xla: XlaEmission) -> StepCompilation:
    """Compile the plain step (``steps`` None) or a scheduled one; run nothing.

    Raises:
        NotCompiledError: XLA cannot compile it.
    """
    loaded = folded.traced.loaded
    return compile_step(step_body(folded, steps, xla=xla), [*loaded.input_specs, *loaded.label_specs])


def compile_task(task: Mapping[str, Any]) -> dict[str, Any]:
    """Compile the step of a task for the device that it names.

    ``task``: ``request``, ``steps``, ``xla``, as for ``backends.tf.measure.step.measure``. Returns the
    bytes of ``arguments``, ``outputs`` and ``temp``, the ``curve`` with its ``steps`` as ``XlaMemory`` has
    them, and ``seconds``.

    Raises:
        NotCompiledError: XLA cannot compile it.
    """
    folded = prepare(ModelRequest.from_json(task["request"]), here=True, report=silent, cancelled=never)
    made = compiled_memory(folded, task["steps"], emission_of(task) or XlaEmission())
    memory = made.memory
    return {
        "arguments": memory.argument_bytes,
        "outputs": memory.output_bytes,
        "temp": memory.temp_bytes,
        "curve": memory.curve.tolist(),
        "steps": memory.steps.tolist(),
        "seconds": made.seconds,
    }
