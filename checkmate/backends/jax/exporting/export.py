"""Write a scheduled step by ``jax.export``, and read it again.

What is in the file is StableHLO, with the schedule's ties. A program that loads it needs JAX alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
from jax import export as jax_export

from checkmate.backends.jax.exporting.layout import Calling, as_called, by_leaves, described
from checkmate.backends.jax.exporting.report import REPORT_FILE, STEP_FILE, JaxExport
from checkmate.backends.jax.memory import StepMemory, memory_of
from checkmate.backends.jax.plan import JaxPlan
from checkmate.backends.jax.transform import Rematerialized
from checkmate.errors import ExportError, UsageError
from checkmate.formats.files import write_json
from checkmate.formats.folder import put_in_place, staging
from checkmate.models.keras_graph import first_line


def export(step: Rematerialized, folder: str | Path, *args: Any) -> JaxExport:
    """Write a scheduled step into a folder, for programs with JAX alone.

    ``step`` is what ``checkmate.jax.rematerialize`` returned. ``args`` are what it is called with, or
    ``jax.ShapeDtypeStruct``; without any it is written for the arguments of its last plan. The folder has the
    step as ``jax.export`` serializes it (``step.jax-export``), and ``export.json``, which says what it takes
    and returns. It appears whole or not at all.

    >>> checkmate.jax.export(step, "out", state, batch)
    >>> read = jax.export.deserialize(Path("out/step.jax-export").read_bytes())
    >>> step = jax.jit(read.call, donate_argnums=0)

    A file keeps no donation and no compiler's options. So ``jax.jit`` is told again what is donated
    (``donate_argnums`` of what is returned), and a plan that XLA's options are needed for is made anew
    without. Static arguments are constants of the file: they are left out of calls. The file is for one
    layout of arguments and for the platform that JAX runs on here.

    The file is read and compiled again, not run; ``reloaded`` of what is returned is what XLA then says.
    Where that is over the budget, ``problems`` and one sentence on standard error say so.

    A tree with types of its own (``optax``'s states, ``flax.struct``) can be in a file only if they are
    registered, with ``jax.export.register_namedtuple_serialization`` for example. Where they are not, the
    step takes and returns flat arrays (``leaves``), in the order of ``jax.tree.leaves``.

    Raises:
        UsageError: ``step`` is not scheduled, or there is no plan yet. ExportError: JAX cannot export it, or
        the folder cannot be written. Others as ``rematerialize``.
    """
    if not isinstance(step, Rematerialized):
        raise UsageError(
            f"{getattr(step, '__name__', step)!s} is no scheduled step",
            hint='export what checkmate.jax.rematerialize(step, "60%") returns',
        )
    plan = step.portable_plan(*args)
    with staging(Path(folder)) as staged:
        found = write_step(plan, step.__name__, staged, Path(folder))
        put_in_place(staged, Path(folder))
    step.tell(found.sentence)
    return found


def write_step(plan: JaxPlan, name: str, staged: Path, folder: Path) -> JaxExport:
    """Write a plan's step and its report.

    ``staged`` is where it is written; it will be ``folder``.

    Raises:
        ExportError: JAX cannot export it. OSError: a file cannot be written.
    """
    if plan.alone:
        raise ExportError(
            "the plan needs XLA's options, which no file keeps", hint="make the plan for a part of a program"
        )
    calling, data = _serialized(plan, name)
    (staged / STEP_FILE).write_bytes(data)
    found = JaxExport(
        folder=folder,
        name=name,
        report=plan.report,
        reloaded=_reloaded(data, calling),
        donate_argnums=calling.donated,
        leaves=calling.leaves,
        platform=jax_export.default_export_platform(),
        arguments=tuple(described(tuple(plan.arguments), plan.donated)),
        results=tuple(described(jax.eval_shape(calling.function, *calling.arguments), None)),
    )
    write_json(staged / REPORT_FILE, found.to_json())
    return found


def _serialized(plan: JaxPlan, name: str) -> tuple[Calling, bytes]:
    """Return how the step is called, and the bytes of its file."""
    calling = as_called(plan)
    exported = _exported(calling, name)
    try:
        return calling, bytes(exported.serialize())
    except (ValueError, TypeError):  # a type of the trees has no name in a file
        calling = by_leaves(plan)
        return calling, bytes(_exported(calling, name).serialize())


def _exported(calling: Calling, name: str) -> Any:
    jitted = jax.jit(calling.function, donate_argnums=calling.donated)
    try:
        return jax_export.export(jitted)(*calling.arguments)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise ExportError(
            f"JAX cannot export the step {name!r}: {first_line(error)}",
            hint="callbacks (jax.debug, pure_callback) and some kernels cannot be exported; train with "
            "the scheduled step itself",
        ) from error


def _reloaded(data: bytes, calling: Calling) -> StepMemory:
    """Return what the step of a file takes, compiled by JAX's defaults."""
    read = jax_export.deserialize(bytearray(data))
    jitted = jax.jit(read.call, donate_argnums=calling.donated)
    return memory_of(jitted.lower(*calling.arguments).compile())
