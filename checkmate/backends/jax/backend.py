"""A step of JAX: XLA tells what it takes, and it is run beside the plain step in this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax

from checkmate.backends.jax.compiler import JaxCompilation
from checkmate.backends.jax.device import device_here
from checkmate.backends.jax.exported import JaxExport, write_step
from checkmate.backends.jax.models.compare import Compared, compare
from checkmate.backends.jax.models.load import LoadedStep, load_step
from checkmate.backends.jax.step import BegunStep, JaxPlan, begin, none_fits
from checkmate.backends.jax.verification import verification_report
from checkmate.backends.jax.ways import Way
from checkmate.backends.protocol import CompiledFit, CompiledStep, CostsWanted, Fitted, StepSolver, other_step
from checkmate.backends.xla_policy.waits import WaitPolicy
from checkmate.errors import NoScheduleError, UsageError
from checkmate.formats.files import put_in_place, staging
from checkmate.formats.schedule import write_records
from checkmate.ir import Graph, SolveResult, VerificationReport
from checkmate.machine.cost_origin import file_facts
from checkmate.models.weights import weights_and_slots
from checkmate.progress import Cancelled, Progress, Report, stop_if
from checkmate.request import ModelRequest
from checkmate.units import Budget

_COUNTED = "costs are counted: XLA fuses ops, so none is timed by itself"


@dataclass(frozen=True, eq=False)
class Planned(Fitted):
    plan: JaxPlan


class JaxStep(CompiledStep):
    def __init__(
        self, request: ModelRequest, report: Report, cancelled: Cancelled, supplied: SolveResult | None = None
    ) -> None:
        """Load the step, and compile it plainly."""
        self.request, self.report, self.cancelled, self.supplied = request, report, cancelled, supplied
        self._loaded = _loaded(request, report, cancelled)
        self._begun = _begun(self._loaded, report, cancelled)
        # Not alone: the exported step must keep its memory inside any program, without XLA options.
        self.compilation: JaxCompilation = JaxCompilation(self._begun, self._loaded.name, alone=False)

    @cached_property
    def graph(self) -> Graph:
        return _with_origin(self.request, self._loaded, self.compilation.graph)

    def none_fits(self, fit: CompiledFit[Any, Any]) -> NoScheduleError:
        return none_fits(fit, "raise the budget, or use a smaller batch")

    def fitted(self, fit: CompiledFit[Any, Any], result: SolveResult) -> Planned:
        return Planned(result, fit.whole_bytes, (), JaxPlan.of(self._begun, (), fit))

    def verify(self, fitted: Planned, allowed: int, notes: tuple[str, ...]) -> VerificationReport:
        return self._reported(fitted, self._compared(fitted.plan), None)

    def export(
        self, fitted: Planned, directory: Path, allowed: int, notes: tuple[str, ...]
    ) -> VerificationReport:
        plan, compared = fitted.plan, self._compared(fitted.plan)
        self.report(Progress("export", message="writing the step by jax.export"))
        with staging(directory) as staged:
            exported = write_step(plan, self._loaded.name, staged, directory)
            found = self._reported(fitted, compared, exported)
            write_records(staged, self.graph, fitted.result, found)
            put_in_place(staged, directory)
        return found

    def _reported(
        self, fitted: Planned, compared: Compared, exported: JaxExport | None
    ) -> VerificationReport:
        told = fitted.plan.report
        return verification_report(self.request, self.graph, fitted.result, told, compared, exported)

    def _compared(self, plan: JaxPlan) -> Compared:
        with redirect_stdout(sys.stderr):
            return compare(
                plan,
                self._begun.executable,
                self._begun.traced.jaxpr,
                self._loaded.arguments,
                report=self.report,
                cancelled=self.cancelled,
            )


class JaxBackend:
    attempt_s = 5.0  # short, because a step takes several solves
    counted = True

    def profile(
        self, request: ModelRequest, costs: CostsWanted, *, report: Report, cancelled: Cancelled
    ) -> Graph:
        _refuse_refresh(costs)
        loaded = _loaded(request, report, cancelled)
        options = Way(WaitPolicy.NONE).trial_options(jax.default_backend())
        begun = _begun(loaded, report, cancelled, options)
        traced = begun.traced
        if request.as_written and traced.taken_out:
            begun = replace(begun, traced=replace(traced, jaxpr=traced.as_written, as_written=None))
        return _with_origin(request, loaded, JaxCompilation(begun, loaded.name, alone=True).graph)

    def step(self, request: ModelRequest, budget: Budget, costs: CostsWanted, solver: StepSolver) -> JaxStep:
        _refuse_refresh(costs)
        require_stated(budget)
        return JaxStep(request, solver.report, solver.cancelled)

    def step_of_file(
        self, request: ModelRequest, graph: Graph, result: SolveResult, report: Report, cancelled: Cancelled
    ) -> JaxStep:
        step = JaxStep(request, report, cancelled, result)
        if step.compilation.graph.fingerprint != graph.fingerprint:
            raise other_step(request, graph, result, step.compilation.graph.fingerprint)
        return step


def require_stated(budget: Budget) -> None:
    """Require that a budget is a size or a share: the least that XLA needs is not known."""
    if budget == Budget():
        raise UsageError(
            "the least that XLA needs is not known before a step is compiled",
            hint='write the budget as a size or a share, like "6GiB" or "40%"',
        )


def _refuse_refresh(costs: CostsWanted) -> None:
    if costs.refresh:
        raise UsageError(
            "the costs of a JAX step are counted, so there is nothing to measure again",
            hint="leave refresh= out",
        )


def _loaded(request: ModelRequest, report: Report, cancelled: Cancelled) -> LoadedStep:
    report(Progress("load", message=f"loading {request.shown}"))
    loaded = load_step(request)
    stop_if(cancelled)
    return loaded


def _begun(
    loaded: LoadedStep, report: Report, cancelled: Cancelled, choices: Sequence[dict[str, Any]] = ({},)
) -> BegunStep:
    with redirect_stdout(sys.stderr):  # what the user's code prints while it is traced
        return begin(
            loaded.step, loaded.shapes, (), loaded.donated, choices, report=report, cancelled=cancelled
        )


def _with_origin(request: ModelRequest, loaded: LoadedStep, graph: Graph) -> Graph:
    batch = loaded.batch_size
    plain = replace(request, batch_size=batch or request.batch_size, batch_chosen=False)
    metadata: dict[str, Any] = {
        **graph.metadata,
        "request": plain.to_json(),
        "notes": [*loaded.notes, *graph.origin.notes, _COUNTED],
    }
    if (model := loaded.keras_model) is not None:
        metadata |= weights_and_slots(model)
    if (facts := file_facts(request.model)) is not None:
        metadata["model_file"] = facts
    return replace(graph, batch_size=batch, device=device_here(), metadata=metadata)
