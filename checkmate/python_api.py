"""The commands in Python, and the files that they read and write.

The commands are ``info``, ``solve``, ``policy``, ``frontier``, ``max-batch``, ``plan`` and ``report``, and
sweeps of many graphs; those that measure are in ``checkmate.planning.stages``. They take the command line's
words with its defaults, and give the same numbers. A graph is a ``Graph``, a graph's file, a bundled graph's
name (``"unet-b8.graph"``) or a network of the paper (``"paper.unet@64"``). What takes long writes its
progress to standard error, unless ``quiet``; ``report`` gets it instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from checkmate import formats
from checkmate.arguments import (
    BudgetLike,
    GraphLike,
    ModelLike,
    TraceOptions,
    as_request,
    budget_bytes_of,
    budgets_of,
    bytes_of,
    graph_of,
    overhead_of,
    request_of,
    result_of,
)
from checkmate.errors import UsageError
from checkmate.ir import Graph
from checkmate.progress import Cancelled, Report, never
from checkmate.request import ModelRequest
from checkmate.solvers.problem import SolveOptions
from checkmate.solvers.registry import BASELINES
from checkmate.terminal import progress_line

if TYPE_CHECKING:
    from checkmate.frontiers.summary import TradeOff
    from checkmate.ir import Schedule, SolveResult
    from checkmate.largest.of_model import LargestBatch
    from checkmate.largest.on_cards import CardPlan
    from checkmate.planning.graph_info import GraphInfo
    from checkmate.policies.policy import Policy
    from checkmate.reports.gather import Gathered
    from checkmate.solvers.constraints import Constraints
    from checkmate.solvers.problem import Listener

_BUDGETS = 12


def read_graph(path: str | Path) -> Graph:
    """Return the graph in a file, or a graph by its name.

    A file is a graph, a saved exploration (only its graph is read) or a node-link graph. A name is that of a
    bundled graph, like ``unet-b8.graph``, or a network of the paper (``paper.unet@64``).

    Raises:
        FormatError: the file is missing or broken; the message names the file and the field. UsageError:
        there is no such network.

    >>> checkmate.read_graph("unet-b8.graph").n
    """
    return graph_of(path)


def read_schedule(path: str | Path, graph: GraphLike) -> SolveResult:
    """Return the result in a schedule file; ``graph`` is as for ``info``.

    Raises:
        FormatError: the file is not a valid schedule. FingerprintMismatchError: it is for another graph.
    """
    read = graph_of(graph)
    return replace(result_of(Path(path), read), graph=read)


def write_graph(path: str | Path, graph: GraphLike) -> None:
    """Write a graph, as for ``info``; gzip where ``path`` ends in ``.gz``.

    Raises:
        FormatError: the file cannot be written.
    """
    formats.write_graph(Path(path), graph_of(graph))


def write_schedule(path: str | Path, graph: GraphLike, result: SolveResult) -> None:
    """Write what ``solve`` returned; ``graph`` is as for ``info``.

    Raises:
        FormatError: the file cannot be written. NoScheduleError: there is no schedule to write.
    """
    formats.write_schedule(Path(path), graph_of(graph), result)


def write_matrices(path: str | Path, graph: GraphLike, schedule: Schedule) -> None:
    """Write the matrices R and S and the ``order`` as ``.npz``.

    R and S are bool, stages x ops, with columns in op order. ``order`` is the op that ends each stage.
    ``graph`` is as for ``info``.

    Raises:
        FormatError: the file cannot be written.
    """
    formats.write_matrices(Path(path), graph_of(graph), schedule)


def info(graph: GraphLike) -> GraphInfo:
    """Return what a graph holds and what fills its peak.

    It works like the command ``checkmate info``. ``graph`` is a graph, its file, a bundled graph's name or a
    network of the paper (``paper.unet@64``). Sizes are in bytes, costs in the graph's unit. ``to_json()`` of
    the answer is what ``checkmate info --json`` prints.

    Raises:
        FormatError: the file is missing or broken. UsageError: there is no such network.

    >>> checkmate.info("paper.unet").minimum.bytes
    """
    from checkmate.planning.graph_info import graph_info

    return graph_info(graph_of(graph))


def frontier(
    graph: GraphLike,
    budgets: int | str | Sequence[BudgetLike] = _BUDGETS,
    *,
    solver: str = "auto",
    baselines: Sequence[str] = BASELINES,
    options: SolveOptions | None = None,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
) -> TradeOff:
    """Solve a graph at many budgets: memory against cost.

    The answer is the trade-off curve. ``graph`` is as for ``info``. ``budgets`` is how many, from the least
    memory to keep-everything, or which: ``"25%,50%,8GiB"``, or a list of sizes in bytes, texts and
    ``Budget``. ``baselines`` are solvers to show beside it. The options' time limit (60 s by default) is for
    all budgets together: first evenly split, then where the gap is widest. Cancelling, also by Ctrl-C, keeps
    what was found. ``rows`` of the answer has one entry per budget, by rising budget. Progress is written to
    standard error, unless ``quiet``; ``report`` gets it instead.

    Raises:
        UsageError: a budget cannot be read, or there are fewer than two to choose. SolverUnavailableError:
        the solver or a baseline is unknown or not installed. FormatError: the graph's file is missing or
        broken.

    >>> curve = checkmate.frontier("paper.unet", "25%,50%,8GiB")
    >>> [(row.budget_bytes, row.status, row.gap) for row in curve.rows]
    """
    from checkmate.frontiers.sweep import trade_off

    with progress_line(quiet=quiet, report=report) as told:
        return trade_off(
            graph_of(graph),
            budgets_of(budgets),
            solver=solver,
            options=options,
            baselines=list(baselines),
            report=told,
            cancelled=cancelled,
        )


def solve(
    graph: GraphLike,
    budget: BudgetLike,
    *,
    solver: str = "auto",
    options: SolveOptions | None = None,
    listener: Listener | None = None,
    constraints: Constraints | None = None,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
) -> SolveResult:
    """Return the best schedule that ``solver`` finds for a budget.

    It works like the command ``checkmate solve``. ``graph`` is as for ``info``. ``budget`` is ``"6GiB"``,
    bytes, a share of the keep-everything peak (``"60%"``) or ``"min"``. The schedule's peak is at most the
    budget, and it keeps the constraints. A budget below what one op needs is INFEASIBLE at once; the message
    names that op and its values. Every schedule has passed the independent check. What is proved under
    constraints says so: they are in the result's assumptions. The options' time limit is 60 s by default.

    Progress is written to standard error, unless ``quiet``; ``report`` gets it instead. A ``listener`` hears
    all that the solver tells, in place of both, and cancels by itself.

    Raises:
        UsageError: the budget cannot be read. SolverUnavailableError: the solver is unknown or not installed.
        SolverCrashedError: its schedule is wrong. UnknownNameError: a constraint names something that the
        graph does not have. FormatError: the graph's file is missing or broken.

    >>> checkmate.solve("unet-b8.graph", "60%").overhead
    """
    from checkmate import planning

    read = graph_of(graph)
    with progress_line(quiet=quiet or listener is not None, report=report) as told:
        found = planning.solve(
            read,
            planning.resolve_budget(read, budget, constraints=constraints),
            solver=solver,
            options=options,
            listener=listener or planning.Following(read, told, cancelled),
            constraints=constraints,
        )
    return replace(found, graph=read)


def policy(
    model: GraphLike | ModelLike,
    budget: BudgetLike,
    *,
    batch_size: int | None = None,
    costs: str = "measured",
    options: SolveOptions | None = None,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
    **trace: Unpack[TraceOptions],
) -> Policy:
    """Return the layers to compute again within a budget, as code to paste.

    It works like the command ``checkmate policy``: the code needs only the framework. ``model``,
    ``batch_size`` and ``trace`` are as for ``max_batch``, ``costs`` as for ``profile``, and ``budget`` as for
    ``solve``. A quarter of the options' time limit (60 s by default), 15 s at most, is for the policy, the
    rest for the best schedule beside it. Progress is as for ``frontier``.

    Raises:
        UsageError: an argument cannot be read. FormatError: a graph's file is missing or broken. LoadError,
        TraceError: of a model.

    >>> print(checkmate.policy("unet-b8.graph", "60%"))
    """
    from checkmate import planning
    from checkmate.policies.policy import find_policy

    with (
        _graph_or_request(model, batch_size, trace) as subject,
        progress_line(quiet=quiet, report=report) as told,
    ):
        graph = subject
        if not isinstance(graph, Graph):
            request = request_of(graph, batch_size=batch_size)
            graph = planning.profile(request, costs=costs, report=told, cancelled=cancelled)
        budget_bytes = planning.resolve_budget(graph, budget)
        return find_policy(graph, budget_bytes, options=options, report=told, cancelled=cancelled)


def sweep(
    graphs: Sequence[GraphLike],
    budgets: int | str | Sequence[BudgetLike] = _BUDGETS,
    *,
    engine: str | None = None,
    jobs: int | None = None,
    journal: str | Path | None = None,
    solver: str = "auto",
    baselines: Sequence[str] = BASELINES,
    options: SolveOptions | None = None,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
) -> list[TradeOff]:
    """Return the curves of many graphs, solved on an engine.

    Every budget is solved by itself. This is ``checkmate frontier G1.json G2.json --engine ...``. ``engine``
    is ``processes``, ``processes:4`` or ``dask://host:port``; ``jobs`` is how many
    solves run at once at most. Without an engine, ``jobs`` processes are used, one by default. ``journal`` is
    a file that keeps each finished solve: a sweep that was interrupted goes on where it was. The options'
    time limit (60 s by default) is for each graph. Other arguments are as for ``frontier``; answers are in
    the order of ``graphs``.

    Raises:
        EngineUnavailableError: the engine is not there. FormatError: a graph or the journal cannot be used.
        Others as ``frontier``.

    >>> curves = checkmate.sweep(["a.json", "b.json"], engine="processes:4", journal="sweep.jsonl")
    """
    from checkmate.frontiers.on_engine import trade_offs_on
    from checkmate.sweeps.engine import Engine, open_pool, parse_engine
    from checkmate.sweeps.journal import open_journal

    asked = options or SolveOptions()
    try:
        where = Engine(count=jobs or 1) if engine is None else parse_engine(engine)
    except ValueError as error:
        raise UsageError(str(error)) from error
    wanted, given = budgets_of(budgets), [graph_of(graph) for graph in graphs]
    with ExitStack() as stack:
        kept = None if journal is None else stack.enter_context(open_journal(Path(journal)))
        pool = stack.enter_context(open_pool(where, jobs=jobs, workers=asked.workers, cancelled=cancelled))
        told = stack.enter_context(progress_line(quiet=quiet, report=report))
        return trade_offs_on(
            given,
            wanted,
            pool,
            solver=solver,
            options=asked,
            baselines=list(baselines),
            journal=kept,
            report=told,
            cancelled=cancelled,
        )


def max_batch(
    model: GraphLike | ModelLike,
    budget: BudgetLike,
    *,
    max_overhead: str | float | None = None,
    batch_size: int | None = None,
    fixed: str | int | None = None,
    options: SolveOptions | None = None,
    measure: Literal["auto", "always", "never"] = "auto",
    measure_limit: float = 120.0,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
    **trace: Unpack[TraceOptions],
) -> LargestBatch:
    """Return the largest batch whose step fits a budget.

    It works like the command ``checkmate max-batch``. ``model`` is a graph as for ``info``, or a model as for
    ``profile``: a Keras model, its name or path, or a ``ModelRequest``, whose batch size is not used.
    ``trace`` are the options of its step: ``loss``, ``optimizer``, ``input_shape``, ``mixed_precision``,
    ``device``, ``allow_code``. ``budget`` is a size: ``"16GiB"`` or bytes. ``max_overhead`` is the extra cost
    allowed: ``"5%"``, 0.05 or ``"any"``; by default one extra forward pass. ``batch_size`` is that of the
    graph where it does not say, or the first of the two at which a model is traced. ``fixed`` are bytes that
    are always live and do not grow, instead of the graph's own. The options' time limit (60 s by default) is
    for the search; ``gap`` stops it that near to the proved limit. ``measure``: a model's step is run at the
    largest batch found, ``auto`` where the device has the memory free and it should not take longer than
    ``measure_limit`` seconds. Progress is as for ``frontier``.

    Raises:
        UsageError: an argument cannot be read, no batch size is known, or nothing grows with it.
        InfeasibleError: not even one example fits, proved. NoScheduleError: no batch was found. LoadError,
        TraceError: of a model.

    >>> checkmate.max_batch("paper.unet", "16GiB").batch
    """
    from checkmate.largest.of_model import largest_batch

    if measure not in ("auto", "always", "never"):
        raise UsageError(f"measure is {measure!r}", hint="choose auto, always or never")
    with (
        _graph_or_request(model, batch_size, trace) as subject,
        progress_line(quiet=quiet, report=report) as told,
    ):
        return largest_batch(
            subject,
            budget_bytes_of(budget),
            max_overhead=overhead_of(max_overhead),
            batch_size=batch_size,
            fixed_bytes=bytes_of(fixed),
            options=options,
            measure=measure,
            measure_limit_s=measure_limit,
            report=told,
            cancelled=cancelled,
        )


@contextmanager
def _graph_or_request(
    model: GraphLike | ModelLike, batch_size: int | None, trace: TraceOptions
) -> Iterator[Graph | ModelRequest]:
    from checkmate.largest.of_model import graph_or_request

    found = graph_or_request(model, batch_size) if isinstance(model, str | Path) else model
    if isinstance(found, Graph):
        yield found
        return
    with as_request(model, **trace) as request:
        yield request


def plan(
    model: GraphLike | ModelLike,
    devices: Sequence[str] = (),
    *,
    max_overhead: str | float | None = None,
    batch_size: int | None = None,
    reserve: str | int | None = None,
    options: SolveOptions | None = None,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
    **trace: Unpack[TraceOptions],
) -> tuple[CardPlan, ...]:
    """Estimate the largest batch and an example's seconds per card.

    It works like the command ``checkmate plan``: nothing is run on a card. ``model`` and ``trace`` are as for
    ``max_batch``; a graph's costs have to be counts of operations. ``devices`` are names of cards, or parts
    of them; none: all of the table. ``reserve``: bytes of each card that are not there for the step (2.75 GiB
    by default, an estimate). The options' time limit (60 s by default) is for all cards together. When
    cancelled, the cards that are done are returned. Progress is as for ``frontier``.

    Raises:
        UsageError: there is no such card, costs are not operations, or no batch size is known. LoadError,
        TraceError: of a model.

    >>> [row.largest.batch for row in checkmate.plan("paper.unet", ["T4"])]
    """
    from checkmate.catalog.cards import cards_called, common_cards
    from checkmate.largest.of_model import scaling_of
    from checkmate.largest.on_cards import plans_for_cards

    cards = cards_called(devices)
    given = bytes_of(reserve)
    with (
        _graph_or_request(model, batch_size, trace) as subject,
        progress_line(quiet=quiet, report=report) as told,
    ):
        return plans_for_cards(
            scaling_of(subject, batch_size=batch_size, report=told, cancelled=cancelled),
            cards,
            reserve_bytes=common_cards().reserve_bytes if given is None else given,
            max_overhead=overhead_of(max_overhead),
            options=options or SolveOptions(time_limit_s=60.0),
            report=told,
            cancelled=cancelled,
        )


def report(
    results: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    title: str | None = None,
    report: Report | None = None,
    quiet: bool = False,
    cancelled: Cancelled = never,
) -> Gathered:
    """Write result files as one self-contained HTML page.

    It works like the command ``checkmate report``. ``results`` are files or folders of what the commands
    wrote; each is a section. ``output`` is the page to write. Progress is as for ``frontier``. The answer has
    the ``sections`` of the page, and in ``left_out`` a sentence for each file of a folder that is no result.

    Raises:
        FormatError: a file given by name is no result, or the page cannot be written. UsageError: ``output``
        is there and is no page. CancelledError: the user cancelled; nothing was written.

    >>> checkmate.report(["paper.json", "curve.json", "out"], "report.html")
    """
    from checkmate.reports.gather import TITLE, write_page

    given = [results] if isinstance(results, str | Path) else results
    paths = [Path(path) for path in given]
    with progress_line(quiet=quiet, report=report) as told:
        return write_page(paths, Path(output), title=title or TITLE, report=told, cancelled=cancelled)
