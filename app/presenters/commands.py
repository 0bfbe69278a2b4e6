"""What is on screen as commands for a terminal, and as Python."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, fields
from pathlib import Path

from app.state.solve import Aim
from checkmate.catalog.bundled import graph_files, graph_name
from checkmate.ir import CostOrigin, Graph
from checkmate.request import ModelRequest
from checkmate.solvers.constraints import Constraints

_OPTIONS = ("loss", "optimizer", "mixed_precision", "device", "target")


def profiled_from(graph: Graph) -> ModelRequest | None:
    asked = graph.origin.request
    if not isinstance(asked.get("model"), str):
        return None
    return ModelRequest.from_json(asked)


@dataclass(frozen=True)
class OnScreen:
    """A graph, and what is asked of it. ``file``: the graph's, or the saved exploration. With an ``aim``,
    ``budget_bytes`` means nothing."""

    graph: Graph
    file: Path | None
    budget_bytes: int
    aim: Aim | None
    constraints: Constraints
    seconds: float

    @property
    def request(self) -> ModelRequest | None:
        return profiled_from(self.graph)

    @property
    def can_be_written(self) -> bool:
        return self.file is not None or self.request is not None


def as_commands(shown: OnScreen) -> str:
    """One command per line: profile the model, unless the graph is in a file; solve; export where the model
    is known."""
    name = _file_name(shown.graph)
    graph, schedule = _graph_argument(shown, f"{name}.json"), f"{name}.schedule.json"
    lines, request = [], shown.request
    backend = [shown.graph.runner.environment] if shown.graph.runner.environment else []
    if shown.file is None and request is not None:
        costs = ["--costs", "analytic"] if _is_estimated(shown.graph) else []
        lines.append([*backend, "checkmate", "profile", *_model_arguments(request), *costs, "-o", graph])
    asked = [*_aim(shown), *_constraints(shown.constraints), "--time-limit", f"{shown.seconds:g}"]
    lines.append(["checkmate", "solve", graph, *asked, "-o", schedule])
    if request is not None:
        code = ["--allow-code"] if request.allow_code else []
        exported = ["-g", graph, *code, "-o", f"{name}-rematerialized"]
        lines.append([*backend, "checkmate", "export", request.model, schedule, *exported])
    return "\n".join(map(shlex.join, lines))


def as_python(shown: OnScreen) -> str:
    lines, request = ["from pathlib import Path", "", "import checkmate", ""], shown.request
    if shown.graph.runner.environment:  # before anything imports Keras
        lines = ["import os", "", f'os.environ["KERAS_BACKEND"] = "{shown.graph.runner.backend}"', "", *lines]
    if request is not None:
        lines.append(f"request = checkmate.{_written(request)}")
    if shown.file is not None:
        lines.append(f"graph = checkmate.read_graph(Path({str(shown.file)!r}))")
    else:
        costs = ', costs="analytic"' if _is_estimated(shown.graph) else ""
        lines.append(f"graph = checkmate.profile(request{costs})")
    how = f", options=checkmate.SolveOptions(time_limit_s={shown.seconds:g})"
    if not shown.constraints.is_empty:
        how += f", constraints=checkmate.{_written(shown.constraints)}"
    if shown.aim is None:
        lines.append(f"result = checkmate.solve(graph, {shown.budget_bytes}{how})")
    else:
        cost = f", max_overhead={shown.aim.max_overhead!r}" if shown.aim.limited else ""
        lines.append(f"result = checkmate.least_memory(graph{cost}{how}).result")
    if request is None:
        lines.append("print(result.require_schedule().steps)")
    else:
        folder = f"{_file_name(shown.graph)}-rematerialized"
        lines.append(f"checkmate.export(request, graph, result, Path({folder!r}))")
    return "\n".join(lines) + "\n"


def _is_estimated(graph: Graph) -> bool:
    return graph.cost_origin is CostOrigin.ANALYTIC


def _graph_argument(shown: OnScreen, new: str) -> str:
    if shown.file is None:
        return new
    return graph_name(shown.file) if shown.file in graph_files() else str(shown.file)


def _model_arguments(request: ModelRequest) -> list[str]:
    arguments = [request.model, "-b", str(request.batch_size)]
    for field in _OPTIONS:
        value = getattr(request, field)
        if value is not None:
            arguments += [f"--{field.replace('_', '-')}", str(value)]
    if request.input_shape is not None:
        arguments += ["--input-shape", ",".join(map(str, request.input_shape))]
    return [*arguments, "--allow-code"] if request.allow_code else arguments


def _aim(shown: OnScreen) -> list[str]:
    if shown.aim is None:
        return ["--budget", str(shown.budget_bytes)]
    cost = f"{100 * shown.aim.max_overhead:.6g}%" if shown.aim.limited else "any"
    return ["--max-overhead", cost]


def _constraints(constraints: Constraints) -> list[str]:
    kept = [*constraints.keep, *constraints.keep_groups]
    once = [*constraints.never_recompute, *constraints.never_recompute_groups]
    arguments = [f"--keep={name}" for name in kept] + [f"--never-recompute={name}" for name in once]
    return arguments if constraints.recompute_gradients else [*arguments, "--no-gradient-recompute"]


def _written(value: ModelRequest | Constraints) -> str:
    given = ((field, getattr(value, field.name)) for field in fields(value))
    words = ", ".join(f"{field.name}={worth!r}" for field, worth in given if worth != field.default)
    return f"{type(value).__name__}({words})"


def _file_name(graph: Graph) -> str:
    return re.sub(r"[^\w.+-]+", "-", graph.name).strip("-.") or "graph"
