"""PyTorch as a backend of planning: a request becomes a graph, or a step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from checkmate.backends.outcomes import reported_seconds
from checkmate.backends.protocol import Allowed, CostsWanted, MeteredStep, StepSolver, other_step
from checkmate.backends.torch.export import reloaded_peak, write_step
from checkmate.backends.torch.graph import Region
from checkmate.backends.torch.load import LoadedModule, Traced, load_module, traced
from checkmate.backends.torch.step import Measured, RegionStep
from checkmate.formats.files import put_in_place, staging
from checkmate.formats.schedule import write_records
from checkmate.ir import Graph, Schedule, SolveResult, VerificationReport
from checkmate.machine.processor import processor_name
from checkmate.memory.simulate import simulate
from checkmate.progress import Cancelled, Progress, Report, stop_if
from checkmate.request import ModelRequest
from checkmate.runner import TORCH
from checkmate.units import Budget, format_bytes_apart


class TorchStep(RegionStep, MeteredStep):
    """The step of a user's module."""

    def __init__(
        self,
        request: ModelRequest,
        step: Traced,
        report: Report,
        cancelled: Cancelled,
        supplied: SolveResult | None = None,
    ) -> None:
        super().__init__(step.region, step.inputs, report, cancelled)
        self.supplied, self._request, self._names, self._notes = supplied, request, step.names, step.notes

    @property
    def share_bytes(self) -> int:
        return self.plain_bytes

    def own_budget(self) -> Allowed:
        assert self.supplied is not None
        return Allowed(self.supplied.budget_bytes)

    @property
    def origin_notes(self) -> tuple[str, ...]:
        return self._notes

    def verify(self, fitted: Measured, allowed: int, notes: tuple[str, ...]) -> VerificationReport:
        return self._reported(fitted, allowed, notes, None)

    def export(
        self, fitted: Measured, directory: Path, allowed: int, notes: tuple[str, ...]
    ) -> VerificationReport:
        schedule = fitted.result.require_schedule()
        with staging(directory) as staged:
            self.report(Progress("export", message="writing the two halves, and running them again"))
            write_step(self.region, schedule, self._inputs, self._names, staged)
            shown = self.graph.fixed_bytes + reloaded_peak(staged, self.region.device, self.cancelled)
            found = self._reported(fitted, allowed, notes, shown)
            write_records(staged, self.graph, fitted.result, found)
            put_in_place(staged, directory)
        return found

    def _reported(
        self, fitted: Measured, allowed: int, notes: tuple[str, ...], reloaded: int | None
    ) -> VerificationReport:
        graph, beside, schedule = self.graph, fitted.beside, fitted.result.require_schedule()
        predicted, plain = (simulate(graph, each).peak_bytes for each in (schedule, Schedule.plain(graph)))
        seen = None if self.plain_peak is None else self.plain_bytes
        return VerificationReport(
            model=self._request.shown,
            device=_device_name(self.region),
            batch_size=graph.batch_size,
            budget_bytes=allowed,
            gradients=self._gradients(fitted),
            loss={"plain": beside.plain_loss, "optimized": beside.loss},
            peak_bytes={
                "measured": fitted.expected_bytes,
                "measured_requested": fitted.expected_bytes,
                "predicted": predicted,
                "predicted_requested": predicted,
                "plain_measured": seen,
                "plain_measured_requested": seen,
                "plain_predicted": plain,
                "plain_predicted_requested": plain,
                "reloaded_measured": reloaded,
            },
            seconds=reported_seconds(
                graph, float(simulate(graph, schedule).cost), beside.seconds, beside.plain_seconds
            ),
            recomputations=schedule.recomputations,
            steps=len(schedule.steps),
            problems=tuple(_problems(fitted, allowed, reloaded)),
            notes=notes,
            settings={"framework": TORCH, "torch": torch.__version__},
        )

    def _gradients(self, fitted: Measured) -> dict[str, Any]:
        beside = fitted.beside
        return {
            "compared": "gradients",
            "equal": beside.equal,
            "bitwise": beside.bitwise,
            "state_bitwise": beside.bitwise,
            "worst": None,
            "worst_of_largest": {"name": beside.worst[0], "error": beside.worst[1]},
            "plain_rerun_relative_error": beside.spread,
            "overall_relative_error": beside.apart,
            "count": len(self.region.joint.gradients),
            "steps": 1,
            "batch_size": self.graph.batch_size,
            "device": _device_name(self.region),
        }


def _problems(fitted: Measured, allowed: int, reloaded: int | None) -> list[str]:
    problems = []
    for what, shown in (("the scheduled step", fitted.expected_bytes), ("the reloaded step", reloaded)):
        if shown is not None and shown > allowed:
            peak, budget = format_bytes_apart(shown, allowed)
            problems.append(f"{what} takes {peak}, which is over the budget of {budget}")
    return problems


class TorchBackend:
    attempt_s = 5.0  # there are several solves
    counted = True

    def profile(
        self, request: ModelRequest, costs: CostsWanted, *, report: Report, cancelled: Cancelled
    ) -> Graph:
        loaded, found = _traced(request, report, cancelled)
        graph = _with_origin(request, loaded, found)
        if costs.kind == "analytic":
            return graph
        if costs.estimated is not None:
            costs.estimated(graph)
        return RegionStep(found.region.with_graph(graph), found.inputs, report, cancelled).graph

    def step(
        self, request: ModelRequest, budget: Budget, costs: CostsWanted, solver: StepSolver
    ) -> TorchStep:
        loaded, found = _traced(request, solver.report, solver.cancelled)
        graph = _with_origin(request, loaded, found)
        solver.refuse_hopeless(graph, budget)
        found = replace(found, region=found.region.with_graph(graph))
        return TorchStep(request, found, solver.report, solver.cancelled)

    def step_of_file(
        self, request: ModelRequest, graph: Graph, result: SolveResult, report: Report, cancelled: Cancelled
    ) -> TorchStep:
        loaded, found = _traced(request, report, cancelled)
        here = _with_origin(request, loaded, found)
        if here.origin.step_fingerprint != graph.origin.step_fingerprint:
            raise other_step(request, graph, result, here.fingerprint)
        found = replace(found, region=found.region.with_graph(graph))
        return TorchStep(request, found, report, cancelled, result)


def _traced(request: ModelRequest, report: Report, cancelled: Cancelled) -> tuple[LoadedModule, Traced]:
    report(Progress("load", message=f"loading {request.shown}"))
    loaded = load_module(request)
    stop_if(cancelled)
    report(Progress("trace", message="tracing the training step"))
    return loaded, traced(loaded)


def _with_origin(request: ModelRequest, loaded: LoadedModule, found: Traced) -> Graph:
    graph = found.region.graph
    batch = request.batch_size if loaded.sized else None
    assert graph.device is not None
    metadata = {
        **graph.metadata,
        "request": replace(request, batch_chosen=False).to_json(),
        "notes": [*graph.origin.notes, *found.notes],
        "step_fingerprint": graph.fingerprint,
        "torch_nodes": len(found.region.joint.nodes),
    }
    device = replace(graph.device, name=_device_name(found.region))
    return replace(graph, batch_size=batch, device=device, metadata=metadata)


def _device_name(region: Region) -> str:
    return str(torch.cuda.get_device_name()) if region.device == "cuda" else processor_name()
