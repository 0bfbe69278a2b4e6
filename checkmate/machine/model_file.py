"""The file that a model came from, as it was when it was profiled: has it changed since?"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkmate.ir.graph import Graph


def file_facts(model: str) -> dict[str, Any] | None:
    """``path``, ``modified_ns`` and ``sha256`` of the file that ``model`` names (of the code, for ``file.py:function``).

    None where it names no file.
    """
    code, colon, _ = model.rpartition(":")
    path = Path(code if colon and code.endswith(".py") else model)
    if not path.is_file():
        return None
    return {"path": str(path.resolve()), "modified_ns": path.stat().st_mtime_ns, "sha256": _digest(path)}


def changed_since_profiled(graph: Graph) -> Path | None:
    """The model's file, if it is here and not what was profiled; None where it is the same, or elsewhere, or not known.

    A graph's metadata come from files too: what is not as ``file_facts`` writes it is passed over.
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
