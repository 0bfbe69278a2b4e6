"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from checkmate.formats import write_graph
from checkmate.ir import Graph
from tests.graphs_strategies import training_chain

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture
def chain() -> Graph:
    """Eight layers and their gradients: keep-everything needs 90 bytes, any schedule at least 40."""
    return training_chain(8)


@pytest.fixture
def chain_file(chain: Graph, tmp_path: Path) -> Path:
    """``chain`` in a file."""
    path = tmp_path / "chain.json"
    write_graph(path, chain)
    return path
