"""Parse and run ``bench peers``, also for ``bench fidelity --peers``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkmate.cli.shared import options as cli_options
from checkmate.cli.shared import output as cli_text
from checkmate.errors import CancelledError, ExitCode
from checkmate.progress import Progress
from checkmate.request import Target
from checkmate.terminal import Interrupt, progress_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from checkmate.bench.fidelity.rows import Measured

SMOKE_SECONDS, SECONDS = 2.0, 8.0
# The model of --smoke: XLA compiles the smaller one sooner.
_SMOKE = {Target.EXECUTOR: "regularized", Target.XLA: "encoder_small"}


def add_peers(subjects: Any, common: Any) -> None:
    """Add ``peers`` to what ``bench`` measures."""
    parser: argparse.ArgumentParser = subjects.add_parser(
        "peers",
        parents=[common],
        help="compare Keras's and TensorFlow's own ways to save memory with ours",
        description="Train every model with each of these: keras.RematScope (all modes), keras.remat, "
        "tf.recompute_grad, and checkpoints at √n. Then train it with our schedules, in the memory that each "
        "of them took. The table shows measured peak and time. It also says whether the gradients and the "
        "state (moving statistics, seeds, counters) are those of the plain step. With --target xla all steps "
        "are compiled by XLA. The table then shows the memory that XLA assigned, not a measured peak. "
        "A method that fails has a row with its error. With -o, what an earlier run saved in that file is "
        "not measured again. The exit code is 0 when everything was measured, or 5 if one of our schedules "
        "does not train as the plain step does.",
        epilog="Example: checkmate bench peers --models encoder,unet_small -o peers.json",
    )
    add = parser.add_argument
    add(
        "--models",
        type=cli_options.names,
        default=[],
        metavar="A,B",
        help="names of the zoo (default: the whole zoo), or any model with -b",
    )
    add("-b", "--batch-size", type=cli_options.positive, help="use this batch size instead of the zoo's own")
    add("--time-limit", type=cli_options.seconds, help=f"seconds for each solve (default {SECONDS:g})")
    cli_options.add_target(parser, "the executor")
    add("--peers-only", action="store_true", help="leave out our own schedules")
    add("--allow-code", action="store_true", help="run the code of models given as file.py:function")
    add("--smoke", action="store_true", help="use one small model, to see whether everything works")
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE.json",
        help="save the --json output in this file, while measuring",
    )
    parser.set_defaults(command=_peers)


def _peers(options: argparse.Namespace, interrupt: Interrupt) -> int:
    from checkmate.bench.fidelity import rows as fidelity

    target = Target(options.target or Target.EXECUTOR)
    smoke = [_SMOKE[target]] if options.smoke else []
    wanted = fidelity.subjects(
        options.models or smoke, batch_size=options.batch_size, allow_code=options.allow_code
    )
    if target is Target.XLA:
        wanted = [replace(each, request=replace(each.request, target=target.value)) for each in wanted]
    limit = options.time_limit or (SMOKE_SECONDS if options.smoke else SECONDS)
    found, text, code = measured(
        wanted,
        limit,
        options.output,
        target=target,
        ours=not options.peers_only,
        quiet=options.quiet,
        interrupt=interrupt,
    )
    cli_text.show(options.json, found, text)
    return code


def measured(
    wanted: Sequence[Measured],
    limit_s: float,
    output: Path | None,
    *,
    target: Target = Target.EXECUTOR,
    ours: bool = True,
    quiet: bool,
    interrupt: Interrupt,
) -> tuple[dict[str, Any], str, ExitCode]:
    """Return the facts, the table and the exit code.

    ``output`` is written after each model, and a later run continues from it. ``target``: what runs the steps
    of ``wanted``.
    """
    from checkmate.bench.common.machine import this_machine
    from checkmate.bench.peers import rows as peers
    from checkmate.bench.peers import table as peers_table
    from checkmate.formats.files import require_writable
    from checkmate.solvers.problem import SolveOptions

    solve_options = SolveOptions(time_limit_s=limit_s)
    machine = this_machine()
    done: list[dict[str, Any]] = []
    save: Any = lambda rows: None  # noqa: E731
    if output:
        require_writable(output)
        done = peers.read_rows(output, target)
        save = peers.save_to(output, machine, solve_options, target)
    with progress_line(quiet=quiet) as report:

        def told(row: dict[str, Any]) -> None:
            report(Progress("peers", message=peers_table.line(row, target)))

        try:
            rows = peers.run(
                wanted,
                solve_options,
                ours=ours,
                done=done,
                save=save,
                told=told,
                report=report,
                cancelled=interrupt,
            )
        except CancelledError as error:
            if output is None or not output.exists():
                raise
            hint = "the same command continues where it stopped"
            kept = {"kept": f"{output} has the rows so far"}
            raise CancelledError("cancelled", hint=hint, details=kept) from error
    text = peers_table.text(rows, machine, target) + (f"\nwrote {output}" if output else "")
    wrong = any(row["ours"] and peers.correct(row) is False for row in rows)
    code = ExitCode.NOT_AS_PROMISED if wrong else ExitCode.DONE
    return peers.facts(rows, machine, solve_options, target), text, code
