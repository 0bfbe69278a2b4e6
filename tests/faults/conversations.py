"""Every conversation that the harness knows, by name."""

from __future__ import annotations

from tests.faults.devices import certify, export, profile, trace_sizes
from tests.faults.protocols import Protocol, auto, prove
from tests.faults.windows import check_elsewhere, explore, find_batch, look_for_less, place_buffers

_PROVER = "checkmate.solvers.pathcut.child", "checkmate.processes.conversation"
_PROVER_WAITS = "checkmate.solvers.pathcut.in_process:_SILENT_S"
_WINDOW, _WAITS = "app.workers.process", "app.workers.client:SILENT_S"
_SOLVING, _WORKERS = "app.models.solving", "checkmate.workers"

PROTOCOLS: dict[str, Protocol] = {
    "prover": Protocol(*_PROVER, _PROVER_WAITS, prove),
    "auto": Protocol(*_PROVER, _PROVER_WAITS, auto),
    "solver": Protocol(f"{_WORKERS}.solver", _WINDOW, f"{_SOLVING}:_SILENT_S", explore),
    "checker": Protocol(f"{_WORKERS}.replays", _WINDOW, f"{_SOLVING}:SILENT_S", check_elsewhere),
    "placer": Protocol(f"{_WORKERS}.replays", _WINDOW, _WAITS, place_buffers),
    "batches": Protocol(f"{_WORKERS}.searches", _WINDOW, _WAITS, find_batch),
    "least memory": Protocol(f"{_WORKERS}.solver", _WINDOW, f"{_SOLVING}:_SILENT_S", look_for_less),
    "certifier": Protocol(f"{_WORKERS}.searches", _WINDOW, _WAITS, certify),
    "sizes": Protocol(
        f"{_WORKERS}.device", _WINDOW, "app.models.scales:_SILENT_S", trace_sizes, silent_s=40.0
    ),
    "profile": Protocol(f"{_WORKERS}.device", _WINDOW, "", profile),
    "export": Protocol(f"{_WORKERS}.device", _WINDOW, "", export),
}
