"""Solve, see and export rematerialized training steps of Keras models.

    >>> import checkmate
    >>> graph = checkmate.profile("unet", batch_size=8)  # or a Keras model, or a file
    >>> result = checkmate.solve(graph, "60%")
    >>> steps = result.require_schedule().steps

Or all of it, measured and exported: ``checkmate.run("unet", "60%", "out")``.

Most commands have a function of their name: ``info``, ``solve``, ``frontier``, ``max_batch``, ``plan``,
``report``; ``sweep`` is for many graphs. Importing this package loads neither TensorFlow nor a solver. The
module of a name is imported when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkmate.errors import CheckmateError
    from checkmate.frontiers.summary import TradeOff
    from checkmate.ir import (
        CheckReport,
        Graph,
        GraphBuilder,
        Schedule,
        SolveResult,
        SolveStatus,
        Timeline,
        VerificationReport,
    )
    from checkmate.largest.of_model import LargestBatch
    from checkmate.planning import (
        certify,
        check_certificate,
        check_schedule,
        export,
        export_within,
        keep_everything_peak,
        known_minimum,
        least_memory,
        profile,
        resolve_budget,
        run,
        verify,
    )
    from checkmate.planning.graph_info import GraphInfo
    from checkmate.python_api import (
        frontier,
        info,
        max_batch,
        plan,
        read_graph,
        read_schedule,
        report,
        solve,
        sweep,
        write_graph,
        write_matrices,
        write_schedule,
    )
    from checkmate.request import ModelRequest
    from checkmate.solvers.constraints import Constraints
    from checkmate.solvers.portfolio.least_memory import LeastMemory
    from checkmate.solvers.problem import SolveOptions
    from checkmate.training.api import rematerialize, rematerialize_function, train_step
    from checkmate.units import Budget, parse_budget

__version__ = "0.1.0"

# Of each module, the names that this package has.
_NAMES = {
    "checkmate.errors": "CheckmateError",
    "checkmate.frontiers.summary": "TradeOff",
    "checkmate.ir": (
        "CheckReport Graph GraphBuilder Schedule SolveResult SolveStatus Timeline VerificationReport"
    ),
    "checkmate.largest.of_model": "LargestBatch",
    "checkmate.planning": (
        "certify check_certificate check_schedule export export_within keep_everything_peak known_minimum "
        "least_memory profile resolve_budget run verify"
    ),
    "checkmate.planning.graph_info": "GraphInfo",
    "checkmate.python_api": (
        "frontier info max_batch plan read_graph read_schedule report solve sweep write_graph "
        "write_matrices write_schedule"
    ),
    "checkmate.request": "ModelRequest",
    "checkmate.solvers.constraints": "Constraints",
    "checkmate.solvers.portfolio.least_memory": "LeastMemory",
    "checkmate.solvers.problem": "SolveOptions",
    "checkmate.training.api": "rematerialize rematerialize_function train_step",
    "checkmate.units": "Budget parse_budget",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Budget",
    "CheckReport",
    "CheckmateError",
    "Constraints",
    "Graph",
    "GraphBuilder",
    "GraphInfo",
    "LargestBatch",
    "LeastMemory",
    "ModelRequest",
    "Schedule",
    "SolveOptions",
    "SolveResult",
    "SolveStatus",
    "Timeline",
    "TradeOff",
    "VerificationReport",
    "certify",
    "check_certificate",
    "check_schedule",
    "export",
    "export_within",
    "frontier",
    "info",
    "keep_everything_peak",
    "known_minimum",
    "least_memory",
    "max_batch",
    "parse_budget",
    "plan",
    "profile",
    "read_graph",
    "read_schedule",
    "rematerialize",
    "rematerialize_function",
    "report",
    "resolve_budget",
    "run",
    "solve",
    "sweep",
    "train_step",
    "verify",
    "write_graph",
    "write_matrices",
    "write_schedule",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
