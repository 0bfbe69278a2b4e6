"""Say which package may import which: one table, lowest layer first.

A key is a package or a module; the longest one that fits a module counts. Its value names, parted by spaces,
what it may import besides itself and ``VALUES``. ``checkmate.`` is left out in values.
"""

from __future__ import annotations

# Everyone may import these; none of them imports anything but another of them.
VALUES = ("checkmate", "errors", "units", "progress", "request", "ir")

LAYERS: dict[str, str] = {
    "app": "",
    "app.crash_log": "",
    "checkmate.units": "",
    "checkmate.doctor.tell": "",
    "checkmate.request": "",
    "app.views": "",
    "checkmate.doctor.diagnosis": "",
    "checkmate.bench": "",
    "checkmate.cli": "",
    "checkmate.doctor": "",
    "checkmate.reports": "",
    "checkmate.reports.loaded": "",
    "checkmate.solvers": "",
    "checkmate.tf.profiler": "",
    "checkmate.tf.error_text": "",
    "checkmate.tf.kernels": "",
    "checkmate.tf.private": "",
    "checkmate.errors": "units",
    "checkmate.catalog": "",
    "checkmate.ipc": "",
    "checkmate.ir": "errors",
    "checkmate.progress": "errors",
    "checkmate.tf.devices": "tf.kernels tf.private",
    "app.theme": "catalog",
    "checkmate.tf.builtin": "catalog tf.error_text",
    "app.workers": "ipc",
    "app.layout": "",
    "checkmate.formats": "",
    "checkmate.memory": "",
    "checkmate.solvers.problem": "",
    "checkmate.solvers.shared": "",
    "checkmate.solvers.compile": "ipc",
    "checkmate.terminal": "",
    "checkmate.tf.models": "catalog tf.builtin tf.error_text",
    "checkmate.graphs": "catalog formats",
    "checkmate.machine": "catalog formats",
    "checkmate.arguments": "graphs",
    "checkmate.reports.grouping": "formats reports.loaded",
    "checkmate.sweeps": "formats",
    "checkmate.solvers.known_frontier": "memory",
    "checkmate.solvers.certify": "memory solvers.problem",
    "checkmate.solvers.registry": "solvers.problem",
    "checkmate.solvers.constraints": "memory solvers.problem solvers.shared",
    "checkmate.tf.trace": "tf.kernels tf.models tf.private",
    "checkmate.bench.common": "formats machine solvers.problem",
    "checkmate.doctor.facts": "machine solvers.compile",
    "checkmate.tf": "machine",
    "checkmate.tf.environment": "machine",
    "checkmate.solvers.baselines": "memory solvers.certify solvers.problem solvers.shared",
    "checkmate.solvers.bounds": "solvers.certify solvers.problem",
    "checkmate.solvers.pathcut": "ipc memory solvers.certify solvers.problem solvers.shared",
    "checkmate.solvers.sequence": "memory solvers.certify solvers.compile solvers.problem",
    "app.state": "app.layout memory solvers.constraints solvers.known_frontier",
    "checkmate.tf.xla_calls": "tf.profiler tf.trace",
    "checkmate.reports.page": "bench.common",
    "checkmate.doctor.child": "doctor.facts",
    "checkmate.doctor.lines": "doctor.diagnosis doctor.facts",
    "checkmate.tf.fresh": "tf.environment",
    "checkmate.tf.room": "machine memory tf.environment",
    "checkmate.solvers.once_bound": "solvers.bounds",
    "checkmate.solvers.chain": (
        "graphs memory solvers.certify solvers.compile solvers.problem solvers.sequence solvers.shared"
    ),
    "checkmate.solvers.cpsat": (
        "memory solvers.bounds solvers.certify solvers.compile solvers.problem solvers.sequence solvers.shared"
    ),
    "checkmate.solvers.milp": (
        "memory solvers.bounds solvers.certify solvers.compile solvers.problem solvers.sequence solvers.shared"
    ),
    "checkmate.solvers.warm_up": (
        "ipc memory solvers.compile solvers.pathcut solvers.problem solvers.registry solvers.sequence"
    ),
    "checkmate.tf.allocator": "tf.profiler tf.trace tf.xla_calls",
    "app.presenters": "app.layout app.state machine memory reports.page solvers.known_frontier",
    "checkmate.doctor.look": "doctor.child doctor.facts",
    "checkmate.solvers.portfolio": (
        "memory solvers.baselines solvers.bounds solvers.certify solvers.chain solvers.compile "
        "solvers.known_frontier solvers.once_bound solvers.pathcut solvers.problem solvers.registry "
        "solvers.sequence solvers.warm_up"
    ),
    "checkmate.tf.emit": "memory tf.allocator tf.environment tf.fresh tf.private tf.trace",
    "app.models": (
        "app.presenters app.state app.workers formats machine memory solvers.bounds "
        "solvers.constraints solvers.known_frontier"
    ),
    "checkmate.tf.costs": (
        "machine memory tf.allocator tf.devices tf.emit tf.environment tf.fresh tf.kernels tf.models "
        "tf.private tf.profiler tf.room tf.trace tf.xla_calls"
    ),
    "app.views.common": "app.models app.presenters app.state app.theme formats",
    "app.views.graph": "app.layout app.models app.presenters app.state app.theme",
    "checkmate.tf.measure": (
        "machine memory tf.costs tf.devices tf.emit tf.environment tf.fresh tf.profiler tf.room tf.trace tf.xla_calls"
    ),
    "checkmate.tf.training": (
        "memory tf.allocator tf.costs tf.devices tf.emit tf.fresh tf.models tf.profiler tf.trace tf.xla_calls"
    ),
    "app.views.budget": "app.models app.presenters app.state app.theme app.views.common machine",
    "app.views.lists": "app.layout app.models app.theme app.views.common",
    "app.views.timeline": "app.models app.presenters app.theme app.views.common",
    "checkmate.pipeline": (
        "catalog formats machine memory solvers.bounds solvers.constraints solvers.once_bound "
        "solvers.portfolio solvers.problem solvers.registry tf.allocator tf.costs tf.emit "
        "tf.environment tf.fresh tf.measure tf.trace"
    ),
    "checkmate.tf.peers": "catalog tf.costs tf.devices tf.measure tf.models tf.trace",
    "app.views.inspector": (
        "app.models app.presenters app.state app.theme app.views.common app.views.lists machine"
    ),
    "app.views.playback": (
        "app.models app.presenters app.theme app.views.common app.views.graph app.views.timeline app.workers formats"
    ),
    "checkmate.bench.fidelity": "bench.common catalog pipeline solvers.problem",
    "checkmate.cli.shared": (
        "catalog machine pipeline solvers.constraints solvers.problem solvers.registry sweeps terminal"
    ),
    "checkmate.doctor.prove": (
        "doctor.child doctor.diagnosis doctor.tell formats ipc pipeline solvers.problem tf.environment"
    ),
    "checkmate.frontiers": (
        "formats machine memory pipeline solvers.certify solvers.constraints solvers.known_frontier "
        "solvers.once_bound solvers.portfolio solvers.problem solvers.registry sweeps"
    ),
    "checkmate.listing": "catalog graphs machine pipeline solvers.registry",
    "checkmate.tf.look": "pipeline tf.devices tf.profiler",
    "checkmate.training": "arguments pipeline solvers.problem terminal tf.training",
    "checkmate.workers": (
        "formats ipc machine memory pipeline solvers.compile solvers.constraints "
        "solvers.known_frontier solvers.once_bound solvers.portfolio solvers.problem tf.environment"
    ),
    "checkmate.tf.child": "ipc tf.costs tf.measure tf.peers tf.training",
    "app.views.window": (
        "app.models app.presenters app.state app.theme app.views.budget app.views.common "
        "app.views.graph app.views.inspector app.views.lists app.views.playback app.views.timeline "
        "app.workers catalog doctor.diagnosis doctor.lines doctor.look graphs machine"
    ),
    "checkmate.bench.peers": "bench.common bench.fidelity catalog pipeline solvers.problem",
    "checkmate.doctor.screen": "doctor.diagnosis doctor.prove",
    "checkmate.bench.solvers": (
        "bench.common catalog formats frontiers graphs memory pipeline solvers.problem sweeps"
    ),
    "checkmate.charts": "frontiers memory",
    "checkmate.largest": (
        "catalog formats frontiers graphs machine memory pipeline solvers.certify solvers.once_bound "
        "solvers.portfolio solvers.problem solvers.registry sweeps"
    ),
    "checkmate.doctor.child_entry": "doctor.tell ipc tf.environment tf.look",
    "app.bootstrap": (
        "app.crash_log app.models app.state app.theme app.views.playback app.views.window catalog formats machine"
    ),
    "checkmate.bench.paper": (
        "bench.common bench.solvers frontiers graphs largest pipeline solvers.once_bound solvers.problem sweeps"
    ),
    "app.__main__": "app.bootstrap",
    "app.look": "app.bootstrap app.models doctor.tell ipc",
    "checkmate.reports.sections": (
        "bench.fidelity bench.paper bench.peers charts formats frontiers graphs machine memory "
        "reports.loaded reports.page sweeps"
    ),
    "checkmate.reports.recognize": "formats reports.grouping reports.loaded reports.page reports.sections",
    "checkmate.reports.write": "formats reports.page reports.recognize",
    "checkmate.python_api": (
        "arguments frontiers largest pipeline reports.recognize reports.write solvers.problem solvers.registry sweeps"
    ),
    "checkmate.cli.commands": (
        "bench.common bench.fidelity bench.paper bench.peers bench.solvers charts cli.shared "
        "doctor.lines doctor.look doctor.prove doctor.screen formats frontiers graphs largest "
        "machine pipeline reports.write solvers.constraints solvers.problem "
        "solvers.registry terminal"
    ),
    "checkmate.cli.main": (
        "app.bootstrap cli.commands cli.shared formats graphs listing machine pipeline "
        "solvers.registry terminal tf.environment"
    ),
    "checkmate.__main__": "cli.commands cli.main",
}
