"""All messages between the window and its processes, in one table.

Both ends of every pipe read and write with it.
"""

from __future__ import annotations

from checkmate.ipc.messages import MessageTable
from checkmate.workers.messages.animation import (
    AnimationFailed,
    AnimationFrame,
    AnimationSample,
    AnimationSaved,
    BeginAnimation,
    FrameTaken,
)
from checkmate.workers.messages.batches import (
    FindLargestBatch,
    LargestBatchFailed,
    LargestBatchFound,
    LargestBatchProgress,
)
from checkmate.workers.messages.certifier import CertificateWritten, Certify, CertifyFailed, CertifyProgress
from checkmate.workers.messages.checker import Checked, CheckSchedule, ConstraintsToCheck, GraphToCheck
from checkmate.workers.messages.device import (
    DeviceCancelled,
    DeviceFailed,
    DeviceProgress,
    EstimatedGraph,
    Export,
    Exported,
    Profile,
    ProfiledGraph,
    StepChanged,
)
from checkmate.workers.messages.placer import Placed, PlaceSchedule, PlacingProgress
from checkmate.workers.messages.solver import (
    BaselineSchedule,
    CostBound,
    FillFrontier,
    Filling,
    FindLeastMemory,
    FrontierBound,
    FrontierSchedule,
    Incumbent,
    KnownBound,
    KnownSchedule,
    LeastMemoryEnded,
    MemoryBound,
    MemoryNeeded,
    OpenQuestion,
    Prepared,
    Preparing,
    SmallerSchedule,
    SolveBudget,
    SolveEnded,
    SolverFailed,
    SolveSkipped,
)

WINDOW_MESSAGES = MessageTable(
    Profile,
    Export,
    DeviceProgress,
    EstimatedGraph,
    ProfiledGraph,
    Exported,
    DeviceCancelled,
    DeviceFailed,
    StepChanged,
    OpenQuestion,
    KnownSchedule,
    KnownBound,
    FillFrontier,
    SolveBudget,
    FindLeastMemory,
    Preparing,
    Prepared,
    MemoryNeeded,
    FrontierSchedule,
    BaselineSchedule,
    Filling,
    FrontierBound,
    Incumbent,
    CostBound,
    SmallerSchedule,
    MemoryBound,
    SolveEnded,
    LeastMemoryEnded,
    SolveSkipped,
    SolverFailed,
    GraphToCheck,
    ConstraintsToCheck,
    CheckSchedule,
    Checked,
    PlaceSchedule,
    PlacingProgress,
    Placed,
    FindLargestBatch,
    LargestBatchProgress,
    LargestBatchFound,
    LargestBatchFailed,
    Certify,
    CertifyProgress,
    CertificateWritten,
    CertifyFailed,
    BeginAnimation,
    AnimationSample,
    AnimationFrame,
    FrameTaken,
    AnimationSaved,
    AnimationFailed,
)
