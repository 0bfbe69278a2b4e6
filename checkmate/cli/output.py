from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from checkmate.errors import ExitCode
from checkmate.ir import Graph, SolveStatus
from checkmate.terminal import complain as complain
from checkmate.terminal import emit as emit

_EXIT_CODES = {
    SolveStatus.OPTIMAL: ExitCode.DONE,
    SolveStatus.FEASIBLE: ExitCode.DONE,
    SolveStatus.INFEASIBLE: ExitCode.INFEASIBLE,
    SolveStatus.LIMIT: ExitCode.NO_SCHEDULE,
    SolveStatus.CANCELLED: ExitCode.INTERRUPTED,
    SolveStatus.FAILED: ExitCode.UNEXPECTED,
}


def show(as_json: bool, facts: Mapping[str, Any], text: str) -> None:
    emit(json.dumps(facts, ensure_ascii=False, default=str) if as_json else text)


def solve_exit_code(status: SolveStatus) -> ExitCode:
    return _EXIT_CODES[status]


def graph_facts(graph: Graph, *, detailed: bool = False) -> dict[str, Any]:
    """``detailed`` adds the reachable minimum and what is alive at the peak."""
    from checkmate.planning import graph_info  # which the window does without

    return graph_info.graph_info(graph).to_json() if detailed else graph_info.graph_facts(graph)


def target_words(graph: Graph) -> str:
    return ", for XLA" if graph.runner.compiled else ""


def fit_exit_code(*, fits: bool, refuted: bool) -> ExitCode:
    if fits:
        return ExitCode.DONE
    return ExitCode.INFEASIBLE if refuted else ExitCode.NO_SCHEDULE


def interrupted(kept: str = "what was found so far is kept") -> ExitCode:
    complain(f"interrupted; {kept}", "")
    return ExitCode.INTERRUPTED
