"""A fault of this program: a sentence for whoever met it, and a file for whoever mends it.

The file holds the traceback, the versions, the device, and what kinds of layers and ops were at hand. No
tensor's values are in it.
"""

from __future__ import annotations

import platform
import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import is_dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from checkmate import __version__
from checkmate.errors import CheckmateError, PlanningError
from checkmate.machine.cost_store import user_cache
from checkmate.machine.device_memory import ask_for_table
from checkmate.machine.processor import processor_name
from checkmate.machine.supported import TENSORFLOWS, versions

_LIBRARIES = (
    *TENSORFLOWS,
    "keras",
    "jax",
    "jaxlib",
    "torch",
    "numpy",
    "highspy",
    "numba",
    "PySide6-Essentials",
)
_ASK_S = 3.0


def as_known(error: Exception) -> CheckmateError:
    """Return ``error`` if it is expected, else a ``PlanningError`` whose hint names the file to attach."""
    if isinstance(error, CheckmateError):
        return error
    said = f"{type(error).__name__}: {error}".splitlines()[0].partition(". ")[0].rstrip(": ")
    try:
        what = f"attach {_written(error)}"
    except Exception as why:  # a report that cannot be made must not hide the fault
        what = f"say that no report of it could be written ({type(why).__name__}: {why})"
    return PlanningError(f"unexpected {said}", hint=f"please report this fault of checkmate, and {what}")


def this_machine() -> list[str]:
    """Return lines that say what runs here, and on what."""
    libraries = ", ".join(f"{name} {version}" for name, version in versions(_LIBRARIES).items())
    cards = ask_for_table(("name",), limit_s=_ASK_S)[0].splitlines()
    return [
        f"Checkmate Explorer {__version__}",
        platform.platform(),
        f"Python {platform.python_version()}, {libraries}",
        ", ".join([processor_name(), *cards]),
    ]


def _written(error: Exception) -> Path:
    trace = traceback.format_exception(error)
    kinds = [
        f"{what}: {', '.join(f'{kind} {count}' for kind, count in sorted(counted.items()))}"
        for what, counted in _kinds(error).items()
    ]
    text = "\n".join([*this_machine(), *kinds, "", *map(str.rstrip, trace)]) + "\n"
    home = str(Path.home())
    # The same fault again writes the same file.
    path = user_cache("faults") / f"fault-{sha256(''.join(trace).encode()).hexdigest()[:12]}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace(home, "~") if len(home) > 1 else text, encoding="utf-8")
    return path


def _kinds(error: Exception) -> dict[str, Counter[str]]:
    """Return the types of layers and ops of the largest model and graph that the frames of ``error`` hold."""
    found: dict[str, Counter[str]] = {}
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for value in list(frame.f_locals.values()):
            with suppress(Exception):  # foreign objects
                for what, counted in _kinds_in(value):
                    found[what] = max(found.get(what, counted), counted, key=Counter.total)
    return found


def _kinds_in(value: Any) -> Iterator[tuple[str, Counter[str]]]:
    ir, keras, tf = map(sys.modules.get, ("checkmate.ir", "keras", "tensorflow"))
    for each in (value, *vars(value).values()) if is_dataclass(value) else (value,):
        if ir is not None and isinstance(each, ir.Graph):
            yield "ops of the graph", Counter(op.type for op in each.ops)
        elif keras is not None and isinstance(each, keras.Model):
            yield "layers", Counter(_layer_types(each))
        elif tf is not None and isinstance(each, (tf.Graph, tf.types.experimental.ConcreteFunction)):
            graph = each if isinstance(each, tf.Graph) else each.graph
            yield "ops as traced", Counter(op.type for op in graph.get_operations())


def _layer_types(model: Any) -> Iterator[str]:
    for layer in model.layers:
        yield type(layer).__name__
        if hasattr(layer, "layers"):
            yield from _layer_types(layer)
