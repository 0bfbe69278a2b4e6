"""Every conversation that the harness knows, by name."""

from __future__ import annotations

from tests.faults.devices import certify, export, make_films, profile, trace_sizes
from tests.faults.protocols import Protocol, auto, prove
from tests.faults.windows import check_elsewhere, explore, find_batch, look_for_less, place_buffers

_CUTS, _WINDOW = "checkmate.solvers.pathcut", "app.workers.process"
_ASK, _DEVICE = "app.models.clients", "checkmate.workers.device"

PROTOCOLS: dict[str, Protocol] = {
    "prover": Protocol(f"{_CUTS}.child", f"{_CUTS}.in_process", f"{_CUTS}.in_process", prove),
    "auto": Protocol(f"{_CUTS}.child", f"{_CUTS}.in_process", f"{_CUTS}.in_process", auto),
    "solver": Protocol("checkmate.workers.solver", _WINDOW, f"{_ASK}.solver_client", explore),
    "checker": Protocol("checkmate.workers.checker", _WINDOW, f"{_ASK}.checker_client", check_elsewhere),
    "placer": Protocol("checkmate.workers.placer", _WINDOW, f"{_ASK}.placing", place_buffers),
    "batches": Protocol("checkmate.workers.batches", _WINDOW, f"{_ASK}.largest_batch", find_batch),
    "least memory": Protocol("checkmate.workers.solver", _WINDOW, f"{_ASK}.solver_client", look_for_less),
    "certifier": Protocol("checkmate.workers.certifier", _WINDOW, "app.views.window.savers", certify),
    "animation": Protocol("checkmate.workers.animation", _WINDOW, "app.views.pictures.film", make_films),
    "sizes": Protocol(_DEVICE, _WINDOW, f"{_ASK}.size_tracer", trace_sizes, silent_s=40.0),
    "profile": Protocol(_DEVICE, _WINDOW, "", profile),
    "export": Protocol(_DEVICE, _WINDOW, "", export),
}
