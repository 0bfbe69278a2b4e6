"""Compose the stages of the program.

The command line, the window's workers and the Python functions call this package. ``profile`` gives a graph
with costs, ``solve`` a checked schedule; ``verify``, ``export`` and ``run`` give measured reports. Each stage
imports TensorFlow or a solver's library only when it needs it.
"""

from checkmate.planning.certifying import certify, check_certificate, confirmed
from checkmate.planning.exporting import RunOutcome
from checkmate.planning.progress_listener import Following, FollowingMemory
from checkmate.planning.solving import (
    Minimum,
    check_schedule,
    keep_everything_peak,
    known_minimum,
    least_memory,
    resolve_budget,
    solve,
)
from checkmate.planning.stages import export, export_within, profile, run, verify

__all__ = [
    "Following",
    "FollowingMemory",
    "Minimum",
    "RunOutcome",
    "certify",
    "check_certificate",
    "check_schedule",
    "confirmed",
    "export",
    "export_within",
    "keep_everything_peak",
    "known_minimum",
    "least_memory",
    "profile",
    "resolve_budget",
    "run",
    "solve",
    "verify",
]
