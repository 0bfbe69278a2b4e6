"""The kernels of the sequence search that Python calls, and their types."""

from __future__ import annotations

from typing import Any

import numba

from checkmate.ir.graph import GraphBuilder
from checkmate.solvers.sequence import anneal, edit, fit_budget, perturb
from checkmate.solvers.sequence.fit_budget import Scores, new_scores
from checkmate.solvers.sequence.model import Model, build_model
from checkmate.solvers.sequence.state import State, new_state

ENTRIES = (edit._load, fit_budget.fit, fit_budget.trim, anneal.anneal, perturb.kick)


def examples() -> dict[Any, Any]:
    """Return numba's type for each annotation, read off a graph of one op."""
    tiny = GraphBuilder()
    tiny.op("a", (), (tiny.value("a", 2),), cost=1.0)
    model = build_model(tiny.build()).model
    return {
        Model: numba.typeof(model),
        State: numba.typeof(new_state(model, steps=1, seed=0)),
        Scores: numba.typeof(new_scores(model)),
    }
