from __future__ import annotations

import importlib.util
from dataclasses import asdict
from typing import Any

from checkmate.catalog.bundled import graph_files, graph_name
from checkmate.catalog.samples import SAMPLES
from checkmate.graphs.paper import NETWORKS, PREFIX
from checkmate.machine.supported import require_backend, why_unsupported
from checkmate.solvers.registry import SOLVERS

Row = dict[str, Any]


def listing(what: str) -> list[Row]:
    """Return rows with ``name``, ``description`` and, where it may be missing, ``available`` and ``why``."""
    return {
        "solvers": _solvers,
        "devices": _devices,
        "loaders": _loaders,
        "exporters": _exporters,
        "models": _models,
    }[what]()


def _solvers() -> list[Row]:
    return [
        {
            "name": entry.name,
            "description": entry.description,
            "features": sorted(feature.value for feature in entry.features),
            "available": not entry.missing,
            "why": f"needs {', '.join(entry.missing)}" if entry.missing else "",
        }
        for entry in SOLVERS
    ]


def _devices() -> list[Row]:
    require_backend()
    from checkmate.backends.tf.devices import visible_devices

    return visible_devices()


def _loaders() -> list[Row]:
    why = _why_no_tensorflow()
    kinds = (
        (".keras", "a Keras 3 archive, recognised by its content"),
        (".h5", "a Keras HDF5 model, recognised by its content"),
        ("keras.applications.NAME", "an architecture of keras.applications, randomly initialised"),
        ("sample", "a bundled sample: checkmate list models"),
        (
            "file.py:function",
            "a function that returns a keras.Model, or a training step with an example; "
            "runs that file's code, needs --allow-code",
        ),
    )
    return [{"name": name, "description": text, "available": not why, "why": why} for name, text in kinds] + [
        {
            "name": "graph",
            "description": "a checkmate-graph file, or networkx node-link JSON",
            "available": True,
            "why": "",
        }
    ]


def _exporters() -> list[Row]:
    why = _why_no_tensorflow()
    return [
        {
            "name": "saved_model",
            "description": "a TensorFlow SavedModel with train_step, variables and optimizer state inside",
            "available": not why,
            "why": why,
        }
    ]


def _why_no_tensorflow() -> str:
    return why_unsupported() if importlib.util.find_spec("tensorflow") is not None else "needs tensorflow"


def _models() -> list[Row]:
    rows: list[Row] = [{"kind": "model", **asdict(sample)} for sample in SAMPLES]
    rows += [
        {"name": graph_name(path), "description": f"a bundled graph: {path}", "kind": "graph"}
        for path in graph_files()
    ]
    return rows + [
        {
            "name": PREFIX + network.name,
            "description": f"{network.title} of the Checkmate paper, layer by layer: a graph for solve, "
            "frontier, max-batch",
            "kind": "network",
        }
        for network in NETWORKS
    ]
