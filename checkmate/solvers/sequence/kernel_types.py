"""The search's kernels that Python calls, and examples of arguments."""

from __future__ import annotations

from typing import Any

from checkmate.ir.graph import GraphBuilder
from checkmate.solvers.sequence import anneal, edit, fit_budget, perturb
from checkmate.solvers.sequence.fit_budget import Scores, new_scores
from checkmate.solvers.sequence.model import Model, build_model
from checkmate.solvers.sequence.state import State, new_state

ENTRIES = (edit._load, fit_budget.fit, fit_budget.trim, anneal.anneal, perturb.kick)


def examples() -> dict[Any, Any]:
    """Return an example for each annotation, of a graph of one op."""
    tiny = GraphBuilder()
    tiny.op("a", (), (tiny.value("a", 2),), cost=1.0)
    model = build_model(tiny.build()).model
    return {
        Model: model,
        State: new_state(model, steps=1, seed=0),
        Scores: new_scores(model),
    }
