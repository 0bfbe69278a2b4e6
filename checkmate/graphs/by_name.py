"""Read the graph that a command is given: a file, or a graph by name.

A name is that of a bundled graph, or ``paper.NAME``: the training step of a network of the Checkmate paper at
the batch of the paper's sweeps; ``paper.NAME@64`` is the same at another batch, built anew and exact at each.
"""

from __future__ import annotations

from pathlib import Path

from checkmate.catalog.bundled import find_graph
from checkmate.catalog.file_kind import begins_as_model, model_file_kind
from checkmate.catalog.model_names import is_built_here
from checkmate.errors import UsageError
from checkmate.formats import read_any_graph
from checkmate.formats.graph import ENDINGS
from checkmate.graphs.paper import find_network, is_paper_name
from checkmate.hlo.read import is_dump
from checkmate.ir import Graph

_AT = "@"
_LARGEST = 10**6  # examples; far more than any device holds, and the sizes still fit into int64


def read_or_build(given: Path | str) -> Graph:
    name = str(given)
    _refuse_model(name)
    if Path(name).exists() or not is_paper_name(name):
        return read_any_graph(graph_path(name))
    name, at, batch = name.partition(_AT)
    return build_paper_graph(name, _number(batch) if at else None)


def _refuse_model(name: str) -> None:
    is_file = Path(name).is_file() and begins_as_model(Path(name))
    if is_file:
        model_file_kind(Path(name))
    elif Path(name).exists() or not is_built_here(name):
        return
    code = ".py:" in name and not is_file
    raise UsageError(
        f"{name} is {'code that makes a model or a training step' if code else 'a model'}, not a graph",
        hint=f"make a graph of it first: checkmate profile {name}{' --allow-code' * code} -o G.json",
    )


def graph_path(given: Path | str) -> Path:
    path = Path(given)
    return path if path.exists() else find_graph(str(given)) or path


def is_graph_file(given: Path | str) -> bool:
    path = graph_path(given)
    return path.name.endswith(ENDINGS) or is_dump(path, of_module=True)


def names_graph(given: Path | str) -> bool:
    """Return whether ``given`` stands for a graph: a file, a bundled one or ``paper.NAME``; else it is a
    model."""
    return is_graph_file(given) or is_paper_name(str(given))


def build_paper_graph(name: str, batch_size: int | None = None) -> Graph:
    if batch_size is not None and batch_size > _LARGEST:
        raise UsageError(
            f"a batch of {batch_size} is larger than any device", hint="write it like paper.unet@32"
        )
    return find_network(name).graph(batch_size)


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{text!r} is not a batch size", hint="write it like paper.unet@32")
    return int(text)
