"""Values that flow between stages: frozen dataclasses over read-only numpy arrays, checked when they are
made.
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
