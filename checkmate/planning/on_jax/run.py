"""Schedule a training step of JAX, verify it and export it.

XLA tells what a step takes once it is compiled. So a schedule is chosen by compiling, as
``checkmate.jax.rematerialize`` does. Then it is run once, beside the plain step, in this process.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from checkmate.backends.jax.exported import write_step
from checkmate.backends.jax.models.load import LoadedStep
from checkmate.backends.jax.models.plan_step import compare_with_plain, graph_of_step, plan_of_step
from checkmate.backends.jax.plan import JaxPlan, StepRequest
from checkmate.backends.jax.transform import request_of
from checkmate.errors import NoScheduleError, UsageError
from checkmate.formats.folder import put_in_place, staging
from checkmate.ir.graph import Graph
from checkmate.ir.report import VerificationReport
from checkmate.ir.result import SolveResult
from checkmate.machine.supported import is_of_jax
from checkmate.planning.on_jax.profile import (
    described,
    loaded_step,
    refuse_refresh,
    require_same,
)
from checkmate.planning.on_jax.report import verification_report
from checkmate.planning.report.records import RunOutcome, write_records
from checkmate.planning.solving import keep_everything_peak, solve
from checkmate.progress import Cancelled, Progress, Report
from checkmate.request import ModelRequest, OnMiss
from checkmate.solvers.problem import SolveOptions
from checkmate.units import Budget


@dataclass(frozen=True, eq=False)
class SuppliedSchedule:
    """A schedule of a file, and the graph that it is for.

    ``as_given``: it is taken also where it is over the budget. Else another one is solved for then.
    """

    graph: Graph
    result: SolveResult
    as_given: bool

    @property
    def share(self) -> Budget:
        """Return the schedule's own budget as a share of the temporary bytes."""
        fixed, everything = self.graph.fixed_bytes, keep_everything_peak(self.graph)
        share = (self.result.budget_bytes - fixed) / max(1, everything - fixed)
        return Budget(share=min(1.0, share))


def run(
    request: ModelRequest,
    budget: Budget | None,
    directory: Path | None,
    *,
    given: SuppliedSchedule | None = None,
    refresh: bool = False,
    solver: str = "auto",
    options: SolveOptions | None = None,
    report: Report,
    cancelled: Cancelled,
) -> RunOutcome:
    """Schedule, verify and export the step that ``request`` names.

    ``budget``: what XLA's compiled step may hold; None: that of the ``given`` schedule. ``directory``: where
    to export to; None: nothing is written.

    Raises:
        NoScheduleError: no schedule that was compiled keeps the budget. OtherStepError: the given graph is
        not this step's. LoadError, TraceError, UsageError, ExportError, CancelledError: with the reason.
    """
    refuse_refresh(refresh)
    if given is not None and not is_of_jax(given.graph):
        raise UsageError(
            f"the graph {given.graph.name!r} is not of a JAX step, and Keras is set up for JAX here",
            hint="make a graph of the JAX step: checkmate profile MODEL; or set KERAS_BACKEND=tensorflow",
        )
    loaded = loaded_step(request, report, cancelled)

    def first(traced: Graph) -> SolveResult:
        assert given is not None
        require_same(traced, given.graph, request, given.result.budget_bytes)
        return given.result

    share = given.share if given is not None and budget is None else None
    wanted = request_of(
        share or budget or Budget(share=1.0),
        donate_argnums=loaded.donated,
        of="whole" if share is None else "temporary",
        on_miss=OnMiss.CLOSEST if given is not None and given.as_given else OnMiss.RAISE,
        solver=solver,
        options=options,
        quiet=True,
        report=report,
        cancelled=cancelled,
        first=None if given is None else first,
        as_given=given is not None and given.as_given,
    )
    try:
        plan = plan_of_step(loaded, wanted)
    except NoScheduleError as error:
        hint = "raise the budget, or use a smaller batch"
        raise NoScheduleError(str(error), hint=hint, details=error.details) from error
    return _verified(request, loaded, plan, wanted, directory)


def _verified(
    request: ModelRequest, loaded: LoadedStep, plan: JaxPlan, wanted: StepRequest, directory: Path | None
) -> RunOutcome:
    """Run a plan beside the plain step, write it, and say how it went."""
    traced = plan.graph
    if traced is None:  # the plain step keeps the budget
        traced = graph_of_step(loaded, report=wanted.report, cancelled=wanted.cancelled)
    graph = described(request, loaded, traced)
    result = plan.result or solve(graph, keep_everything_peak(graph), solver="keep-all")
    compared = compare_with_plain(loaded, plan, wanted)
    if directory is None:
        found = verification_report(request, graph, result, plan.report, compared, None)
        return RunOutcome(found, result, graph)
    wanted.report(Progress("export", message="writing the step by jax.export"))
    with staging(directory) as staged:
        exported = write_step(plan, loaded.name, staged, directory)
        found = verification_report(request, graph, result, plan.report, compared, exported)
        write_records(staged, graph, result, found)
        put_in_place(staged, directory)
    return RunOutcome(found, result, graph)


def verified(
    request: ModelRequest,
    budget: int | Budget | None,
    given: SuppliedSchedule,
    directory: Path | None,
    report: Report,
    cancelled: Cancelled,
) -> VerificationReport:
    """Verify a schedule of a file as it is; export it to a folder, if any.

    Raises:
        As ``run``.
    """
    allowed = Budget(bytes_=budget) if isinstance(budget, int) else budget
    return run(request, allowed, directory, given=given, report=report, cancelled=cancelled).report
