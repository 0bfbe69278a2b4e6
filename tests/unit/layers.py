"""Say in one table which package may import which.

It is sorted so that a line names only what stands above it. A key is a package or a module; the longest one
that fits a module counts. Its value names, separated by spaces, what it may import besides itself and
``VALUES``. ``checkmate.`` is left out in values.
"""

from __future__ import annotations

# Everyone may import these; each of them may import only others of them.
VALUES = ("checkmate", "errors", "units", "progress", "request", "fallback", "ir")

LAYERS: dict[str, str] = {
    "app": "",
    "app.actions": "",
    "app.crash_log": "",
    "checkmate.units": "",
    "checkmate.axis": "",
    "checkmate.doctor.tell": "",
    "checkmate.request": "",
    "app.views": "",
    "checkmate.doctor.diagnosis": "",
    "checkmate.bench": "",
    "checkmate.text_table": "",
    "checkmate.cli": "",
    "checkmate.doctor": "",
    "checkmate.solvers.tolerances": "",
    "checkmate.reports": "",
    "checkmate.reports.loaded": "",
    "checkmate.certificate": "",
    "checkmate.solvers": "",
    "checkmate.tf.kernels": "",
    "checkmate.tf.private": "",
    "checkmate.tf.quick_import": "",
    "checkmate.errors": "units",
    "checkmate.catalog": "",
    "checkmate.ipc": "",
    "checkmate.ir": "errors",
    "checkmate.progress": "errors",
    "checkmate.fallback": "errors request",
    "checkmate.tf.devices": "tf.kernels tf.private",
    "checkmate.tf.profiler": "tf.private",
    "app.theme": "catalog",
    "app.layout": "",
    "checkmate.formats": "",
    "checkmate.memory": "",
    "checkmate.records": "",
    "checkmate.solvers.problem": "",
    "checkmate.terminal": "",
    "checkmate.graphs": "catalog formats",
    "checkmate.machine": "catalog formats",
    "checkmate.models": "catalog machine",
    "checkmate.tf.models": "catalog models tf.private",
    "checkmate.solvers.compile": "machine",
    "app.workers": "ipc machine",
    "checkmate.reports.grouping": "formats reports.loaded",
    "checkmate.sweeps": "formats",
    "checkmate.solvers.known_frontier": "memory solvers.tolerances",
    "checkmate.solvers.certify": "memory solvers.problem solvers.tolerances",
    "checkmate.solvers.listeners": "solvers.problem",
    "checkmate.solvers.registry": "solvers.problem",
    "checkmate.tf.trace": "machine models tf.kernels tf.models tf.private",
    "checkmate.arguments": "formats graphs",
    "checkmate.doctor.facts": "machine solvers.compile",
    "checkmate.tf": "machine",
    "checkmate.tf.environment": "machine tf.quick_import",
    "checkmate.solvers.bounds": "solvers.certify solvers.problem",
    "checkmate.solvers.sequence": "memory solvers.certify solvers.compile solvers.problem solvers.tolerances",
    "checkmate.solvers.addresses": "memory solvers.compile",
    "checkmate.solvers.shared": "memory solvers.certify solvers.problem solvers.tolerances",
    "checkmate.bench.common": "formats machine solvers.listeners solvers.problem",
    "checkmate.tf.xla_calls": "tf.profiler tf.trace",
    "checkmate.doctor.child": "doctor.facts machine",
    "checkmate.doctor.lines": "doctor.diagnosis doctor.facts",
    "checkmate.tf.forks": "machine",
    "checkmate.tf.fresh": "machine tf.environment tf.forks",
    "checkmate.tf.memory_check": "machine memory tf.environment",
    "checkmate.solvers.once_bound": "solvers.bounds solvers.shared",
    "checkmate.solvers.baselines": "memory solvers.certify solvers.problem solvers.shared",
    "checkmate.solvers.chain": (
        "graphs memory solvers.certify solvers.compile solvers.problem solvers.sequence solvers.shared"
    ),
    "checkmate.solvers.constraints": "memory solvers.listeners solvers.problem solvers.shared",
    "checkmate.solvers.cpsat": (
        "machine solvers.bounds solvers.compile solvers.problem solvers.sequence solvers.shared"
    ),
    "checkmate.solvers.milp": (
        "memory solvers.bounds solvers.certify solvers.compile solvers.listeners solvers.problem "
        "solvers.sequence solvers.shared solvers.tolerances"
    ),
    "checkmate.solvers.pathcut": (
        "ipc machine memory solvers.certify solvers.problem solvers.shared solvers.tolerances"
    ),
    "checkmate.solvers.repeats": "memory solvers.problem solvers.sequence",
    "checkmate.solvers.certificates": (
        "certificate solvers.bounds solvers.pathcut solvers.shared solvers.tolerances"
    ),
    "checkmate.reports.page": "bench.common",
    "checkmate.tf.allocator": "memory tf.profiler tf.memory_check tf.trace tf.xla_calls",
    "checkmate.doctor.look": "doctor.child doctor.facts",
    "app.state": "app.layout formats memory solvers.constraints solvers.known_frontier",
    "checkmate.tf.emit": "memory tf.allocator tf.environment tf.fresh tf.private tf.memory_check tf.trace",
    "app.presenters": (
        "app.layout app.state axis catalog machine memory records reports.page solvers.bounds "
        "solvers.constraints solvers.known_frontier"
    ),
    "checkmate.solvers.portfolio": (
        "memory solvers.baselines solvers.bounds solvers.certify solvers.chain solvers.compile "
        "solvers.known_frontier solvers.listeners solvers.once_bound solvers.pathcut solvers.problem "
        "solvers.registry solvers.repeats solvers.sequence solvers.tolerances"
    ),
    "checkmate.tf.costs": (
        "machine memory tf.allocator tf.devices tf.emit tf.environment tf.fresh tf.kernels tf.models "
        "tf.private tf.profiler tf.memory_check tf.trace tf.xla_calls"
    ),
    "app.views.common": "app.actions app.presenters app.theme formats",
    "checkmate.tf.measure": (
        "machine tf.allocator tf.costs tf.devices tf.emit tf.environment tf.fresh tf.memory_check "
        "tf.profiler tf.trace tf.xla tf.xla_calls"
    ),
    "checkmate.tf.xla": "memory models tf.costs tf.emit tf.private tf.trace",
    "checkmate.tf.training": (
        "machine memory models tf.allocator tf.costs tf.devices tf.emit tf.fresh tf.models tf.private "
        "tf.profiler tf.memory_check tf.trace tf.xla tf.xla_calls"
    ),
    "checkmate.pipeline.progress_listener": "solvers.listeners",
    "checkmate.pipeline.checks": "memory solvers.certify",
    "checkmate.pipeline.solving": (
        "arguments memory pipeline.checks pipeline.progress_listener solvers.bounds solvers.compile "
        "solvers.constraints solvers.listeners solvers.once_bound solvers.portfolio solvers.problem "
        "solvers.registry terminal"
    ),
    "checkmate.pipeline.deterministic_solve": "pipeline.solving solvers.problem",
    "checkmate.pipeline.segments": "pipeline.solving solvers.constraints solvers.problem",
    "checkmate.jax": (
        "arguments catalog formats machine memory models pipeline.deterministic_solve "
        "pipeline.progress_listener pipeline.segments pipeline.solving solvers.baselines "
        "solvers.listeners solvers.problem solvers.registry terminal"
    ),
    "checkmate.pipeline.fitting": (
        "memory pipeline.solving solvers.addresses solvers.problem "
        "tf.allocator tf.costs tf.measure tf.memory_check tf.trace"
    ),
    "checkmate.pipeline.verification": (
        "machine memory pipeline.fitting tf.allocator tf.emit tf.measure tf.trace tf.xla"
    ),
    "checkmate.pipeline": (
        "arguments catalog certificate formats jax machine memory pipeline.fitting "
        "pipeline.progress_listener pipeline.segments pipeline.solving pipeline.verification "
        "solvers.baselines solvers.bounds solvers.certificates solvers.constraints solvers.problem "
        "solvers.tolerances terminal tf.allocator tf.costs tf.emit tf.environment tf.fresh "
        "tf.measure tf.memory_check tf.trace tf.xla"
    ),
    "checkmate.tf.peers": "catalog models tf.costs tf.devices tf.measure tf.models tf.trace tf.xla",
    "checkmate.bench.fidelity": "bench.common catalog machine pipeline solvers.problem text_table",
    "checkmate.cli.shared": (
        "arguments catalog formats machine pipeline solvers.certificates solvers.constraints solvers.problem "
        "solvers.registry sweeps terminal text_table"
    ),
    "checkmate.doctor.prove": (
        "doctor.child doctor.diagnosis doctor.tell formats ipc pipeline solvers.problem text_table "
        "tf.environment"
    ),
    "checkmate.frontiers": (
        "arguments catalog formats machine memory pipeline solvers.constraints solvers.known_frontier "
        "solvers.listeners solvers.once_bound solvers.portfolio solvers.problem solvers.registry "
        "solvers.tolerances sweeps text_table"
    ),
    "checkmate.listing": "catalog graphs machine pipeline solvers.registry",
    "checkmate.tf.probe": "pipeline tf.devices tf.profiler",
    "checkmate.training": (
        "arguments jax machine pipeline pipeline.deterministic_solve pipeline.segments solvers.baselines "
        "solvers.once_bound solvers.problem solvers.registry terminal tf.training"
    ),
    "checkmate.workers": (
        "formats ipc machine memory pipeline solvers.compile solvers.constraints "
        "solvers.known_frontier solvers.once_bound solvers.portfolio solvers.problem tf.environment"
    ),
    "checkmate.tf.child": "ipc machine tf.costs tf.measure tf.peers tf.quick_import tf.training",
    "checkmate.tf.fork_server": "ipc tf.child",
    "checkmate.bench.peers": (
        "bench.common bench.fidelity catalog formats pipeline solvers.problem text_table"
    ),
    "checkmate.doctor.screen": "doctor.diagnosis doctor.prove",
    "checkmate.bench.solvers": (
        "bench.common catalog formats frontiers graphs memory pipeline solvers.problem sweeps text_table"
    ),
    "checkmate.charts": "axis frontiers memory",
    "checkmate.largest": (
        "catalog formats frontiers graphs machine memory pipeline pipeline.fitting "
        "solvers.certify solvers.listeners solvers.once_bound "
        "solvers.portfolio solvers.problem solvers.registry solvers.tolerances sweeps text_table"
    ),
    "checkmate.workers.batches": "formats ipc largest solvers.problem workers",
    "checkmate.doctor.child_entry": "doctor.tell ipc machine tf.environment tf.probe",
    "app.models": (
        "app.presenters app.state app.workers catalog certificate formats ipc largest machine memory records "
        "solvers.bounds solvers.constraints solvers.known_frontier workers"
    ),
    "checkmate.bench.paper": (
        "bench.common bench.solvers frontiers graphs largest pipeline solvers.once_bound "
        "solvers.problem sweeps text_table"
    ),
    "app.views.budget": (
        "app.actions app.models app.presenters app.state app.theme app.views.common arguments axis"
    ),
    "app.views.graph": "app.actions app.layout app.models app.presenters app.state app.theme",
    "app.views.lists": "app.models app.presenters app.state app.theme app.views.common",
    "app.views.timeline": ("app.actions app.models app.presenters app.theme app.views.common axis memory"),
    "checkmate.reports.sections": (
        "bench.fidelity bench.paper bench.peers charts formats frontiers graphs machine memory "
        "reports.loaded reports.page sweeps"
    ),
    "app.views.inspector": ("app.models app.presenters app.state app.theme app.views.common app.views.lists"),
    "app.views.compare": (
        "app.models app.presenters app.theme app.views.common app.views.lists app.views.timeline app.workers "
        "axis"
    ),
    "app.views.playback": (
        "app.models app.presenters app.theme app.views.common app.views.graph app.views.timeline "
        "app.workers formats ipc workers"
    ),
    "checkmate.reports.recognize": "formats reports.grouping reports.loaded reports.page reports.sections",
    "app.views.figures": (
        "app.models app.presenters app.theme app.views.budget app.views.graph app.views.timeline formats"
    ),
    "app.views.window": (
        "app.actions app.models app.presenters app.state app.theme app.views.budget app.views.common "
        "app.views.compare app.views.figures app.views.graph app.views.inspector app.views.lists "
        "app.views.playback app.views.timeline app.workers catalog doctor.diagnosis doctor.lines doctor.look "
        "frontiers graphs ipc machine records solvers.constraints workers"
    ),
    "checkmate.reports.write": "formats reports.page reports.recognize",
    "app.look": "app.models doctor.tell ipc",
    "app.bootstrap": (
        "app.crash_log app.look app.models app.presenters app.state app.theme app.views.playback "
        "app.views.window catalog doctor.child doctor.diagnosis doctor.facts doctor.lines doctor.tell "
        "formats machine records"
    ),
    "checkmate.cli.commands": (
        "app.bootstrap app.presenters bench.common bench.fidelity bench.paper bench.peers bench.solvers "
        "catalog charts cli.shared doctor.diagnosis doctor.lines doctor.look doctor.prove doctor.screen "
        "formats frontiers graphs largest listing machine memory pipeline records reports.write "
        "solvers.constraints solvers.portfolio solvers.problem solvers.registry "
        "terminal text_table"
    ),
    "checkmate.python_api": (
        "arguments catalog formats frontiers largest pipeline reports.recognize reports.write "
        "solvers.constraints solvers.problem solvers.registry sweeps terminal"
    ),
    "app.__main__": "app.bootstrap",
    "checkmate.cli.main": "cli.commands cli.shared machine terminal tf.environment",
    "checkmate.__main__": "cli.commands cli.main machine",
}
