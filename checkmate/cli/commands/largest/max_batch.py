"""Parse and run ``checkmate max-batch``.

It finds the largest batch of graph files and models within a budget.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkmate.cli.commands.largest import max_batch_measured, max_batch_text, max_input
from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output, sweep_options
from checkmate.errors import CancelledError, CheckmateError, ExitCode, NoScheduleError, UsageError
from checkmate.progress import Report, stop_if
from checkmate.request import ModelRequest
from checkmate.terminal import Interrupt, progress_line

if TYPE_CHECKING:
    from checkmate.largest.batch import MaxBatch
    from checkmate.largest.measured import MeasuredSize
    from checkmate.largest.scaling import BatchScaling

_SECONDS = 60.0


def add_max_batch(commands: Any, common: Any) -> None:
    """Add ``max-batch`` to the parser of all commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "max-batch",
        parents=[common],
        help="find the largest batch that fits a budget",
        description="Find the largest batch size whose schedule fits the budget within a given extra cost. "
        "A graph file is extrapolated from its own batch size. A model's step is traced at two batch sizes, "
        "and extrapolated from there, with operation counts as costs.",
        epilog="Example: checkmate max-batch resnet50.json --budget 16GiB -o schedule.json",
    )
    _add_question(parser)
    _add_sizes(parser)
    _add_files(parser)
    _add_search(parser)
    parser.set_defaults(command=_max_batch)


def _add_question(parser: argparse.ArgumentParser) -> None:
    """Add the models, the budget and the extra cost allowed."""
    add = parser.add_argument
    add(
        "models",
        type=cli_options.bundled_or_given,
        metavar="G.json|MODEL",
        nargs="+",
        help="a graph file (.json, .json.gz), a network of the paper (paper.unet), or a model as for "
        "profile; several are searched one after the other, or on the --engine",
    )
    add(
        "--budget",
        type=cli_options.fixed_budget,
        required=True,
        metavar="SIZE",
        help="the budget: 6.5GiB or 16GB",
    )
    add(
        "--max-overhead",
        type=cli_options.overhead,
        metavar="X",
        help="the extra cost allowed: 5%%, 0.05 or any (default: one extra forward pass)",
    )


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-b",
        "--batch-size",
        type=cli_options.positive,
        metavar="N",
        help="for a graph file: the batch size that it was made for, if the file does not say it; for a "
        "model: the smaller of the two batch sizes to trace; with --dimension input: the batch size (default "
        "32)",
    )
    add(
        "--dimension",
        choices=("batch", "input"),
        default="batch",
        help="what to make as large as possible: the batch (default), or the input's height and width",
    )
    add(
        "--fixed",
        type=cli_options.size_in_bytes,
        metavar="SIZE",
        help="bytes that are always in memory and do not grow with the batch, such as parameters, their "
        "gradients and optimizer state; used instead of the graph's own number",
    )


def _add_files(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-o",
        "--output",
        type=Path,
        metavar="S.json",
        help="write the schedule for the largest batch to this file; for several models, put {graph} into "
        "its name",
    )
    add(
        "-g",
        "--graph-output",
        type=Path,
        metavar="G2.json",
        help="write the graph at that batch to this file (default: S.graph.json, with -o)",
    )


def _add_search(parser: argparse.ArgumentParser) -> None:
    """Add how to search, to measure and to use an engine."""
    add = parser.add_argument
    add(
        "--time-limit",
        type=cli_options.seconds,
        default=_SECONDS,
        help="seconds to search for each model's largest size; tracing, compiling the search once "
        f"and measuring (--measure-limit) take their own (default {_SECONDS:g})",
    )
    add(
        "--gap",
        type=cli_options.fraction,
        default=0.0,
        help="stop when this close to the proved limit, e.g. 0.01",
    )
    cli_options.add_training(parser)
    cli_options.add_resources(parser)
    max_batch_measured.add_measuring(parser)
    sweep_options.add_engine(
        parser,
        moves=False,
        why="By default this process runs one search after the other. On an engine each model's "
        "search is one task. Tasks that run at once share cores, and the answers say so. Models are "
        "always traced and measured in this process, one after the other.",
    )


