"""Solve, see and export rematerialized training steps of Keras models.

    >>> import checkmate
    >>> graph = checkmate.profile("unet", batch_size=8)  # or a Keras model, or a file
    >>> result = checkmate.solve(graph, "60%")
    >>> steps = result.require_schedule().steps

Or all of it, measured and exported: ``checkmate.run("unet", "60%", "out")``.

Most commands have a function of their name: ``info``, ``solve``, ``policy``, ``frontier``, ``max_batch``,
``plan``, ``report``; ``sweep`` is for many graphs. Importing this package loads neither TensorFlow nor a
solver. The module of a name is imported when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkmate.errors import CheckmateError as CheckmateError
    from checkmate.frontiers.summary import TradeOff as TradeOff
    from checkmate.ir import CheckReport as CheckReport
    from checkmate.ir import Graph as Graph
    from checkmate.ir import GraphBuilder as GraphBuilder
    from checkmate.ir import Schedule as Schedule
    from checkmate.ir import SolveResult as SolveResult
    from checkmate.ir import SolveStatus as SolveStatus
    from checkmate.ir import Timeline as Timeline
    from checkmate.ir import VerificationReport as VerificationReport
    from checkmate.largest.of_model import LargestBatch as LargestBatch
    from checkmate.notebook import view as view
    from checkmate.planning import certify as certify
    from checkmate.planning import check_certificate as check_certificate
    from checkmate.planning import check_schedule as check_schedule
    from checkmate.planning import export as export
    from checkmate.planning import export_within as export_within
    from checkmate.planning import keep_everything_peak as keep_everything_peak
    from checkmate.planning import known_minimum as known_minimum
    from checkmate.planning import least_memory as least_memory
    from checkmate.planning import profile as profile
    from checkmate.planning import resolve_budget as resolve_budget
    from checkmate.planning import run as run
    from checkmate.planning import verify as verify
    from checkmate.planning.graph_info import GraphInfo as GraphInfo
    from checkmate.policies.policy import Policy as Policy
    from checkmate.python_api import frontier as frontier
    from checkmate.python_api import info as info
    from checkmate.python_api import max_batch as max_batch
    from checkmate.python_api import plan as plan
    from checkmate.python_api import policy as policy
    from checkmate.python_api import read_graph as read_graph
    from checkmate.python_api import read_schedule as read_schedule
    from checkmate.python_api import report as report
    from checkmate.python_api import solve as solve
    from checkmate.python_api import sweep as sweep
    from checkmate.python_api import write_graph as write_graph
    from checkmate.python_api import write_matrices as write_matrices
    from checkmate.python_api import write_schedule as write_schedule
    from checkmate.reports.model_summary import summary as summary
    from checkmate.request import ModelRequest as ModelRequest
    from checkmate.solvers.constraints import Constraints as Constraints
    from checkmate.solvers.portfolio.least_memory import LeastMemory as LeastMemory
    from checkmate.solvers.problem import SolveOptions as SolveOptions
    from checkmate.training.api import rematerialize as rematerialize
    from checkmate.training.api import rematerialize_function as rematerialize_function
    from checkmate.training.api import train_step as train_step
    from checkmate.units import Budget as Budget
    from checkmate.units import parse_budget as parse_budget

__version__ = "0.1.0"

# Of each module, the names that this package has.
_NAMES = {
    "checkmate.errors": "CheckmateError",
    "checkmate.frontiers.summary": "TradeOff",
    "checkmate.ir": (
        "CheckReport Graph GraphBuilder Schedule SolveResult SolveStatus Timeline VerificationReport"
    ),
    "checkmate.largest.of_model": "LargestBatch",
    "checkmate.notebook": "view",
    "checkmate.planning": (
        "certify check_certificate check_schedule export export_within keep_everything_peak known_minimum "
        "least_memory profile resolve_budget run verify"
    ),
    "checkmate.planning.graph_info": "GraphInfo",
    "checkmate.policies.policy": "Policy",
    "checkmate.python_api": (
        "frontier info max_batch plan policy read_graph read_schedule report solve sweep write_graph "
        "write_matrices write_schedule"
    ),
    "checkmate.reports.model_summary": "summary",
    "checkmate.request": "ModelRequest",
    "checkmate.solvers.constraints": "Constraints",
    "checkmate.solvers.portfolio.least_memory": "LeastMemory",
    "checkmate.solvers.problem": "SolveOptions",
    "checkmate.training.api": "rematerialize rematerialize_function train_step",
    "checkmate.units": "Budget parse_budget",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
