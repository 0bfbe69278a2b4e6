"""Name the floors of the program, the lowest first.

A module imports from lower floors and from its own room only: rooms on one floor do not know each other. A
room is the longest of these names that a module begins with. ``checkmate.`` is left out; ``app.`` is not.
"""

from __future__ import annotations

FLOORS = (
    "units request runner text_table certificate wire app.actions",
    "errors fields",
    "ir progress catalog",
    "hlo",
    "formats memory records terminal processes app.layout app.theme",
    "graphs machine sweeps",
    "arguments fallback models solvers backends.outcomes backends.protocol backends.xla_policy",
    "backends backends.tf backends.jax backends.torch app.state app.crash_log",
    "planning",
    "training frontiers doctor listing pytest_plugin",
    "jax keras torch largest charts policies",
    "workers",
    "reports app.workers",
    "python_api app.presenters",
    "app.models notebook",
    "app.look app.views",
    "app.bootstrap",
    "cli",
    "__main__",
)
