"""The stages that run a step.

Names are checked before TensorFlow, JAX or PyTorch is imported, since the import takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Unpack

from checkmate.arguments import (
    BudgetLike,
    GraphLike,
    ModelLike,
    ResultLike,
    StepOptions,
    as_request,
    graph_of,
    request_for,
    result_of,
    step_budget_of,
)
from checkmate.backends.protocol import CostsWanted, backend_for
from checkmate.catalog.model_names import require_named
from checkmate.formats.files import require_output_folder
from checkmate.ir import Graph, VerificationReport
from checkmate.planning.exporting import RunOutcome, StepPlanning, exported, exported_within, verified
from checkmate.planning.schedule_solver import ScheduleSolver
from checkmate.progress import Cancelled, Report, never
from checkmate.request import ModelRequest, Target
from checkmate.solvers.constraints import Constraints
from checkmate.solvers.problem import SolveOptions
from checkmate.terminal import progress_line
from checkmate.units import Budget


def _given(budget: BudgetLike | None) -> int | Budget | None:
    return budget if budget is None or isinstance(budget, int) else step_budget_of(budget)


def profile(
    model: ModelLike,
    *,
    costs: str = "measured",
    refresh: bool = False,
    estimated: Callable[[Graph], object] | None = None,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
    **step: Unpack[StepOptions],
) -> Graph:
    """Load the model, trace its training step and cost every op.

    It works like the command ``checkmate profile``. ``model`` is a Keras model, a name (``"unet"``,
    ``"keras.applications.ResNet50"``), the path of a model's file, ``"file.py:function"`` or a
    ``ModelRequest``. ``step`` are the command's options, as fields of ``ModelRequest``: ``batch_size``,
    ``loss``, ``optimizer``, ``input_shape``, ``mixed_precision``, ``device``, ``allow_code``, ``target``. A
    Keras model is saved to a temporary file, with what it is compiled with: other processes measure it.

    ``costs`` is ``measured`` or ``analytic``. Costs that were measured on this machine before are taken from
    the user's cache folder, unless ``refresh``; ``metadata["profile"]["cache"]`` says how many, and when they
    were measured. ``estimated`` is called with the graph at estimated costs (operation counts) before
    measuring begins. With Keras on JAX the step is JAX's, and costs are counted.

    Progress is written to standard error, unless ``quiet``; ``report`` gets it instead.

    Raises:
        UsageError: an argument cannot be read. LoadError, TraceError, ProfileError: with the reason.
        CancelledError: the user cancelled.

    >>> checkmate.profile("unet", batch_size=8, costs="analytic").n
    """
    with as_request(model, **step) as request, progress_line(quiet=quiet, report=report) as told:
        require_named(request)
        wanted = CostsWanted(costs, refresh, estimated)
        return backend_for(request).profile(request, wanted, report=told, cancelled=cancelled)


def verify(
    model: ModelLike,
    graph: GraphLike,
    result: ResultLike,
    *,
    budget: BudgetLike | None = None,
    target: Target | str | None = None,
    allow_code: bool | None = None,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
) -> VerificationReport:
    """Measure the scheduled step beside the plain one.

    It works like the command ``checkmate verify``. Loss, gradients, peak and time are compared. ``model`` is
    as for ``profile``: the one that ``graph`` was profiled from. Its batch, loss and shapes are in the graph;
    only a ``ModelRequest`` is taken as it is. ``graph`` is a graph, its file or name, ``result`` what
    ``solve`` returned, or a schedule file. ``budget`` is what the device's allocator may show; a share is of
    the plain step's peak. None means the equivalent of the schedule's own budget. Progress is as for
    ``profile``.

    Raises:
        OtherStepError: ``graph`` is not this model's. StepTooLargeError: the scheduled step does not fit.
        UsageError: an argument cannot be read.
    """
    with _planning(model, graph, result, target, allow_code, report, quiet, cancelled) as planning:
        return verified(planning, _given(budget))


def export(
    model: ModelLike,
    graph: GraphLike,
    result: ResultLike,
    directory: str | Path,
    *,
    budget: BudgetLike | None = None,
    target: Target | str | None = None,
    allow_code: bool | None = None,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
) -> VerificationReport:
    """Write the export folder, verified and measured after reloading.

    It works like the command ``checkmate export`` without a budget. The folder appears whole or not at all.
    Arguments are as for ``verify``.

    Raises:
        VerificationError: the gradients are not the plain step's. ExportError: the folder cannot be written.
        OtherStepError, StepTooLargeError, UsageError: as ``verify``.
    """
    folder = Path(directory)
    with _planning(model, graph, result, target, allow_code, report, quiet, cancelled, folder) as planning:
        return exported(planning, _given(budget), folder)


def export_within(
    model: ModelLike,
    graph: GraphLike,
    first: ResultLike,
    budget: BudgetLike,
    directory: str | Path,
    *,
    constraints: Constraints | None = None,
    options: SolveOptions | None = None,
    target: Target | str | None = None,
    allow_code: bool | None = None,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
) -> RunOutcome:
    """Export ``first`` if its measured peak is within ``budget``.

    It works like the command ``checkmate export --budget``. Otherwise it solves for less, and goes on as
    ``run`` does, until a measured peak fits. ``budget`` is what the device's allocator may show; a share is
    of the plain step's peak. Constraints bind what is solved here. Other arguments are as for ``verify``.

    Raises:
        OtherStepError: ``graph`` is not this model's. UsageError: an argument cannot be read. Others as
        ``run``.
    """
    folder = Path(directory)
    with _planning(
        model, graph, first, target, allow_code, report, quiet, cancelled, folder, options, constraints
    ) as planning:
        return exported_within(planning, step_budget_of(budget), folder)


@contextmanager
def _planning(
    model: ModelLike,
    graph: GraphLike,
    result: ResultLike,
    target: Target | str | None,
    allow_code: bool | None,
    report: Report | None,
    quiet: bool,
    cancelled: Cancelled,
    folder: Path | None = None,
    options: SolveOptions | None = None,
    constraints: Constraints | None = None,
) -> Iterator[StepPlanning]:
    """Yield the planning of the step that ``graph`` was profiled from, with a schedule for it."""
    read = graph_of(graph)
    with as_request(model, target=target, allow_code=allow_code) as named:
        request = named if isinstance(model, ModelRequest) else request_for(named, read)
        require_named(request)
        solved = result_of(result, read)
        with progress_line(quiet=quiet, report=report) as told:
            if folder is not None:
                require_output_folder(folder)
            backend = backend_for(request, read)
            chosen = options or SolveOptions(time_limit_s=backend.attempt_s)
            solver = ScheduleSolver("auto", chosen, told, cancelled, constraints, backend.counted)
            yield StepPlanning(backend.step_of_file(request, read, solved, told, cancelled), solver)


def run(
    model: ModelLike,
    budget: BudgetLike,
    directory: str | Path,
    *,
    costs: str = "measured",
    refresh: bool = False,
    solver: str = "auto",
    options: SolveOptions | None = None,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
    **step: Unpack[StepOptions],
) -> RunOutcome:
    """Profile and solve until the peak fits; then verify and export.

    It works like the command ``checkmate run``. ``model``, ``costs``, ``refresh``, the options of the step
    and progress are as for ``profile``. The step is measured, and the budget to solve for is corrected, until
    the peak fits. ``budget`` is ``"6GiB"``, bytes, ``"min"``, or a share (``"60%"``) of the plain step's
    *measured* peak. ``directory`` is the folder to write. Op costs may be known from before; peaks, seconds
    and gradients in the report are always measured now.

    Raises:
        NoScheduleError: none fits (exit code 3 if that is proved, 4 if a limit was reached).
        VerificationError and those of ``profile`` and ``export``.

    >>> checkmate.run("unet", "60%", "out", batch_size=8).report.peak_bytes["measured"]
    """
    allowed, folder = step_budget_of(budget), Path(directory)
    with as_request(model, **step) as request, progress_line(quiet=quiet, report=report) as told:
        require_named(request)
        require_output_folder(folder)
        backend = backend_for(request)
        chosen = options or SolveOptions(time_limit_s=backend.attempt_s)
        schedules = ScheduleSolver(solver, chosen, told, cancelled, counted=backend.counted)
        planned = backend.step(request, allowed, CostsWanted(costs, refresh), schedules)
        return exported_within(StepPlanning(planned, schedules), allowed, folder)
