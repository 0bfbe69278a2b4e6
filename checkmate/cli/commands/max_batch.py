from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkmate.cli import common_options, output
from checkmate.cli.commands import max_batch_text, max_input
from checkmate.errors import CancelledError, CheckmateError, ExitCode, NoScheduleError, UsageError
from checkmate.formats import write_graph, write_schedule
from checkmate.formats.files import require_writable
from checkmate.graphs.by_name import names_graph
from checkmate.ir import Graph
from checkmate.largest.batch import MaxBatch, max_batch
from checkmate.largest.measured import MeasuredSize
from checkmate.largest.of_model import (
    LargestBatch,
    graph_or_request,
    measured_batch,
    require_measurable,
    scaling_of,
)
from checkmate.largest.on_engine import max_batches_on
from checkmate.progress import stop_if
from checkmate.request import ModelRequest
from checkmate.terminal import Interrupt, progress_line


def add_max_batch(parser: argparse.ArgumentParser) -> None:
    common_options.describe(
        parser,
        _max_batch,
        "Find the largest batch whose schedule fits the budget within an extra cost. A graph is extrapolated "
        "from its own batch; a model is traced at two, with operation counts as costs.",
        example="checkmate max-batch resnet50.json --budget 16GiB -o schedule.json",
    )
    _add_question(parser)
    _add_files(parser)
    _add_search(parser)


