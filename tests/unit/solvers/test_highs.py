"""Test that HiGHS prints nothing, and solves whatever ran before it.

Answers in JSON go to the same place as what it would print.
"""

from __future__ import annotations

import pytest

from checkmate import planning
from checkmate.errors import SolveFailedError
from checkmate.graphs.layers import training_chain
from checkmate.ir.result import SolveStatus
from checkmate.progress import never
from checkmate.solvers.highs import silent_highs
from checkmate.solvers.milp.pulp_engine import _highs_outcome
from checkmate.solvers.problem import SolveOptions


def test_a_new_highs_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    highs = silent_highs()
    highs.addVar(0.0, 1.0)
    highs.solve()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("solver", ["milp", "tight-milp", "path-cut"])
def test_a_solver_that_uses_it_prints_nothing(solver: str, capfd: pytest.CaptureFixture[str]) -> None:
    options = SolveOptions(time_limit_s=20.0)
    result = planning.solve(training_chain(8), 60, solver=solver, options=options)
    assert result.lower_bound is not None, result  # it ran
    assert capfd.readouterr() == ("", "")


def test_a_solve_that_did_not_run_is_no_limit() -> None:
    with pytest.raises(SolveFailedError, match="Not Set"):
        _highs_outcome(silent_highs(), relaxed=False, cancelled=never)


def test_each_solve_has_its_own_count_of_workers() -> None:
    for workers in (1, 2, 1):
        options = SolveOptions(time_limit_s=20.0, workers=workers)
        result = planning.solve(training_chain(8), 60, solver="milp", options=options)
        assert result.status is SolveStatus.OPTIMAL, result
