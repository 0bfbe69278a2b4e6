"""Tell whether a model's file has changed since it was profiled."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkmate.ir.graph import Graph


def file_facts(model: str) -> dict[str, Any] | None:
    """Return ``path``, ``modified_ns`` and ``sha256`` of a model's file.

    For ``file.py:function`` it is the file of the code. None where ``model`` names no file.
    """
    code, colon, _ = model.rpartition(":")
    path = Path(code if colon and code.endswith(".py") else model)
    if not path.is_file():
        return None
    return {"path": str(path.resolve()), "modified_ns": path.stat().st_mtime_ns, "sha256": _digest(path)}


def changed_since_profiled(graph: Graph) -> Path | None:
    """Return the model's file if it differs from the profiled one.

    None where it is the same, is not here, or is not known. A graph's metadata can also come from a file;
    entries that ``file_facts`` would not write are ignored.
    """
    facts = graph.metadata.get("model_file")
    if not isinstance(facts, Mapping) or not isinstance(facts.get("path"), str):
        return None
    path = Path(facts["path"])
    try:
        if not path.is_file() or path.stat().st_mtime_ns == facts.get("modified_ns"):
            return None
        return None if _digest(path) == facts.get("sha256") else path
    except OSError:
        return None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
