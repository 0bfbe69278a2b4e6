"""Write a scheduled step by ``jax.export``, and read it again.

What is in the file is StableHLO, with the schedule's ties. A program that loads it needs JAX alone.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jaxlib.version
from jax import export as jax_export

from checkmate import __version__
from checkmate.backends.jax.compiled import StepMemory, memory_of
from checkmate.backends.jax.report import JaxReport
from checkmate.backends.jax.step import JaxPlan
from checkmate.errors import ExportError
from checkmate.formats.files import write_json
from checkmate.models.error_text import first_line
from checkmate.units import format_bytes, format_bytes_apart

STEP_FILE, REPORT_FILE = "step.jax-export", "export.json"


@dataclass(frozen=True, eq=False)
class JaxExport:
    """An exported step. ``report``: of the schedule, as compiled before the export. ``reloaded``: the memory
    of the step read back from the file and compiled with JAX's default options; it was not run.
    ``donate_argnums``: to pass to ``jax.jit`` after loading, since the file does not keep it. ``leaves``: the
    step takes and returns flat arrays. ``platform``: the one it was exported for. ``arguments`` and
    ``results``: path, shape and type of each array.
    """

    folder: Path
    name: str
    report: JaxReport
    reloaded: StepMemory
    donate_argnums: tuple[int, ...]
    leaves: bool
    platform: str
    arguments: tuple[dict[str, Any], ...]
    results: tuple[dict[str, Any], ...]

    @property
    def over_bytes(self) -> int:
        return max(0, self.reloaded.whole - self.report.budget_bytes)

    @property
    def problems(self) -> tuple[str, ...]:
        if not self.over_bytes:
            return ()
        whole, budget = format_bytes_apart(self.reloaded.whole, self.report.budget_bytes)
        return (f"the reloaded step takes {whole}, which is over the budget of {budget}",)

    @property
    def sentence(self) -> str:
        whole, budget = format_bytes_apart(self.reloaded.whole, self.report.budget_bytes)
        over = f", over the budget of {budget} by {format_bytes(self.over_bytes)}" if self.over_bytes else ""
        within = over or f" of {budget}"
        return f"wrote {self.folder}: read again, the step takes {whole}{within} (compiled, not run)"

    def to_json(self) -> dict[str, Any]:
        report = self.report
        return {
            "format": "checkmate-jax-export",
            "version": 1,
            "step": self.name,
            "file": STEP_FILE,
            "platform": self.platform,
            "call": "leaves" if self.leaves else "tree",
            "donate_argnums": list(self.donate_argnums),
            "budget_bytes": report.budget_bytes,
            "plain_bytes": _bytes(report.plain),
            "reached_bytes": _bytes(report.reached),
            "reloaded_bytes": _bytes(self.reloaded),
            "predicted_overhead": report.predicted_overhead,
            "recomputations": report.recomputations,
            "ops": report.ops,
            "status": None if report.status is None else report.status.value,
            "gap": report.gap,
            "ok": not self.problems,
            "problems": list(self.problems),
            "arguments": list(self.arguments),
            "results": list(self.results),
            "versions": versions(),
        }


def versions() -> dict[str, str]:
    return {
        "checkmate": __version__,
        "jax": jax.__version__,
        "jaxlib": jaxlib.version.__version__,
        "python": platform.python_version(),
    }


def _bytes(memory: StepMemory) -> dict[str, int]:
    return {**asdict(memory), "whole": memory.whole}


@dataclass(frozen=True, eq=False)
class Calling:
    """A plan's step as a function that JAX can export, without its static arguments. ``leaves``: it takes and
    returns flat arrays, because its pytree types cannot be serialized."""

    plan: JaxPlan
    leaves: bool

    def step(self, *args: Any) -> Any:
        found = self.plan.jitted(*jax.tree.leaves(args))
        return found if self.leaves else jax.tree.unflatten(self.plan.results, found)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The shapes and dtypes of the arguments."""
        given = self.plan.arguments
        return tuple(jax.tree.leaves(given) if self.leaves else given)

    @property
    def donated(self) -> tuple[int, ...]:
        """The numbers of the arguments whose arrays are all donated."""
        left, found = iter(range(len(jax.tree.leaves(self.plan.arguments)))), []
        for number, argument in enumerate(self.arguments):
            flat = {next(left) for _ in jax.tree.leaves(argument)}
            if flat and flat <= set(self.plan.donated):
                found.append(number)
        return tuple(found)


def described(tree: Any, donated: Sequence[int] | None) -> list[dict[str, Any]]:
    """Return the arrays of a tree of shapes, as JSON-able data. ``donated``: numbers of flat arrays that a
    step may take over; None for results.
    """
    found = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [
        {
            "path": jax.tree_util.keystr(path),
            "shape": list(leaf.shape),
            "dtype": str(leaf.dtype),
            **({} if donated is None else {"donated": number in donated}),
        }
        for number, (path, leaf) in enumerate(found)
    ]


def write_step(plan: JaxPlan, name: str, staged: Path, folder: Path) -> JaxExport:
    """Write a plan's step and its report into ``staged``, which will be ``folder``."""
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
        results=tuple(described(jax.eval_shape(calling.step, *calling.arguments), None)),
    )
    write_json(staged / REPORT_FILE, found.to_json())
    return found


def _serialized(plan: JaxPlan, name: str) -> tuple[Calling, bytes]:
    calling = Calling(plan, leaves=False)
    exported = _exported(calling, name)
    try:
        return calling, bytes(exported.serialize())
    except (ValueError, TypeError):  # a type of the trees has no name in a file
        calling = Calling(plan, leaves=True)
        return calling, bytes(_exported(calling, name).serialize())


def _exported(calling: Calling, name: str) -> Any:
    jitted = jax.jit(calling.step, donate_argnums=calling.donated)
    try:
        return jax_export.export(jitted)(*calling.arguments)
    except (ValueError, TypeError, NotImplementedError) as error:
        raise ExportError(
            f"JAX cannot export the step {name!r}: {first_line(error)}",
            hint="callbacks (jax.debug, pure_callback) and some kernels cannot be exported; train with "
            "the scheduled step itself",
        ) from error


def _reloaded(data: bytes, calling: Calling) -> StepMemory:
    read = jax_export.deserialize(bytearray(data))
    jitted = jax.jit(read.call, donate_argnums=calling.donated)
    return memory_of(jitted.lower(*calling.arguments).compile())