def _add_question(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "models",
        type=common_options.bundled_or_given,
        metavar="G.json|MODEL",
        nargs="+",
        help="a graph file, a network of the paper (paper.unet), or a model as for profile",
    )
    add(
        "--budget",
        type=common_options.fixed_budget,
        required=True,
        metavar="SIZE",
        help="the budget: 6.5GiB or 16GB",
    )
    common_options.add_max_overhead(parser, common_options.ALLOWED_HELP)
    add(
        "-b",
        "--batch-size",
        type=common_options.positive,
        metavar="N",
        help="of a graph file that does not say it; of a model: the smaller of the two to trace; with "
        "--dimension input: the batch size (default 32)",
    )
    add(
        "--dimension",
        choices=("batch", "input"),
        default="batch",
        help="what to make as large as possible: the batch (default), or the input's height and width",
    )
    add(
        "--fixed",
        type=common_options.size_in_bytes,
        metavar="SIZE",
        help="bytes that do not grow with the batch, such as parameters and optimizer state, in place of the "
        "graph's own number",
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
    common_options.add_time_limit(
        parser,
        60.0,
        "seconds to search for each model's largest size, beside tracing and measuring",
    )
    parser.add_argument(
        "--gap",
        type=common_options.fraction,
        default=0.0,
        help="stop when this close to the proved limit, e.g. 0.01",
    )
    common_options.add_training(parser)
    common_options.add_resources(parser)
    add = parser.add_argument_group(
        "measuring",
        "A model's step is run in a fresh process at the largest size found, and at smaller ones while its "
        "peak is over the budget.",
    ).add_argument
    add(
        "--measure",
        choices=("auto", "always", "never"),
        default="auto",
        help="auto (default): measure where the device has the memory free and --measure-limit should do; "
        "always: without these checks; never",
    )
    add(
        "--measure-limit",
        type=common_options.seconds,
        default=120.0,
        metavar="SECONDS",
        help="seconds for all measuring, unless --measure always is given (default 120)",
    )
    common_options.add_engine(
        parser,
        moves=False,
        why="By default this process runs one search after the other. On an engine each model's search is "
        "one task; tasks that run at once share cores. Models are always traced and measured in this "
        "process.",
    )


def _traces(options: argparse.Namespace) -> bool:
    return not all(map(names_graph, options.models))


@dataclass(frozen=True)
class _Subject:
    options: argparse.Namespace
    name: str
    schedule: Path | None
    graph_file: Path | None

    @property
    def files(self) -> list[Path]:
        return [path for path in (self.schedule, self.graph_file) if path is not None]

    def read(self) -> Graph | ModelRequest:
        found = graph_or_request(self.name, self.options.batch_size)
        return found if isinstance(found, Graph) else common_options.model_request(self.options, self.name)


def _max_batch(options: argparse.Namespace, interrupt: Interrupt) -> int:
    several = len(options.models) > 1
    subjects = [_Subject(options, name, *_files(options, name, several=several)) for name in options.models]
    files = [path for each in subjects for path in each.files]
    _require_different(files)
    for path in files:
        require_writable(path)
    if options.dimension == "input":
        _require_alone(options)
        (alone,) = subjects
        named = argparse.Namespace(**vars(options), model=alone.name)
        return max_input.run(named, interrupt, alone.schedule, alone.graph_file)
    for name in options.models:
        require_measurable(
            name, a_model=not names_graph(name), measure=options.measure, fixed_bytes=options.fixed
        )
    with progress_line(quiet=options.quiet) as report:
        given = [each.read() for each in subjects]
        asked = common_options.search_arguments(options, report, interrupt)
        found = _found(options, given, asked)
        if not several and isinstance(found[0], CheckmateError):
            raise found[0]
        measured = [_measured(options, *pair, asked) for pair in zip(given, found, strict=True)]
    return _show(options, subjects, found, measured)


def _found(
    options: argparse.Namespace, given: Sequence[Graph | ModelRequest], asked: dict[str, Any]
) -> list[MaxBatch | CheckmateError]:
    report, interrupt = asked["report"], asked["cancelled"]
    sizes = {"batch_size": options.batch_size, "fixed_bytes": options.fixed}
    scalings = [scaling_of(each, **sizes, report=report, cancelled=interrupt) for each in given]
    if common_options.wants_engine(options):
        with common_options.opened_sweep(options, interrupt) as (pool, journal):
            return max_batches_on(scalings, options.budget, pool, journal=journal, **asked)
    found: list[MaxBatch | CheckmateError] = []
    for scaling in scalings:
        try:
            stop_if(interrupt)
            found.append(max_batch(scaling, options.budget, **asked))
        except (NoScheduleError, CancelledError) as error:
            found.append(error)
    return found


def _measured(
    options: argparse.Namespace,
    given: Graph | ModelRequest,
    found: MaxBatch | CheckmateError,
    asked: dict[str, Any],
) -> MeasuredSize:
    if isinstance(found, CheckmateError) or asked["cancelled"].asked:
        return MeasuredSize(note="interrupted")
    return measured_batch(
        given,
        found,
        options.budget,
        fixed_bytes=options.fixed,
        measure=options.measure,
        measure_limit_s=options.measure_limit,
        **asked,
    )


def _show(
    options: argparse.Namespace,
    subjects: Sequence[_Subject],
    found: Sequence[MaxBatch | CheckmateError],
    measured: Sequence[MeasuredSize],
) -> int:
    told, said = [], []
    for each, one, shown in zip(subjects, found, measured, strict=True):
        if isinstance(one, CheckmateError):
            told.append({"name": each.name, "batch": None, "message": str(one), "exit_code": one.exit_code})
            said.append(f"{each.name}: {one}")
            continue
        _write(one, shown, each)
        told.append(max_batch_text.facts(one, shown))
        said.append(max_batch_text.text(one, shown, each.files))
    whole = told[0] if len(told) == 1 else {"format": "checkmate-max-batches", "version": 1, "batches": told}
    output.show(options.json, whole, "\n\n".join(said))
    return _exit_code(found, measured)


def _exit_code(found: Sequence[MaxBatch | CheckmateError], measured: Sequence[MeasuredSize]) -> int:
    codes = {one.exit_code if isinstance(one, CheckmateError) else 0 for one in found}
    stopped = any(not isinstance(one, CheckmateError) and one.cancelled for one in found)
    if stopped or any(one.cancelled for one in measured) or ExitCode.INTERRUPTED in codes:
        return ExitCode.INTERRUPTED
    return 0 if 0 in codes else max(codes)


def _require_alone(options: argparse.Namespace) -> None:
    if len(options.models) > 1 or common_options.wants_engine(options):
        raise UsageError(
            "--dimension input takes one model, and no engine",
            hint="name one model, and leave out --engine, --jobs and --journal",
        )


def _files(options: argparse.Namespace, model: str, *, several: bool) -> tuple[Path | None, Path | None]:
    name = _stem(Path(model).name).replace(":", "-")
    paths = []
    for given in (options.output, options.graph_output):
        if given is not None and several and "{graph}" not in given.name:
            raise UsageError(
                f"several answers cannot go into one {given.name}", hint="write {graph} in the file's name"
            )
        paths.append(given and given.with_name(given.name.replace("{graph}", name)))
    return paths[0], _graph_file(model, *paths)


def _stem(name: str) -> str:
    return name.removesuffix(".gz").removesuffix(".json")


def _graph_file(model: str, schedule: Path | None, given: Path | None) -> Path | None:
    if given is not None or schedule is None:
        path = given
    else:
        path = schedule.with_name(f"{_stem(schedule.name)}.graph.json")
    if path is not None and schedule is not None and path.resolve() == schedule.resolve():
        raise UsageError(
            "the schedule and the graph cannot go into one file", hint="give another --graph-output"
        )
    if path is not None and path.resolve() == Path(model).resolve():
        raise UsageError(f"{path} is the graph that is read", hint="give another --graph-output")
    return path


def _require_different(paths: list[Path]) -> None:
    twice = next((path for place, path in enumerate(paths) if path in paths[:place]), None)
    if twice is not None:
        raise UsageError(
            f"two answers would go into {twice}", hint="give each model once, and with its own name"
        )


def _write(found: MaxBatch, measured: MeasuredSize, subject: _Subject) -> None:
    """If a batch was measured, the graph that was traced there is written, ready to be exported."""
    best = LargestBatch(found, measured)
    if subject.graph_file is not None:
        write_graph(subject.graph_file, best.graph)
    if subject.schedule is not None:
        write_schedule(subject.schedule, best.graph, best.result)
