"""Values that flow between stages: graph, schedule, timeline, result.

They are frozen dataclasses over read-only numpy arrays, and their rules are checked when they are made. This
package imports only numpy, the standard library, ``checkmate.errors`` and ``checkmate.units``.
"""

from checkmate.ir.graph import CostOrigin, CostUnit, Device, Graph, GraphBuilder, Op, Phase, Value
from checkmate.ir.result import CheckReport, SolveResult, SolveStatus, VerificationReport, Violation
from checkmate.ir.schedule import Schedule, StageMatrices
from checkmate.ir.timeline import Buffer, Timeline

__all__ = [
    "Buffer",
    "CheckReport",
    "CostOrigin",
    "CostUnit",
    "Device",
    "Graph",
    "GraphBuilder",
    "Op",
    "Phase",
    "Schedule",
    "SolveResult",
    "SolveStatus",
    "StageMatrices",
    "Timeline",
    "Value",
    "VerificationReport",
    "Violation",
]
