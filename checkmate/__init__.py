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

_HOMES = {
    "Budget": "checkmate.units",
    "CheckReport": "checkmate.ir",
    "CheckmateError": "checkmate.errors",
    "Constraints": "checkmate.solvers.constraints",
    "Graph": "checkmate.ir",
    "GraphBuilder": "checkmate.ir",
    "GraphInfo": "checkmate.planning.graph_info",
    "LargestBatch": "checkmate.largest.of_model",
    "LeastMemory": "checkmate.solvers.portfolio.least_memory",
    "ModelRequest": "checkmate.request",
    "Schedule": "checkmate.ir",
    "SolveOptions": "checkmate.solvers.problem",
    "SolveResult": "checkmate.ir",
    "SolveStatus": "checkmate.ir",
    "Timeline": "checkmate.ir",
    "TradeOff": "checkmate.frontiers.summary",
    "VerificationReport": "checkmate.ir",
    "certify": "checkmate.planning",
    "check_certificate": "checkmate.planning",
    "check_schedule": "checkmate.planning",
    "export": "checkmate.planning",
    "export_within": "checkmate.planning",
    "frontier": "checkmate.python_api",
    "info": "checkmate.python_api",
    "keep_everything_peak": "checkmate.planning",
    "known_minimum": "checkmate.planning",
    "least_memory": "checkmate.planning",
    "max_batch": "checkmate.python_api",
    "plan": "checkmate.python_api",
    "parse_budget": "checkmate.units",
    "profile": "checkmate.planning",
    "read_graph": "checkmate.python_api",
    "read_schedule": "checkmate.python_api",
    "rematerialize": "checkmate.training.api",
    "rematerialize_function": "checkmate.training.api",
    "report": "checkmate.python_api",
    "resolve_budget": "checkmate.planning",
    "run": "checkmate.planning",
    "solve": "checkmate.python_api",
    "sweep": "checkmate.python_api",
    "train_step": "checkmate.training.api",
    "verify": "checkmate.planning",
    "write_graph": "checkmate.python_api",
    "write_matrices": "checkmate.python_api",
    "write_schedule": "checkmate.python_api",
}

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
    module, _, attribute = _HOMES[name].partition(":")
    found = globals()[name] = getattr(import_module(module), attribute or name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
