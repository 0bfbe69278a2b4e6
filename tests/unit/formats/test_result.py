"""Test a solve's result as JSON-able data."""

from __future__ import annotations

import json

import numpy as np

from checkmate.formats.schedule import result_facts
from checkmate.ir.result import SolveResult, SolveStatus


def test_the_fields_are_plain_numbers_and_texts() -> None:
    result = SolveResult(
        status=SolveStatus.INFEASIBLE,
        solver="greedy",
        budget_bytes=np.int64(7),  # type: ignore[arg-type]
        base_cost=np.float64(2.5),
        lower_bound=3,
        assumptions=("given order",),
        message="too small",
    )
    assert json.loads(json.dumps(result_facts(result))) == {
        "solver": "greedy",
        "status": "infeasible",
        "budget_bytes": 7,
        "peak_bytes": None,
        "cost": None,
        "base_cost": 2.5,
        "lower_bound": 3.0,
        "solve_seconds": 0.0,
        "assumptions": ["given order"],
        "message": "too small",
    }