def traces(options: argparse.Namespace) -> bool:
    """Return whether the command is ``max-batch`` of a model. TensorFlow traces a model."""
    if options.command is not _max_batch:
        return False
    from checkmate.graphs.by_name import names_graph

    return not all(map(names_graph, options.models))


def _is_model(options: argparse.Namespace) -> bool:
    from checkmate.graphs.by_name import names_graph

    return not names_graph(options.model)


def _max_batch(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.formats.files import require_writable

    models = [argparse.Namespace(**{**vars(options), "model": model}) for model in options.models]
    files = [_files(each, several=len(models) > 1) for each in models]
    _require_different([path for pair in files for path in pair if path is not None])
    for path in (path for pair in files for path in pair if path is not None):
        require_writable(path)
    if options.dimension == "input":
        _require_alone(options)
        return max_input.run(models[0], interrupt, *files[0])
    for each in models:
        max_batch_measured.require_measurable(each, a_model=_is_model(each))
    with progress_line(quiet=options.quiet) as report:
        found = _found(options, models, report, interrupt)
        if len(models) == 1 and isinstance(found[0], CheckmateError):
            raise found[0]
        measured = [_measured(*pair, report, interrupt) for pair in zip(models, found, strict=True)]
    told, said = [], []
    for each, one, shown, (schedule, graph_file) in zip(models, found, measured, files, strict=True):
        if isinstance(one, CheckmateError):
            told.append({"name": each.model, "batch": None, "message": str(one), "exit_code": one.exit_code})
            said.append(f"{each.model}: {one}")
            continue
        _write(one, shown, schedule, graph_file)
        told.append(max_batch_text.facts(one, shown))
        said.append(max_batch_text.text(one, shown, schedule, graph_file))
    whole = told[0] if len(told) == 1 else {"format": "checkmate-max-batches", "version": 1, "batches": told}
    output.show(options.json, whole, "\n\n".join(said))
    return _exit_code(found, measured)


def _found(
    options: argparse.Namespace, models: list[argparse.Namespace], report: Report, interrupt: Interrupt
) -> list[MaxBatch | CheckmateError]:
    """Search for each model in turn, or for all on an engine.

    With one model alone, an error is raised; otherwise the error is that model's answer.
    """
    from checkmate.largest.batch import max_batch
    from checkmate.largest.on_engine import max_batches_on
    from checkmate.solvers.problem import SolveOptions

    asked: dict[str, Any] = {
        "max_overhead": options.max_overhead,
        "options": SolveOptions(
            time_limit_s=options.time_limit, gap=options.gap, workers=options.workers, seed=options.seed
        ),
        "report": report,
        "cancelled": interrupt,
    }
    scalings = [_scaling(each, report, interrupt) for each in models]
    if sweep_options.wants_engine(options):
        with sweep_options.opened(options, interrupt) as on:
            return max_batches_on(scalings, options.budget, on.pool, journal=on.journal, **asked)
    found: list[MaxBatch | CheckmateError] = []
    for scaling in scalings:
        try:
            stop_if(interrupt)
            found.append(max_batch(scaling, options.budget, **asked))
        except (NoScheduleError, CancelledError) as error:
            found.append(error)
    return found


def _measured(
    options: argparse.Namespace, found: MaxBatch | CheckmateError, report: Report, interrupt: Interrupt
) -> MeasuredSize:
    from checkmate.largest.measured import MeasuredSize

    why = max_batch_measured.why_not(options, a_model=_is_model(options))
    if isinstance(found, CheckmateError) or found.cancelled or interrupt.asked or why:
        return MeasuredSize(note=why or "interrupted")
    steps = found.result.require_schedule().steps.tolist()
    return max_batch_measured.measured(
        options, max_batch_measured.batches(options, found), steps, report, interrupt
    )


def _exit_code(found: Sequence[MaxBatch | CheckmateError], measured: Sequence[MeasuredSize]) -> int:
    """Return the exit code.

    130: interrupted. 0: there is a batch. 3: it is proved that there is none. Otherwise the code of the
    error.
    """
    from checkmate.largest.batch import MaxBatch

    codes = {0 if isinstance(one, MaxBatch) else one.exit_code for one in found}
    stopped = any(isinstance(one, MaxBatch) and one.cancelled for one in found) or any(
        one.cancelled for one in measured
    )
    if stopped or ExitCode.INTERRUPTED in codes:
        return ExitCode.INTERRUPTED
    return 0 if 0 in codes else max(codes)


def _require_alone(options: argparse.Namespace) -> None:
    if len(options.models) > 1 or sweep_options.wants_engine(options):
        raise UsageError(
            "--dimension input takes one model, and no engine",
            hint="name one model, and leave out --engine, --jobs and --journal",
        )


def _scaling(options: argparse.Namespace, report: Report, interrupt: Interrupt) -> BatchScaling:
    from checkmate.largest.of_model import graph_or_request, scaling_of

    found = graph_or_request(options.model, options.batch_size)
    return scaling_of(
        cli_options.model_request(options) if isinstance(found, ModelRequest) else found,
        batch_size=options.batch_size,
        fixed_bytes=options.fixed,
        report=report,
        cancelled=interrupt,
    )


def _files(options: argparse.Namespace, *, several: bool) -> tuple[Path | None, Path | None]:
    """Return the files for this model's schedule and graph.

    ``{graph}`` in a name becomes the model's name.

    Raises:
        UsageError: there are several models and one name for all, or a file would take the place of
        another.
    """
    name = _stem(Path(options.model).name).replace(":", "-")
    paths = []
    for given in (options.output, options.graph_output):
        if given is not None and several and "{graph}" not in given.name:
            raise UsageError(
                f"several answers cannot go into one {given.name}", hint="write {graph} in the file's name"
            )
        paths.append(given and given.with_name(given.name.replace("{graph}", name)))
    return paths[0], _graph_file(options, *paths)


def _stem(name: str) -> str:
    return name.removesuffix(".gz").removesuffix(".json")


def _graph_file(options: argparse.Namespace, schedule: Path | None, given: Path | None) -> Path | None:
    if given is not None or schedule is None:
        path = given
    else:
        path = schedule.with_name(f"{_stem(schedule.name)}.graph.json")
    if path is not None and schedule is not None and path.resolve() == schedule.resolve():
        raise UsageError(
            "the schedule and the graph cannot go into one file", hint="give another --graph-output"
        )
    if path is not None and path.resolve() == Path(options.model).resolve():
        raise UsageError(f"{path} is the graph that is read", hint="give another --graph-output")
    return path


def _require_different(paths: list[Path]) -> None:
    twice = next((path for place, path in enumerate(paths) if path in paths[:place]), None)
    if twice is not None:
        raise UsageError(
            f"two answers would go into {twice}", hint="give each model once, and with its own name"
        )


def _write(found: MaxBatch, measured: MeasuredSize, schedule: Path | None, graph_file: Path | None) -> None:
    """Write the schedule and the graph of the largest batch.

    If a batch was measured, that one is written: a graph that was traced at that batch, ready to be
    exported.
    """
    from checkmate.formats import write_graph, write_schedule

    graph, result, best = found.graph, found.result, measured.fitting
    if best is not None and best.graph is not None and best.result is not None:
        graph, result = best.graph, best.result
    if graph_file is not None:
        write_graph(graph_file, graph)
    if schedule is not None:
        write_schedule(schedule, graph, result)
